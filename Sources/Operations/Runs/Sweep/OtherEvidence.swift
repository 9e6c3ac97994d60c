import EvidenceJournal
import TokenHygiene
import TokenTable

extension Sweep {
    /// Notes the batches that this run leaves, whoever heard them, and what the state folder has besides.
    mutating func noteOpen(_ evidence: EvidenceRun, _ folder: StateFolder) throws {
        let open = try evidence.batches.all(.held, .waiting, .applying).filter(evidence.isNamed)
        let waiting = open.filter { $0.state != .held }
        let held = open.filter { $0.state == .held }
        if !waiting.isEmpty { outcome.note(.pending) }
        // What the import of a log brought and is held is noted with it. The hold of another source says
        // nothing about the file, and would hide that it was not taken.
        let isImport = plan.file.map { $0.layout != nil } ?? false
        if !held.isEmpty, !isImport { outcome.note(.held) }
        // A run over everything that waits has said why it could not go on.
        guard plan.gateways == nil, !context.interrupt.isTripped else { return }
        let own = Set(outcome.report.apps.compactMap(\.batch))
        func others(_ batches: [ReportBatch]) -> [OtherEvidence] {
            batches.filter { !own.contains($0.id) }.map {
                ("batch", $0.id, $0.partition, $0.reports)
            }
        }
        let lists = try folder.lists(.held, .pending).filter {
            !own.contains($0.id)
        }.map { list -> OtherEvidence in
            var reports = 0
            do {
                reports = try folder.counts(of: list).usable
            } catch {
                outcome.fail(.wrapping(error, at: .state))
            }
            return ("list", list.id, list.partition, reports)
        }
        let left = others(waiting) + lists
        // A release has counted what is outside of its digest.
        if outcome.report.waiting == nil, let first = left.first {
            let reports = left.reduce(0) { $0 + $1.reports }
            if reports > 0 { outcome.report.waiting = reports }
            context.log.warning(
                """
                other evidence waits: \(Self.names(left)); the next sweep takes it up, or pushsweep replay --batch \
                \(first.id)
                """)
        }
        let otherHeld = others(held)
        guard !otherHeld.isEmpty else { return }
        context.log.warning(
            "other evidence is held: \(Self.names(otherHeld)); see pushsweep holds list")
    }

    private typealias OtherEvidence = (
        noun: String, id: String, partition: Partition, reports: Int
    )

    private static func names(_ evidence: [OtherEvidence]) -> String {
        let named = evidence.prefix(3).map { "\($0.noun) \($0.id) of \($0.partition)" }
        let more = evidence.count > 3 ? ["\(evidence.count - 3) more"] : []
        return (named + more).joined(separator: ", ")
    }

    /// Counts what joined the hold after the look at it: the next sweep judges it.
    mutating func countFollowers(_ evidence: EvidenceRun) throws {
        let released = Set(outcome.report.apps.compactMap(\.batch))
        var waiting: [Partition: Int] = [:]
        for batch in try evidence.batches.all(.waiting) where !released.contains(batch.id) {
            waiting[batch.partition, default: 0] += batch.reports
        }
        guard !waiting.isEmpty else { return }
        outcome.report.waiting = waiting.values.reduce(0, +)
        for (partition, reports) in waiting.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            let count = reports.counting("report")
            context.log.warning(
                "\(partition): \(count) outside this digest wait for the next sweep, which judges them"
            )
        }
    }
}

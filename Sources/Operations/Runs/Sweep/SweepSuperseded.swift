import APNsProtocol
import Database
import Encodings
import TokenHygiene
import TokenTable

// The part of a sweep under `policy.superseded: mark`: what the rows say about the older of two tokens of a device
// becomes a batch, and is judged as any other. So a guard may hold it, and an undo brings it back. While one is
// held, no other is made: it would have the same tokens and some more.

extension Sweep {
    /// Whether this run looks for superseded tokens.
    var seeksSuperseded: Bool {
        guard case .gateways = plan.work else { return false }
        return plan.marksSuperseded
    }

    /// Finds the superseded tokens of each app and judges them; a dry run says what that would do.
    mutating func markSuperseded(_ evidence: EvidenceRun) throws(CancellationError) {
        guard seeksSuperseded else { return }
        do {
            for (name, stored) in plan.partitions.sorted(by: { "\($0.key)" < "\($1.key)" })
            where plan.isAbout(name) {
                guard try !isHeld(name, evidence) else { continue }
                let found = try superseded(of: name, in: stored, evidence)
                guard !found.isEmpty else { continue }
                var taking = evidence
                taking.isTrial = plan.dryRun
                let table = try evidence.store.layout().table
                try note(
                    taking.take(
                        found, of: name, .superseded, .registrations, label: "rows of \(table)"),
                    resumed: false)
            }
        } catch let end as CancellationError {
            throw end
        } catch {
            let failure = RunFailure.wrapping(error, at: .apply)
            outcome.fail(failure)
            guard [.permission, .configuration, .pending].contains(failure.exit) else {
                throw CancellationError()
            }
        }
    }

    /// Whether an earlier batch of this kind waits for a person.
    private func isHeld(_ name: Partition, _ evidence: EvidenceRun) throws -> Bool {
        if plan.dryRun, (try? evidence.batches.visibility()) != .readable { return false }
        return try evidence.batches.holder(of: name, .registrations) != nil
    }

    /// The evidence against the superseded tokens of an app, in the order of tokens and each once.
    private func superseded(
        of name: Partition, in stored: Partition, _ evidence: EvidenceRun
    ) throws -> [TokenEvidence] {
        var search = try SupersededSearch(evidence.store, in: stored)
        var found: [TokenEvidence] = []
        defer { context.progress.clear() }
        let isTripped = { [context] in context.interrupt.isTripped }
        while true {
            guard try evidence.store.session.waitForThrottle(shouldStop: isTripped), !isTripped()
            else { throw RunFailure.stopped }
            guard let range = try search.next() else { break }
            found += range.tokens.map(\.evidence)
            context.progress.show(
                "looking for superseded tokens of \(name) (tokens)", found.count, of: nil)
        }
        found.sort { ($0.token, $0.time) < ($1.token, $1.time) }
        var last: DeviceToken?
        return found.filter { item in
            defer { last = item.token }
            return item.token != last
        }
    }
}

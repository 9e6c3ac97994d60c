// The batches that the guard stopped, grouped for a person. All held batches of one app, environment and inlet
// are one hold, and one decision is made about them, from any host. A hold has the name of the batch that the
// guard stopped first. Later batches of the inlet wait behind that one and belong to the hold as well.
//
// A decision is about a set that a person has seen, while sweeps add batches to it. So a set has a
// digest, taken batch by batch in the order in which they were held. The digest of the first n
// batches does not change when others join. Releasing a digest applies exactly the batches that the
// person saw; the guard judges the later ones again. The person also sees what a release would do:
// the digest begins with the policy and with the table, columns and values by which rows are found.
//
// A batch that is held for another reason, such as a list that reached feedback.max-bytes, holds no other batch
// and is a hold of its own.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Settings
import TokenHygiene
import TokenTable

/// Held batches with one common decision.
package struct Hold {
    /// The app and environment of the batches, as the settings name them.
    package let partition: Partition
    /// The batches in the order in which they were held, at least one.
    let batches: [ReportBatch]

    /// The name of the batch that was held first.
    package var id: String { batches[0].id }
    /// The guard's gate; nil when the guard did not hold the batches.
    package var gate: GuardGate? { batches[0].hold?.gate }
    /// The reason for the hold, in one sentence.
    package var cause: String { batches[0].hold?.cause ?? "no cause was noted" }
    /// The time at which the first batch was held.
    package var since: EpochMilliseconds { batches[0].hold?.since ?? batches[0].opened }

    /// The reports of its batches.
    package var reports: Int { batches.reduce(0) { $0 + $1.counts.tuples } }

    /// Groups held batches, the oldest hold first.
    static func grouped(_ held: [ReportBatch]) -> [Hold] {
        let alone = held.filter { $0.hold?.gate == nil }.map { [$0] }
        let together = Dictionary(grouping: held.filter { $0.hold?.gate != nil }, by: \.inletKey)
            .values.map { $0.sorted { $0.heldBefore($1) } }
        return (alone + together).map { Hold(partition: $0[0].partition, batches: $0) }
            .sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }
}

/// The holds of a database.
package struct Holds {
    private let store: TokenTable
    /// The apps of the settings; nil where a batch of another one cannot be given up.
    private let apps: Set<Partition>?
    private var batches: Batches { Batches(store) }

    /// The holds in the database of a token table.
    init(_ store: TokenTable, apps: Set<Partition>? = nil) {
        (self.store, self.apps) = (store, apps)
    }

    /// All holds, oldest first.
    ///
    /// - Throws: exit 77 or 78 where the account cannot see them, which is not the same as none.
    package func all() throws -> [Hold] {
        try batches.ensureVisible()
        return Hold.grouped(try batches.all(.held))
    }

    /// The hold of a batch, by the batch's name or its beginning; without one the only hold.
    ///
    /// - Throws: `RunFailure` with exit 64 when no hold matches, or more than one.
    package func hold(of name: String?) throws -> Hold { try name.map(found)?.hold ?? only() }

    /// What a hold would do now; see `hold(of:)`.
    ///
    /// - Throws: as `hold(of:)`, and failures of looking at it.
    package func report(
        of name: String?, _ settings: Settings, _ context: RunContext
    ) throws -> HoldReport {
        try hold(of: name).report(settings, context, in: store)
    }

    /// The only hold.
    ///
    /// - Throws: `RunFailure` with exit 64 when nothing is held; when there are several, which it lists.
    private func only() throws -> Hold {
        let holds = try all()
        if let hold = holds.first, holds.count == 1 { return hold }
        let names = holds.prefix(20).map {
            "  \($0.id)  \($0.partition), since \($0.since.rfc3339)"
        }
        throw RunFailure(
            .usage, .state,
            "looking for the hold: "
                + (holds.isEmpty
                    ? "nothing is held" : "\(holds.count) are open, name one of them:"),
            listing: names)
    }

    /// A held batch with its hold, by the batch's name or its beginning, as `holds show` prints it.
    ///
    /// - Throws: `RunFailure` with exit 64 when no held batch matches, or more than one.
    private func found(_ name: String) throws -> (hold: Hold, batches: [ReportBatch]) {
        guard let beginning = NameBeginning(name) else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(SettingText.quoted(name)): \(NameBeginning.refusal); see: "
                    + "pushsweep holds list")
        }
        let matching = try all().compactMap { hold in
            let batches = hold.batches.filter { beginning.begins($0.id) }
            return batches.isEmpty ? nil : (hold, batches)
        }
        guard let only = matching.first, matching.count == 1 else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(name.prefix(40)): "
                    + (matching.isEmpty ? try fate(of: name) : "several begin so")
                    + "; see: pushsweep holds list")
        }
        return only
    }

    /// What is so with a name of which nothing is held.
    private func fate(of name: String) throws -> String {
        guard let batch = try batches.batch(name) else { return "nothing of this name is held" }
        let state = "nothing of this name is held, the batch is \(batch.state.rawValue)"
        guard batch.state == .discarded else { return state }
        return state + (batch.decision.map { " (\($0))" } ?? "")
            + ", and pushsweep replay --batch brings it back for 30 days"
    }

    /// Discards a held batch, by default that of the only hold, or with `whole` all batches of its hold, and
    /// stores the reason. What is discarded stays in the database for 30 days and can be judged again until
    /// then. The other batches stay held; where the batch that the guard stopped is discarded they wait
    /// for the next sweep, and the guard judges them.
    ///
    /// - Throws: `RunFailure` with exit 64 when no held batch has the name, or several begin so.
    package func discard(
        _ name: String?, whole: Bool, because reason: String, _ context: RunContext
    ) throws -> DiscardReport {
        // A decision without its record, or half of one, would be worse than none.
        try store.require(.change, on: [.run, .batch, .hold, .report, .spared])
        if let name, let lost = try abandoned(name) {
            guard !whole else {
                throw RunFailure(
                    .usage, .state,
                    "discarding batch \(lost.id): nothing holds it, so it is no part of a hold, and --all says "
                        + "nothing of it; leave --all out")
            }
            return try discard(abandoned: lost, because: reason, context)
        }
        let (hold, named) = try name.map(found) ?? { ($0, $0.batches) }(try only())
        guard whole || named.count == 1 else {
            throw RunFailure(
                .usage, .state,
                (name.map {
                    "discarding the held batch \($0.prefix(40)): several begin so; name one whole: "
                }
                    ?? "discarding the hold: it has \(named.count) batches; name one, or add --all: ")
                    + "pushsweep holds show \(hold.id)")
        }
        let (run, started) = (UUIDText.random(), context.now())
        var (discarded, failure) = ([ReportBatch](), RunFailure?.none)
        for batch in whole ? hold.batches : named {
            guard try batches.discard(batch.id, because: reason, run: run) else {
                failure = RunFailure(
                    .usage, .state,
                    "discarding the held batch \(batch.id): somebody has decided about it meanwhile; see: "
                        + "pushsweep holds list")
                break
            }
            discarded.append(batch)
        }
        if discarded.isEmpty, let failure { throw failure }
        var report = DiscardReport(
            run: run, hold: hold.id, app: hold.partition.app,
            environment: hold.partition.environment, batches: discarded.map(\.id), reason: reason,
            heldSince: hold.since.rfc3339, heldCause: hold.cause)
        report.reports = discarded.reduce(0) { $0 + $1.reports }
        let files = Set(
            discarded.filter { $0.inlet == .file && $0.source != .feedback }.map(\.label)
        ).sorted()
        report.files = files.isEmpty ? nil : files
        try batches.releaseFollowers()
        let others = Set(hold.batches.map(\.id)).subtracting(report.batches)
        report.held = try batches.all(.held).count { others.contains($0.id) }
        report.pending = others.count - report.held
        try store.session.record(
            RunRecord(
                id: run, kind: "discard", started: started, ended: context.now(),
                host: context.host, operator: context.operator, counts: report.jsonLine))
        // What was discarded before has its record.
        if let failure { throw failure }
        return report
    }
}

extension Holds {
    /// A batch, by its name or beginning, that waits for somebody who may not come: for the host that has its
    /// bytes, or for settings that name its app. Nil where there is no such one.
    private func abandoned(_ name: String) throws -> ReportBatch? {
        try batches.ensureVisible()
        // What is held comes first: a person sees it with its digest.
        guard let beginning = NameBeginning(name),
            try !batches.all(.held).contains(where: { beginning.begins($0.id) })
        else { return nil }
        let found = try batches.all(.filling, .waiting).filter {
            let isNamed = apps?.contains($0.partition) ?? true
            return beginning.begins($0.id) && ($0.isUnstored || ($0.state == .waiting && !isNamed))
        }
        guard found.count < 2 else {
            throw RunFailure(
                .usage, .state,
                "looking for the batch \(name.prefix(40)): several begin so; name it whole, as "
                    + "pushsweep check prints it")
        }
        return found.first
    }

    /// Discards a batch for which nobody waits any more. If the host comes back that has a list which is not stored,
    /// it stores the list under another name.
    private func discard(
        abandoned batch: ReportBatch, because reason: String, _ context: RunContext
    ) throws -> DiscardReport {
        var report = DiscardReport(
            run: UUIDText.random(), hold: batch.id, app: batch.partition.app,
            environment: batch.partition.environment, batches: [batch.id], reason: reason,
            heldSince: batch.opened.rfc3339,
            heldCause: batch.isUnstored
                ? batch.unstoredWords
                : "it waits for settings that name \(batch.partition)")
        report.reports = batch.reports
        if batch.inlet == .file, batch.source != .feedback { report.files = [batch.label] }
        guard try batches.discard(batch.id, in: batch.state, because: reason, run: report.run)
        else {
            throw RunFailure(
                .usage, .state,
                "discarding batch \(batch.id): "
                    + (batch.isUnstored
                        ? "\(batch.host) is storing it" : "somebody is judging it")
                    + "; see: pushsweep check")
        }
        try store.session.record(
            RunRecord(
                id: report.run, kind: "discard", started: context.now(), ended: context.now(),
                host: context.host, operator: context.operator, counts: report.jsonLine))
        return report
    }
}

extension Settings {
    /// Opens the database of these settings and runs a body on its holds.
    ///
    /// - Throws: failures to open it, and those of the body.
    package func holds<Value>(
        for use: StoreUse = .reports, _ body: (Holds) throws -> Value
    ) throws(RunFailure) -> Value {
        try reading(for: use) {
            try body(Holds($0, apps: Set(apps.map(\.partition))))
        }
    }
}

/// The result of discarding: one JSON object for scripts. Fields may be added, never renamed.
package struct DiscardReport: PrintedLines, Codable, Hashable, Sendable {
    package let run: String
    package let hold: String
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// The discarded batches.
    package let batches: [String]
    /// The reason, in the words of the person who discarded the hold.
    package let reason: String
    /// When the first batch was held, RFC 3339 in UTC.
    package let heldSince: String
    /// Why it was held, in one sentence.
    package let heldCause: String
    /// Reports of the discarded batches.
    package var reports = 0
    /// The files that the batches came from; absent where there are none.
    package var files: [String]?
    /// Batches of the hold that stay held.
    package var held = 0
    /// Batches of the hold that the next sweep judges.
    package var pending = 0
    package var exit: Int32 = 0

    package var lines: [String] {
        if reports == 0, files == nil, batches.count == 1 {
            return [
                "\(app)/\(environment): nobody waits for batch \(batches[0]) any more; if its host comes back, it stores "
                    + "the list"
            ]
        }
        var lines = [
            "\(app)/\(environment): \(batches.count.counting("batch")) discarded; within 30 "
                + "days, from any host:"
        ]
        lines += batches.prefix(20).map { "  pushsweep replay --batch \($0)" }
        if batches.count > 20 {
            lines.append("  and \(batches.count - 20) more, see the record of this run")
        }
        lines += (files ?? []).prefix(20).map {
            "or at any time, with the options of its import: pushsweep import \($0.shellWord) --again"
        }
        if held > 0 {
            lines.append(
                "\(held.counting("batch")) of the hold stay held: pushsweep holds list")
        }
        if pending > 0 {
            lines.append(
                "\(pending.counting("batch")) of the hold wait for the next sweep")
        }
        return lines
    }
}

extension SweepPlan {
    /// The plan of applying the held batches that a digest names.
    package init(releasing digest: String, because reason: String?, settings: Settings) {
        self.init(settings, .release(digest.lowercased()), dryRun: false)
        self.reason = reason
    }
}

extension EvidenceRun {
    /// The held batches that a digest names, with the digest of what their release would do.
    ///
    /// - Throws: `RunFailure` when no held set has this digest: the set changed, was released or
    ///   discarded, or its release would now do something else.
    func released(by digest: String) throws -> (batches: [ReportBatch], terms: String) {
        for hold in try Holds(store).all() {
            // An app that the settings no longer name cannot have been examined since.
            guard let partition = plan.partitions[hold.partition] else { continue }
            let digests = try HoldDigest(
                hold.partition, plan.policy, terms: store.terms(of: partition))
            let last = try hold.batches.firstIndex { try digests.take($0, in: store) == digest }
            guard let last else { continue }
            return (Array(hold.batches[...last]), digests.heading)
        }
        throw RunFailure(
            .usage, .state,
            "looking for the held set with digest \(digest.prefix(12)): none has it, so the set changed, "
                + "or the settings that decide what a release does, or it was decided already; look again "
                + "with: pushsweep holds list")
    }
}

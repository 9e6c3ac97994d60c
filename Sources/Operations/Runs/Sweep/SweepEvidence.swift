import APNsProtocol
import Database
import EvidenceJournal
import Settings
import TokenHygiene
import TokenTable

// The part of a sweep that judges: batches that wait in the database, batches that are poured into it first, and
// what a person names or releases.

extension Sweep {
    /// Judges the batches that wait in the database, and names those that are held. Batches of an app that
    /// these settings do not name wait for the host whose settings do.
    mutating func settleWaiting(_ evidence: EvidenceRun) throws {
        guard !plan.dryRun || (try? evidence.batches.visibility()) == .readable else { return }
        if !plan.dryRun { try evidence.batches.releaseFollowers() }
        for batch in try evidence.batches.all(.held, .waiting, .applying) {
            guard evidence.isNamed(batch) || batch.host == context.host else { continue }
            try judge(HeardBatch(batch), evidence, resumed: true)
        }
        guard plan.dryRun else { return }
        for batch in try evidence.batches.abandonedTurns() where evidence.isNamed(batch) {
            try judge(HeardBatch(batch), evidence, resumed: true)
        }
    }

    /// The name of a batch, or of a list of this host, by its beginning.
    ///
    /// - Throws: exit 64 where it is too short, or several begin so.
    private func wholeName(_ typed: String, _ pouring: Pouring) throws -> String {
        guard typed.utf8.count < 36 else { return typed }
        func refuse(_ reason: String) -> RunFailure {
            RunFailure(
                .usage, .state,
                "looking for the batch \(SettingText.quoted(typed)): \(reason); see: pushsweep holds list"
            )
        }
        guard let beginning = NameBeginning(typed) else { throw refuse(NameBeginning.refusal) }
        let own = try pouring.folder.lists(.reading, .pending, .held).map(\.id)
        let names = Set(
            try pouring.evidence.batches.names(beginning: typed) + own.filter(beginning.begins))
        guard names.count < 2 else { throw refuse("several begin so") }
        return names.first ?? typed
    }

    /// Judges a batch that a person names: one that waits, is held or was discarded as it is, and the reports
    /// of a decided one as a batch of their own.
    mutating func judgeAgain(_ typed: String, _ pouring: Pouring) throws {
        let evidence = pouring.evidence
        let name = try wholeName(typed, pouring)
        let earlier = try Pouring.name(after: name)
        // A list that was given up and came after all has another name.
        let named = try evidence.batches.batch(name)
        let isEmpty = named?.state.reported == BatchState.discarded.rawValue && named?.reports == 0
        let known = try (isEmpty ? nil : named) ?? evidence.batches.batch(earlier) ?? named
        // Of a list that is not whole in the database its host has the bytes, also where the database was restored to a
        // moment at which it had a part.
        let isPart = known?.isUnfinishedList == true
        let list = try? pouring.folder.list(name)
        let isHere =
            isPart && list != nil
            || isEmpty && known?.id == name && list.map { $0.state != .applied } == true
        guard let batch = known, !isHere else {
            return try pour(pouring.folder.list(name), pouring, resumed: true)
        }
        // The reports may have moved before, and a run that was killed may have left some of them.
        let all = try [batch] + evidence.batches.successors(of: batch.id)
        guard let last = all.last else { return }
        let left = all.dropLast().filter { $0.reports > $0.removed }
        if !left.isEmpty, [.waiting, .filling].contains(last.state), !plan.dryRun {
            for each in left {
                _ = try evidence.batches.move(.all, of: each, to: last, lease: evidence.lease)
            }
            try evidence.batches.closeMoved(last)
            guard let whole = try evidence.batches.batch(last.id) else { return }
            return try judge(HeardBatch(whole), evidence, resumed: true)
        }
        guard last.isUnstored || last.reports > last.removed else {
            throw RunFailure(
                .usage, .state,
                "judging batch \(last.id) again: "
                    + (last.movedTo.map {
                        "its reports moved into batch \($0); name that one"
                    }
                        ?? "its reports were removed when their time was over; nothing of it can be judged any more")
            )
        }
        switch last.state {
        case .filling where last.isUnstored:
            throw RunFailure(.pending, .apply, "judging batch \(last.id): \(last.unstoredWords)")
        case .filling where last.origin == nil:
            throw RunFailure(
                .pending, .apply,
                "judging batch \(last.id): \(last.host) still inserts its reports; "
                    + (last.inlet == .sender
                        ? "its turn ends within a minute, that of a sender that is gone after five; run again then"
                        : "sweep there, then run again")
            )
        case .waiting, .applying, .held: try judge(HeardBatch(last), evidence, resumed: true)
        case .discarding, .discarded:
            if !plan.dryRun { _ = try evidence.batches.reopen(last.id, atWordOf: true) }
            try judge(
                HeardBatch(evidence.batches.batch(last.id) ?? last), evidence, resumed: true)
        case .applied, .filling: try judgeMoved(all, evidence)
        }
    }

    /// Judges the reports of decided batches again, which are one batch then.
    mutating func judgeMoved(_ all: [ReportBatch], _ evidence: EvidenceRun) throws {
        guard let old = all.last else { return }
        guard !plan.dryRun else {
            // What is decided is read as if it were not.
            var again = HeardBatch(old, .earlier([old.id], .all))
            again.batch.state = .waiting
            return try judge(again, evidence, resumed: false)
        }
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, old.partition, old.source, old.inlet, label: old.label,
            host: context.host, opened: old.opened)
        (batch.ending, batch.origin, batch.isAsked) = (old.ending, old.id, true)
        var moved = 0
        for each in all {
            moved += try evidence.batches.move(.all, of: each, to: batch, lease: evidence.lease)
        }
        try evidence.batches.closeMoved(batch)
        if moved < all[0].reports {
            context.log.warning(
                """
                batch \(all[0].id) had \(all[0].reports.counting("report")); \(moved) of them are still kept and are \
                judged again
                """)
        }
        guard let batch = try evidence.batches.batch(batch.id) else { return }
        try judge(HeardBatch(batch), evidence, resumed: false)
    }

    /// Applies the held batches that a digest names. Where this run ends early, the next sweep goes on with
    /// them.
    mutating func release(_ digest: String, _ evidence: EvidenceRun) throws {
        let begun = try evidence.batches.releasing(digest)
        guard begun.isEmpty else {
            context.log.warning(
                """
                the set with digest \(digest.prefix(12)) was released before, and \(begun.count.counting("batch")) of \
                it \(begun.count == 1 ? "is" : "are") not judged to the end; this run continues that release
                """)
            return try judgeReleased(begun.map(\.id), evidence)
        }
        let (held, terms) = try evidence.released(by: digest)
        let names = held.map(\.id)
        guard try evidence.batches.release(names, under: terms, as: digest) else {
            throw RunFailure(
                .usage, .state,
                "releasing the set with digest \(digest.prefix(12)): somebody has decided about a part of it "
                    + "meanwhile; look again with: pushsweep holds list")
        }
        try judgeReleased(names, evidence)
    }

    private mutating func judgeReleased(_ names: [String], _ evidence: EvidenceRun) throws {
        for name in names {
            guard let batch = try evidence.batches.batch(name) else { continue }
            try judge(HeardBatch(batch), evidence, resumed: true)
        }
        try evidence.batches.releaseFollowers()
        try countFollowers(evidence)
    }

    /// Pours one captured list into the database and judges its batch. In a dry run it is judged as it is.
    ///
    /// - Throws: where the database or the state folder failed, or a stop signal came.
    mutating func pour(
        _ batch: CapturedList, _ pouring: Pouring, resumed: Bool,
        certificateEnds: EpochMilliseconds? = nil
    ) throws(CancellationError) {
        var result = pouring.pour(batch)
        result.entry.certificateExpires = certificateEnds?.rfc3339
        try note(result, resumed: resumed)
    }

    /// Judges one batch.
    ///
    /// - Throws: where the database failed, or a stop signal came.
    mutating func judge(
        _ heard: HeardBatch, _ evidence: EvidenceRun, resumed: Bool
    ) throws(CancellationError) {
        try note(evidence.judge(heard), resumed: resumed)
    }

    mutating func note(
        _ result: EvidenceRun.Result, resumed: Bool
    ) throws(CancellationError) {
        var entry = result.entry
        entry.resumed = resumed
        if !result.isSilent || result.failure != nil { outcome.report.apps.append(entry) }
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.note(result.status)
            if let detail = entry.detail {
                context.log.warning("\(entry.partition): \(detail)")
            }
        }
        if result.endsRun || context.interrupt.isTripped { throw CancellationError() }
    }
}

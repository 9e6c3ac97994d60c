import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

extension PushQueue {
    /// Writes results of a claim, all of them or none, in one transaction, with the reports against tokens that
    /// were `heard` from `origin` with them. Each row takes its first
    /// result; results of rows outside the claim are ignored. The claim's own row lists the rows
    /// without a result. So after a commit whose answer was lost no result is written twice, by
    /// this call or by a later one with the same results and more.
    ///
    /// - Returns: the number of rows that had been deleted from the queue before; nil where the lease had
    ///   ended and another sender has taken the rows. No result was written then, and the reports were
    ///   inserted.
    /// - Throws: any failure that outlasts the tries; the same results may be passed again with the
    ///   same claim.
    package func record(
        _ results: [DeliveryResult], of claim: inout Batch, heard: [HeardReport],
        from origin: ReportOrigin
    ) throws(StoreFailure) -> Int? {
        let groups = ResultGroups(results, of: claim.outstanding)
        guard !groups.all.isEmpty else { return 0 }
        let before = claim
        let answers = Answers(
            claim: claim.id, rows: claim.outstanding, groups: groups, heard: heard, origin: origin)
        var missing = 0
        var finished = before.finished
        let rest = try write(answers, doing: "writing results to \(name)") {
            record throws(SQLFailure) in
            (missing, finished) = try write(
                groups, of: record.keys, before.finished, now: record.now)
            try removeFinishedClaims()
        }
        guard let rest else { return nil }
        finishedClaims = rest.isEmpty ? [claim.id] : []
        claim.outstanding = before.outstanding.subtracting(groups.all)
        claim.finished = finished
        return missing
    }

    /// Answers about rows of one claim, with what they say against tokens.
    private struct Answers {
        let claim: Int64
        /// The rows that the caller believes to be without a result.
        let rows: KeySet
        let groups: ResultGroups
        var heard: [HeardReport]
        let origin: ReportOrigin

        /// The reports about those of some rows that have an answer here.
        func heard(about rows: KeySet) -> [HeardReport] {
            heard.filter { rows.contains($0.row) && groups.all.contains($0.row) }
        }
    }

    /// Writes answers in one transaction, by `body`, unless a transaction whose answer was lost
    /// has written them before. Returns the rows that are left to the claim; nil where another sender has
    /// taken them, after `whenTaken`.
    private func write(
        _ answers: Answers, doing: String,
        _ body: (ClaimRecord) throws(SQLFailure) -> Void,
        whenTaken: () throws(SQLFailure) -> Void = {}
    ) throws(StoreFailure) -> KeySet? {
        let id = answers.claim
        return try store.retries.retrying(doing) { () throws(SQLFailure) -> KeySet? in
            try connection.begin()
            let found = try ClaimRecord.lock(id, connection)
            guard let record = found, record.state != .taken else {
                try whenTaken()
                try keepReports(of: answers, found)
                return nil
            }
            let rest = record.keys.subtracting(answers.groups.all)
            guard rest != record.keys else {
                connection.rollBack()
                return rest
            }
            try body(record)
            try insertReports(of: answers, about: record.keys, record.now)
            try update(id, record, rest: rest)
            try connection.commit()
            return rest
        }
    }

    /// Inserts the reports of those rows that have no result yet, and so no report.
    private func insertReports(
        of answers: Answers, about rows: KeySet, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        let heard = answers.heard(about: rows)
        guard !heard.isEmpty else { return }
        try batches.insert(heard, from: answers.origin, at: now, on: connection)
    }

    /// Keeps the reports of a claim that another sender has taken, and ends the transaction. Their rows leave the
    /// claim's list, so the same call does nothing once more. A claim is removed a day after it was taken, and
    /// soon after all its results were written; then its row is made again, without those rows, and a report that
    /// the database has is not kept twice.
    private func keepReports(
        of answers: Answers, _ record: ClaimRecord?
    ) throws(SQLFailure) {
        let rows = record?.keys ?? answers.rows
        let keys = KeySet(sorted: Set(answers.heard(about: rows).lazy.map(\.row)).sorted())
        guard !keys.isEmpty else { return connection.rollBack() }
        let rest = rows.subtracting(keys)
        var answers = answers
        if record == nil {
            answers.heard = try SenderBatches.unknown(
                among: answers.heard(about: rows), on: connection)
        }
        let now =
            if let record { record.now } else {
                try dialect.instant(connection.query("SELECT \(dialect.now)")[0, 0])
            }
        try insertReports(of: answers, about: rows, now)
        if let record {
            try update(answers.claim, record, rest: rest)
        } else {
            try insertClaim(answers.claim, .taken, rest, now)
        }
        try connection.commit()
    }

    /// Removes the rows that now have a result from a claim. Detects a change by another sender
    /// where an engine does not honour the lock. A finished claim stays until the next transaction,
    /// because its commit may be the one whose answer is lost.
    private func update(
        _ id: Int64, _ record: ClaimRecord, rest: KeySet
    ) throws(SQLFailure) {
        let isDone = rest.isEmpty && record.state != .taken
        let state = isDone ? ClaimRecord.State.done : record.state
        let keys = SQLValue.bytes(rest.encoded)
        let isUpdated = try connection.changesRow(
            "UPDATE pushsweep_claim SET state = ?, row_keys = ? WHERE id = ? AND row_keys = ?",
            [.text(state.rawValue), keys, .integer(id), .bytes(record.keys.encoded)]
        ) { () throws(SQLFailure) in
            try connection.query(
                "SELECT row_keys FROM pushsweep_claim WHERE id = ?", [.integer(id)]
            ).scalar == keys
        }
        guard isUpdated else {
            throw SQLFailure(kind: .conflict, code: 0, message: "the claim was changed by another")
        }
    }

    /// Writes the results of rows that have none. Returns the number of rows that no longer exist,
    /// and the rows that now have a final result.
    func write(
        _ groups: ResultGroups, of open: KeySet, _ finished: KeySet, now: EpochMilliseconds
    ) throws(SQLFailure) -> (missing: Int, finished: KeySet) {
        var finished = finished
        var missing = 0
        for group in groups.groups {
            let keys = group.keys.intersection(open)
            // A row that is returned was never written.
            guard group.outcome != .returned, !keys.isEmpty else { continue }
            missing +=
                try keys.count
                - statements.write(group.outcome, to: keys, finished: finished, now: now)
            if group.outcome.state.isFinal { finished = finished.union(keys) }
        }
        return (missing, finished)
    }

    /// Removes the claims whose last results are certainly committed.
    func removeFinishedClaims() throws(SQLFailure) {
        for id in finishedClaims {
            _ = try connection.execute(
                "DELETE FROM pushsweep_claim WHERE id = ?", [.integer(id)])
        }
    }
}

/// Results grouped by outcome, because each outcome is one statement.
struct ResultGroups {
    /// The groups, the largest last: by then the other groups are finished, and its runs may pass
    /// over them.
    let groups: [(outcome: Outcome, keys: KeySet)]
    /// The keys of all groups.
    let all: KeySet

    /// Groups the results of the rows in a set; the first result of each row counts.
    init(_ results: [DeliveryResult], of rows: KeySet) {
        var outcomes: [Int64: Outcome] = [:]
        for result in results where outcomes[result.key] == nil && rows.contains(result.key) {
            outcomes[result.key] = result.outcome
        }
        let keys = outcomes.keys.sorted()
        all = KeySet(sorted: keys)
        groups = Dictionary(grouping: keys) { outcomes[$0] ?? .returned }
            .map { (outcome: $0.key, keys: KeySet(sorted: $0.value)) }
            .sorted {
                ($0.keys.count, $0.keys.runs[0].lowerBound) < (
                    $1.keys.count, $1.keys.runs[0].lowerBound
                )
            }
    }
}

// Answers that a sender knew and could not write: the database was away, or the sender was killed. Its
// claim still has the rows, so whoever has the answers writes them, and no row of a known answer is
// called unknown. Where the lease has ended meanwhile, another sender has decided about the rows. What it
// wrote stays, and the caller learns how many rows say something else than the answers.

extension PushQueue {
    /// A number that tells this queue from every other, for what is kept about it outside the database.
    ///
    /// - Throws: any failure of the database.
    package func identity() throws(StoreFailure) -> UInt64 {
        UInt64(bitPattern: try apnsSpace())
    }

    /// Writes results that a sender which has ended kept, in the order in which it learned of them: of
    /// several results of a row the last counts. Rows that the claim has no more keep what they say. What was
    /// `heard` against tokens is inserted once, whoever has the rows.
    ///
    /// - Returns: how many rows got their result, and how many are not as the answer says, because another
    ///   sender had them, by their state.
    /// - Throws: any failure that outlasts the tries; the same results may be passed again.
    package func settle(
        _ results: [DeliveryResult], of id: Int64, heard: [HeardReport], from origin: ReportOrigin
    ) throws(StoreFailure) -> (written: Int, differing: [DeliveryState: Int]) {
        let keys = KeySet(sorted: Set(results.lazy.map(\.key)).sorted())
        let groups = ResultGroups(results.reversed(), of: keys)
        let answers = Answers(
            claim: id, rows: keys, groups: groups, heard: heard, origin: origin)
        var (written, differing) = (0, [DeliveryState: Int]())
        _ = try write(answers, doing: "writing kept answers to \(name)") {
            record throws(SQLFailure) in
            written = record.keys.intersection(keys).count
            _ = try write(groups, of: record.keys, KeySet(), now: record.now)
        } whenTaken: { () throws(SQLFailure) in
            differing = try self.differing(groups)
        }
        return (written, differing)
    }

    /// The tokens of a batch that APNs called bad before. Whether there are any at all is asked once a turn.
    ///
    /// - Throws: any failure of a query.
    package func suspected(among batch: Batch) throws(StoreFailure) -> Set<DeviceToken> {
        if hasSuspects == nil { hasSuspects = try !Suspects(store).isEmpty() }
        guard hasSuspects == true else { return [] }
        let tokens = Set(batch.notifications.lazy.map(\.token)).sorted()
        return try store.retries.retrying("looking for suspects") { () throws(SQLFailure) in
            try Suspects.known(among: tokens, on: connection)
        }
    }

    /// Ends a turn: the reports that were inserted so far are judged from now on.
    ///
    /// - Returns: their batches, each as the database has it.
    /// - Throws: any failure of the database; then the batches stay open.
    package func closeBatches() throws(StoreFailure) -> [ReportBatch] {
        hasSuspects = nil
        return try batches.close(in: store)
    }

    /// The rows whose state is not that of a final answer.
    private func differing(_ groups: ResultGroups) throws(SQLFailure) -> [DeliveryState: Int] {
        var differing: [DeliveryState: Int] = [:]
        for group in groups.groups {
            // Of the others the gateway's answer is not known, or not final.
            guard [.sent, .gone, .failed].contains(group.outcome.state) else { continue }
            let states = try statements.states(of: group.keys)
            for (word, count) in states where word != group.outcome.state.rawValue {
                differing[DeliveryState(rawValue: word) ?? .pending, default: 0] += count
            }
            // A row without an entry in the side table waits.
            let waiting = group.keys.count - states.values.reduce(0, +)
            if !layout.delivery.isInRow, waiting > 0 {
                differing[.pending, default: 0] += waiting
            }
        }
        return differing
    }
}

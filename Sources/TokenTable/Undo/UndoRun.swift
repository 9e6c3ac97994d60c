import APNsProtocol
import Database
import Findings
import TokenHygiene

// An undo is a run like any other: it has a record, changes rows in chunks, and writes every change to
// the ledger, so that it can be undone itself. Its entries have a part for each app and environment.
//
//   no record --begin--> record with progress, not ended --chunk--> ... --last--> ended
//
// A record that has not ended belongs to an undo that was killed. The same selection continues it, with
// its id and its counts.

extension TokenTable {
    /// Chooses the changes of an undo. Excludes runs that began after `until`, unless a person names one (a clock may
    /// have been ahead), and `run`, the undo itself.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of reading.
    package func planUndo(
        _ selection: UndoScope, until: EpochMilliseconds, excluding run: String? = nil
    ) throws(StoreFailure) -> UndoPlan {
        let layout = try layout()
        // A run that is named needs no time.
        let first: [String: EpochMilliseconds]
        if case .run = selection { first = [:] } else { first = try firstChanges() }
        let runs = try runs().filter { $0.id != run }.filter {
            let began = first[$0.id] ?? $0.started
            return switch selection {
            case .run(let id): $0.id == id
            case .since(let time): began >= time && began <= until
            case .token: began <= until
            }
        }
        // After a failure the plan is made again from the start, because a partial plan would be
        // wrong.
        return try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            let plan = try UndoPlan(selection, runs)
            try plan.fill(layout, connection)
            try plan.seal()
            return plan
        }
    }

    /// When each run made its first change that the ledger still has, by the database's clock: that of its host may be
    /// wrong.
    private func firstChanges() throws(StoreFailure) -> [String: EpochMilliseconds] {
        let time = connection.dialect.ownTime("committed_at")
        return try retries.retrying("looking when runs began to change rows") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT run, MIN(committed_at) FROM pushsweep_commit WHERE number > 0 GROUP BY run")
            var first: [String: EpochMilliseconds] = [:]
            for row in 0..<rows.count { first[rows.string(row, 0)] = time.mark(rows[row, 1]) }
            return first
        }
    }

    /// All runs in `pushsweep_run`, newest first.
    package func runs() throws(StoreFailure) -> [RunRecord] {
        try retries.retrying(
            "reading the records of runs",
            do: RunRecord.read(connection, ("ORDER BY started DESC, id DESC", [])))
    }

    /// The newest undo of a selection that has not ended; nil without one.
    package func unfinishedUndo(
        of selection: UndoScope
    ) throws(StoreFailure) -> RunRecord? {
        for run in try runs() where run.kind == "undo" && run.ended == nil {
            let checkpoint = UndoCheckpoint(run: run.id, connection: connection)
            let progress = try retries.retrying(
                "reading the checkpoint of undo \(run.id)", do: checkpoint.read(locking: false))
            if progress?.selection == selection.name { return run }
        }
        return nil
    }

    /// The number of changes of a run, each device once.
    package func changes(of run: String) throws(StoreFailure) -> Int {
        try retries.retrying(
            "reading the change ledger",
            do: LedgerReader(connection: connection).changes(ofRun: run))
    }

    /// Undoes the changes of a plan, chunk by chunk, as the run `record`; continues where that run
    /// stopped. `shouldStop` is called between chunks; after a stop the result is not `isDone`.
    /// Pauses between chunks as the throttle requires. A dry run reads only.
    ///
    /// - Throws: any failure; committed chunks stay undone, and the run's record shows the
    ///   progress.
    package func undo(
        _ plan: UndoPlan, as record: RunRecord, isDry: Bool = false, lease: Lease? = nil,
        now: @escaping () -> EpochMilliseconds, shouldStop: () -> Bool = { false },
        report: (UndoProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> UndoProgress {
        let layout = try layout()
        var progress = UndoProgress(selection: plan.selection.name)
        for (obstacle, count) in plan.excluded { progress.keep(obstacle, count) }
        guard plan.entries > 0 else {
            progress.isDone = true
            return progress
        }
        var work = UndoTransaction.Work(
            plan: plan, run: record.id, parts: [],
            tokensAreUnique: try tokensAreUnique(layout), isDry: isDry, lease: lease, now: now)
        if !isDry { progress = try begin(record, progress, &work) }
        let isolation = RowIsolation(connection)
        var transaction = try UndoTransaction(work, self, isolation)
        var loop = session.chunkLoop(isolation)
        return try loop.run(
            from: progress, isDone: \.isDone, changesRows: !isDry, shouldStop: shouldStop,
            report: report
        ) { (loop, start) throws(StoreFailure) in
            if transaction.isOutdated {
                try renewLayout(of: .undo(actions: plan.actions, isDry: false))
                transaction = try UndoTransaction(work, self, isolation)
            }
            return try loop.commit(
                after: start, doing: "undoing changes to \(layout.table)",
                checkpointOf: "undo \(record.id)"
            ) { (size) throws(SQLFailure) in
                try transaction.undo(size, after: start)
            } checkpoint: { () throws(SQLFailure) in
                isDry ? start : try transaction.checkpoint.read(locking: false) ?? start
            }
        }
    }

    /// Writes the run's record, which is its checkpoint, and the rows of its parts, which are in `work` then. Returns
    /// the progress of a run that was begun before.
    private func begin(
        _ record: RunRecord, _ progress: UndoProgress, _ work: inout UndoTransaction.Work
    ) throws(StoreFailure) -> UndoProgress {
        let checkpoint = UndoCheckpoint(run: record.id, connection: connection)
        let (layout, wanted, lease) = (try layout(), work.plan.partitions, work.lease)
        let parts = LedgerParts(connection: connection)
        let (begun, known) = try retries.retrying("beginning undo \(record.id)") {
            () throws(SQLFailure) in
            // The read decides, so it is part of the transaction that inserts.
            try connection.begin()
            if try checkpoint.read(locking: false) != nil {
                let known = try parts.parts(ofUndo: record.id, layout)
                connection.rollBack()
                return (try checkpoint.read(locking: false) ?? progress, known)
            }
            try checkpoint.insert(record, progress)
            for partition in wanted {
                try parts.insert(undo: record.id, of: partition, layout)
            }
            let made = try parts.parts(ofUndo: record.id, layout)
            try lease?.renew(connection)
            try connection.commit()
            return (progress, made)
        }
        work.parts = known
        return begun
    }

    /// Whether a token can be in one row of a partition only.
    private func tokensAreUnique(_ layout: TableLayout) throws(StoreFailure) -> Bool {
        let columns = Set(
            [layout.token.name, layout.app?.name, layout.environment?.name].compactMap {
                $0?.lowercased()
            })
        return try catalogTable().indexes.contains { index in
            index.isUnique && !index.columns.isEmpty
                && index.columns.allSatisfy { columns.contains($0.lowercased()) }
                && index.columns.contains { $0.lowercased() == layout.token.name.lowercased() }
        }
    }
}

extension RunRecord {
    /// The records of a statement that ends like this.
    static func read(
        _ connection: any SQLConnection, _ end: BoundSQL
    ) throws(SQLFailure) -> [RunRecord] {
        let rows = try connection.query(
            "SELECT \(columns) FROM pushsweep_run \(end.sql)", end.values)
        return (0..<rows.count).map { RunRecord(rows.row($0), connection.dialect) }
    }
}

/// One run as its record in the database has it, with what it changed.
package struct ListedRun: Hashable, Sendable {
    /// The record.
    package let record: RunRecord
    /// Rows that it changed, by its batches, each with the time beside it once. Batches
    /// outlast the entries of the ledger, so the number is the same after a purge.
    package let rowsChanged: Int
    /// The run that it took back, for an undo of one run.
    package let undid: String?
    /// Whether it took back each change of that run.
    package let undidWhole: Bool
}

extension [ListedRun] {
    /// The runs, of all that are listed newest first, whose changes an undo of the run took back as a whole and no undo
    /// of that undo brought again.
    package var takenBack: Set<String> {
        let undos = Dictionary(
            compactMap { run in run.undid.map { (run.record.id, $0) } },
            uniquingKeysWith: { first, _ in first })
        var takenBack: Set<String> = []
        for run in reversed() where run.undidWhole {
            guard let undid = run.undid else { continue }
            takenBack.insert(undid)
            if let again = undos[undid] { takenBack.remove(again) }
        }
        return takenBack
    }
}

extension TokenTable {
    /// The runs of a period that changed rows, and the undos, newest first.
    ///
    /// - Throws: any failure of a query, such as a missing right to read `pushsweep_run` or
    ///   `pushsweep_batch`.
    package func changingRuns(
        from first: EpochMilliseconds, to last: EpochMilliseconds
    ) throws(StoreFailure) -> [ListedRun] {
        let time = connection.dialect.ownTime("started")
        let companions = try layout().companionsTwice
        return try retries.retrying("reading the records of runs") { () throws(SQLFailure) in
            let columns = RunRecord.columns.split(separator: ", ").map { "r.\($0)" }
            let rows = try connection.query(
                "SELECT \(columns.joined(separator: ", ")), "
                    + "CASE WHEN r.kind = 'undo' THEN r.counts END, c.entries, c.companions "
                    + "FROM pushsweep_run r LEFT JOIN (SELECT run, SUM(rows_changed) AS entries, SUM(\(companions)) AS "
                    + "companions FROM (SELECT p.run, p.source, b.applied, b.invalidated, p.rows_changed FROM "
                    + "\(LedgerParts.ofBatches)) AS parts GROUP BY run) c "
                    + "ON c.run = r.id "
                    + "WHERE r.started >= ? AND r.started <= ? ORDER BY r.started DESC, r.id DESC",
                [time.value(first), time.value(last)])
            try rows.require(width: 9)
            return (0..<rows.count).compactMap { row -> ListedRun? in
                let progress = rows[row, 6].text.flatMap(UndoProgress.init(json:))
                let changed =
                    (rows[row, 7].count ?? 0) - (rows[row, 8].count ?? 0) / 2
                    + (progress?.devicesChanged ?? 0)
                guard changed > 0 || progress != nil else { return nil }
                return ListedRun(
                    record: RunRecord(rows.row(row), connection.dialect), rowsChanged: changed,
                    undid: progress?.undoneRun,
                    undidWhole: progress.map { $0.isDone && $0.kept.isEmpty } ?? false)
            }
        }
    }
}

extension TableLayout {
    /// Twice the entries of a checkpoint that accompany the change of a row, by the numbers of the checkpoint
    /// alone. A removal after a grace period takes away one time beside for each token: half of its
    /// entries where a token has one row, and fewer where it has several. A batch that marks a column of
    /// two values sets one time for each token that it applies to, but no more than it has entries besides
    /// the rows that became invalid.
    fileprivate var companionsTwice: String {
        guard !hasMarkTime else { return "0" }
        let removal =
            "CASE WHEN source = '\(EvidenceSource.grace.rawValue)' THEN rows_changed - rows_changed % 2 "
        guard living != nil else { return removal + "ELSE 0 END" }
        let besides = "rows_changed - invalidated"
        return removal + "WHEN invalidated >= rows_changed THEN 0 "
            + "WHEN applied < \(besides) THEN 2 * applied ELSE 2 * (\(besides)) END"
    }
}

extension UndoProgress {
    /// The run whose changes were taken back; nil for another selection.
    fileprivate var undoneRun: String? {
        let words = "run "
        return selection.hasPrefix(words) ? String(selection.dropFirst(words.count)) : nil
    }
}

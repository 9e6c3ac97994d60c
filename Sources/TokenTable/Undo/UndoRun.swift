import APNsProtocol
import Database
import TokenHygiene

// An undo is a run like any other: it has a record, changes rows in chunks, and writes every change to
// the ledger, so that it can be undone itself. The feed of its own entries is the run itself, and their
// part is the partition, because an undo may change several.
//
//   no record --begin--> record with progress, not ended --chunk--> ... --last--> ended
//
// A record that has not ended belongs to an undo that was killed. The same selection continues it, with
// its id and its counts.

extension TokenTable {
    /// Chooses the changes of an undo. Excludes runs that began after `until`, and `run`, the undo
    /// itself.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of reading.
    package func planUndo(
        _ selection: UndoSelection, until: EpochMilliseconds, excluding run: String? = nil
    ) throws(StoreFailure) -> UndoPlan {
        let layout = try layout()
        let runs = try runs().filter { $0.started <= until && $0.id != run }.filter {
            switch selection {
            case .run(let id): $0.id == id
            case .since(let time): $0.started >= time
            case .token: true
            }
        }
        let reader = UndoReader(layout: layout, connection: connection)
        // After a failure the plan is made again from the start, because a partial plan would be
        // wrong.
        return try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            let plan = try UndoPlan(selection, runs)
            try reader.fill(plan)
            try plan.seal()
            return plan
        }
    }

    /// All runs in `pushsweep_run`, newest first.
    package func runs() throws(StoreFailure) -> [RunRecord] {
        let time = connection.dialect.ownTime("started")
        return try retries.retrying("reading the records of runs") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT id, kind, started, ended, host FROM pushsweep_run "
                    + "ORDER BY started DESC, id DESC")
            return (0..<rows.count).map { row in
                RunRecord(
                    id: rows[row, 0].text ?? "", kind: rows[row, 1].text ?? "",
                    started: time.mark(rows[row, 2]) ?? EpochMilliseconds(0),
                    ended: time.mark(rows[row, 3]), host: rows[row, 4].text ?? "")
            }
        }
    }

    /// The newest undo of a selection that has not ended; nil without one.
    package func unfinishedUndo(
        of selection: UndoSelection
    ) throws(StoreFailure) -> RunRecord? {
        for run in try runs() where run.kind == "undo" && run.ended == nil {
            let marker = UndoMarker(run: run.id, dialect: connection.dialect)
            let progress = try retries.retrying("reading the marker of undo \(run.id)") {
                () throws(SQLFailure) in
                try marker.read(connection, locking: false)
            }
            if progress?.selection == selection.name { return run }
        }
        return nil
    }

    /// The number of ledger entries of a run.
    package func changes(of run: String) throws(StoreFailure) -> Int {
        try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            try connection.query(
                "SELECT COUNT(*) FROM pushsweep_change WHERE run = ? AND seq >= 0", [.text(run)]
            ).scalar?.count ?? 0
        }
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
        for (obstacle, count) in plan.hopeless { progress.keep(obstacle, count) }
        guard plan.entries > 0 else {
            progress.isDone = true
            return progress
        }
        var partitions = plan.partitions
        if !isDry { progress = try begin(record, progress, &partitions, layout, lease) }
        let isolation = RowIsolation()
        let transaction = try UndoTransaction(
            plan, run: record.id, layout, connection, partitions: partitions,
            tokensAreUnique: try tokensAreUnique(layout), isDry: isDry,
            lease: lease, isolation: isolation, now: now)
        var loop = ChunkLoop(connection, pacing, isolation)
        while !progress.isDone && !shouldStop() {
            guard try session.waitForThrottle(shouldStop: shouldStop) else { break }
            let start = progress
            progress = try loop.commit(
                after: start, doing: "taking back changes to \(layout.table)",
                markerOf: "undo \(record.id)"
            ) { (size) throws(SQLFailure) in
                try transaction.undo(size, after: start)
            } marker: { () throws(SQLFailure) in
                isDry ? start : try transaction.marker.read(connection, locking: false) ?? start
            }
            report(progress)
            if !progress.isDone && !isDry { loop.letOthersWrite() }
        }
        return progress
    }

    /// Writes the run's record, which is its marker, and the markers that name its partitions.
    /// Returns the progress of a run that was begun before.
    private func begin(
        _ record: RunRecord, _ progress: UndoProgress, _ partitions: inout [Partition],
        _ layout: TableLayout, _ lease: Lease?
    ) throws(StoreFailure) -> UndoProgress {
        let dialect = connection.dialect
        let marker = UndoMarker(run: record.id, dialect: dialect)
        let wanted = partitions
        let (begun, known) = try retries.retrying("beginning undo \(record.id)") {
            () throws(SQLFailure) in
            if let begun = try marker.read(connection, locking: false) {
                return (begun, try FeedMarker.partitions(of: record.id, connection))
            }
            let time = dialect.ownTime("started")
            try connection.begin()
            _ = try connection.execute(
                "INSERT INTO pushsweep_run (id, kind, started, host, counts) "
                    + "VALUES (?, 'undo', ?, ?, ?)",
                [
                    .text(record.id), time.value(record.started), .text(record.host),
                    .text(progress.json),
                ])
            try FeedMarker.insert(
                feed: record.id, run: record.id, source: "undo", about: wanted, layout,
                connection)
            try lease?.hold(connection)
            try connection.commit()
            return (progress, wanted)
        }
        partitions = known
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

extension FeedMarker {
    /// The partitions of such a run, in the order of its parts.
    static func partitions(
        of run: String, _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Partition] {
        let rows = try connection.query(
            "SELECT app, environment FROM pushsweep_feed WHERE feed = ? ORDER BY part",
            [.text(run)])
        return (0..<rows.count).map {
            Partition(app: rows[$0, 0].text ?? "", environment: rows[$0, 1].text ?? "")
        }
    }
}

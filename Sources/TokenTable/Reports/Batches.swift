// Which batches there are, and the steps from one state to the next that are not a judgement. Each step is one
// statement that repeats the state it leaves, so two hosts that want different things never both succeed, and a
// commit whose answer was lost is decided by reading the state.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// The batches of a database.
package struct Batches {
    let session: DatabaseSession
    var connection: any SQLConnection { session.connection }

    /// The batches in the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// Whether the account sees the batches, their reports, and what is quarantined of them.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        for (table, columns) in Self.parts {
            let visibility = try session.visibility(of: table.name, columns)
            guard visibility == .readable else { return visibility }
        }
        return .readable
    }

    /// Requires that the account sees them.
    ///
    /// - Throws: `permission` with both cures where it may not read one of the tables; `configuration` where one is not
    ///   there; any failure of a query.
    package func ensureVisible() throws(StoreFailure) {
        for (table, columns) in Self.parts {
            guard try session.decides(by: table, columns, to: "looking for what waits") else {
                throw StoreFailure(
                    .configuration,
                    "looking for what waits: table \(table.name) or a column of it is missing; run `pushsweep schema "
                        + "apply`")
            }
        }
    }

    private static let parts =
        [PushsweepTable.batch, .hold, .part, .report, .quarantine].map { table in
            (table, table.columns.map(\.name).joined(separator: ", "))
        }

    /// The batches in some states, in the order in which they were heard.
    ///
    /// - Throws: any failure of a query.
    package func all(_ states: BatchState...) throws(StoreFailure) -> [ReportBatch] {
        try read("state IN (\(placeholders(states.count)))", states.map { .text($0.rawValue) })
    }

    /// The batch with a name; nil where there is none.
    ///
    /// - Throws: any failure of a query.
    package func batch(_ id: String) throws(StoreFailure) -> ReportBatch? {
        try read("name = ?", [.text(id)]).first
    }

    /// The names that begin with some hex digits and dashes.
    ///
    /// - Throws: any failure of a query.
    package func names(beginning digits: String) throws(StoreFailure) -> [String] {
        guard digits.utf8.allSatisfy({ Hex.value(of: $0) != nil || $0 == UInt8(ascii: "-") }) else {
            return []
        }
        return try read("name LIKE ?", [.text(digits.lowercased() + "%")]).map(\.id)
    }

    /// Those among some names that the database has a whole batch of.
    ///
    /// - Throws: any failure of a query.
    package func known(among names: [String]) throws(StoreFailure) -> Set<String> {
        try session.retries.retrying("looking for batches") { () throws(SQLFailure) in
            var known: Set<String> = []
            for some in names.map(SQLValue.text).runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(some)
                let rows = try connection.query(
                    "SELECT name FROM pushsweep_batch WHERE name IN "
                        + "(\(placeholders(padded.count))) AND state <> 'filling'", padded)
                for row in 0..<rows.count { known.insert(rows.string(row, 0)) }
            }
            return known
        }
    }

    /// The batches of what a content of a file brought, by the name under which it was taken.
    ///
    /// - Throws: any failure of a query.
    package func all(of content: String) throws(StoreFailure) -> [ReportBatch] {
        try read("intake = ?", [.text(content)])
    }

    /// The batches into which the reports of a batch moved, one after the other.
    ///
    /// - Throws: any failure of a query.
    package func successors(of id: String) throws(StoreFailure) -> [ReportBatch] {
        var found: [ReportBatch] = []
        while let next = try read("origin = ?", [.text(found.last?.id ?? id)]).last,
            !found.contains(where: { $0.id == next.id })
        {
            found.append(next)
        }
        return found
    }

    func read(
        _ condition: String, _ values: [SQLValue], _ end: String = ""
    ) throws(StoreFailure) -> [ReportBatch] {
        try session.retries.retrying("reading the batches of reports") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(ReportBatch.columns) FROM \(ReportBatch.table) WHERE "
                    + "\(condition) ORDER BY opened_at, name\(end)", values)
            try rows.require(width: 39)
            return (0..<rows.count).map { ReportBatch(rows, $0, connection.dialect) }
        }
    }

    // MARK: Holds

    /// The batch that holds those of an inlet back: the first that the guard stopped by one of its own gates.
    ///
    /// - Throws: any failure of a query.
    package func holder(
        of partition: Partition, _ inlet: Inlet
    ) throws(StoreFailure) -> ReportBatch? {
        try read(
            "state = 'held' AND COALESCE(app_name, app) = ? AND environment = ? AND inlet = ? AND gate IS NOT NULL "
                + "AND gate <> ?",
            [
                .text(partition.app), .text(partition.environment), .text(inlet.rawValue),
                .text(GuardGate.behind.rawValue),
            ]
        ).min { $0.heldBefore($1) }
    }

    /// Holds a batch that waits; false where it waits no more.
    ///
    /// - Throws: any failure of the database.
    package func hold(_ id: String, _ hold: BatchHold) throws(StoreFailure) -> Bool {
        // Of one that is judged again and held again it is told since when a person is waited for; once somebody
        // has decided, that begins anew.
        let now = connection.dialect.now
        let since = "CASE WHEN decision IS NULL THEN COALESCE(held_at, \(now)) ELSE \(now) END"
        return try change(id, to: .held, from: [.waiting]) { () throws(SQLFailure) in
            try HoldRow(connection: connection).set(
                "held_at = \(since), gate = ?, cause = ?",
                [hold.gate.map { .text($0.rawValue) } ?? .null, .text(hold.cause.cut)], of: id)
        }
    }

    /// Lets a held or discarded batch be judged, by the guard too, perhaps because a person asks for it; false where it
    /// is in another state.
    ///
    /// - Throws: any failure of the database.
    package func reopen(_ id: String, atWordOf person: Bool = false) throws(StoreFailure) -> Bool {
        // It may be one that was released and discarded before it was judged. What a person asks for counts from
        // then on, also where the run is killed before it has judged it.
        try change(
            id, to: .waiting, from: [.held, .discarded],
            person ? ", asked_at = \(connection.dialect.now)" : ""
        ) { () throws(SQLFailure) in try HoldRow(connection: connection).forgetRelease(of: id) }
    }

    /// Notes that a person asks for what a batch says that nobody has decided yet. It counts from now on, whatever he
    /// asked for before.
    ///
    /// - Throws: any failure of the database.
    package func ask(for id: String) throws(StoreFailure) {
        try session.retries.retrying("changing batch \(id)") { () throws(SQLFailure) in
            _ = try connection.execute(
                "UPDATE pushsweep_batch SET asked_at = \(connection.dialect.now) WHERE name = ? AND "
                    + "state IN ('filling', 'waiting', 'applying')",
                [.text(id)])
        }
    }

    /// The batches of a set that a person released by its digest, and that are not judged to their end.
    ///
    /// - Throws: any failure of a query.
    package func releasing(_ digest: String) throws(StoreFailure) -> [ReportBatch] {
        try read("state IN ('waiting', 'applying') AND released_as = ?", [.text(digest)])
    }

    /// Lets held batches be judged without the guard, because a person has seen what that does, by the digest
    /// `terms`: all, or none where one
    /// of them is not held any more. A run that is killed before it has judged them leaves that to the next.
    ///
    /// - Throws: any failure of the database.
    package func release(
        _ ids: [String], under terms: String, as digest: String
    ) throws(StoreFailure) -> Bool {
        let steps = ids.runs(of: StatementShape.longest).map {
            StatementShape.padded($0.map(SQLValue.text))
        }
        func which(_ names: [SQLValue]) -> String {
            "name IN (\(placeholders(names.count))) AND "
        }
        return try session.retries.retrying("releasing what is held") { () throws(SQLFailure) in
            try connection.begin()
            var found = 0
            for names in steps {
                found += try connection.execute(
                    "UPDATE pushsweep_batch SET state = 'waiting', asked_at = \(connection.dialect.now), "
                        + "changed_at = \(connection.dialect.now) WHERE \(which(names))state = 'held'",
                    names)
            }
            if found == ids.count {
                for id in ids {
                    try HoldRow(connection: connection).set(
                        "terms = ?, released_as = ?", [.text(terms), .text(digest)], of: id)
                }
                try connection.commit()
                return true
            }
            connection.rollBack()
            // The answer to an earlier try may have been lost.
            var done = 0
            for names in steps {
                done +=
                    try connection.query(
                        "SELECT COUNT(*) FROM \(ReportBatch.table) WHERE "
                            + "\(which(names))state = 'waiting' AND terms IS NOT NULL", names
                    ).scalar?.count ?? 0
            }
            return done == ids.count
        }
    }

    /// Lets those batches be judged that wait behind batches which are decided.
    ///
    /// - Throws: any failure of the database.
    package func releaseFollowers() throws(StoreFailure) {
        let held = try all(.held).filter { $0.hold?.gate != nil }
        for group in Dictionary(grouping: held, by: \.inletKey).values
        where group.allSatisfy({ $0.hold?.gate == .behind }) {
            for batch in group { _ = try reopen(batch.id) }
        }
    }

    func change(
        _ id: String, to state: BatchState, from states: [BatchState], _ more: String = "",
        _ values: [SQLValue] = [], with further: () throws(SQLFailure) -> Void = {}
    ) throws(StoreFailure) -> Bool {
        try session.retries.retrying("changing batch \(id)") { () throws(SQLFailure) in
            let all: [SQLValue] =
                [.text(state.rawValue)] + values + [.text(id)] + states.map { .text($0.rawValue) }
            try connection.begin()
            let changed = try connection.execute(
                "UPDATE pushsweep_batch SET state = ?\(more), changed_at = \(connection.dialect.now) "
                    + "WHERE name = ? AND state IN (\(placeholders(states.count)))", all)
            if changed > 0 {
                try further()
                try connection.commit()
                return true
            }
            connection.rollBack()
            // The answer to an earlier try may have been lost.
            let rows = try connection.query(
                "SELECT state FROM pushsweep_batch WHERE name = ?", [.text(id)])
            return rows.scalar?.text == state.rawValue
        }
    }
}

extension ReportBatch {
    /// The app, environment and inlet, whose batches one of them holds back, by their bytes.
    package var inletKey: [[UInt8]] {
        [partition.app, partition.environment, inlet.rawValue].map { Array($0.utf8) }
    }

    /// The order of batches in a hold. The one that holds the others back comes first, even if the clock was
    /// set back.
    package func heldBefore(_ other: ReportBatch) -> Bool {
        func place(_ batch: ReportBatch) -> (Int, EpochMilliseconds, EpochMilliseconds, String) {
            (
                batch.hold?.gate == .behind ? 1 : 0, batch.hold?.since ?? batch.opened,
                batch.opened, batch.id
            )
        }
        return place(self) < place(other)
    }
}

extension Batches {
    /// Lets those batches be judged that nobody fills any more. Only a run that has the lease moves reports, so
    /// none is at work where this run has it. One of which a host has only bytes waits for that host. A host that stored a part of a list and was not heard of for a day
    /// may not come back; if it does, it stores the list again under another name. What it was to hold is held.
    ///
    /// - Throws: any failure of the database.
    package func completeFilling() throws(StoreFailure) {
        let old = "changed_at < \(connection.dialect.now(adding: -86_400))"
        // A sender's turn and a draft of an import end in other ways.
        let isOthers =
            "inlet NOT IN ('sender', 'grace') AND (source <> 'feedback' OR reports > 0) "
            + "AND (inlet <> 'file' OR source = 'feedback') AND \(old)"
        let isMoving = "(origin IS NOT NULL OR inlet = 'earlier')"
        for batch in try read("state = 'filling' AND (\(isMoving) OR \(isOthers))", []) {
            // What a move has left behind is still in the batches before.
            let isOwn = batch.origin != nil || batch.inlet == .earlier
            _ = try change(
                batch.id, to: batch.hold == nil ? .waiting : .held, from: [.filling],
                ", last_token = NULL" + (isOwn ? "" : ", ending = 'truncated', detail = ?"),
                isOwn
                    ? []
                    : [.text("\(batch.host) stored a part of it and was not heard of for a day")])
        }
    }

    /// Holds a released batch again, whose release a person saw under other terms; false where it waits no more.
    ///
    /// - Throws: any failure of the database.
    package func holdAgain(_ id: String) throws(StoreFailure) -> Bool {
        try change(
            id, to: .held, from: [.waiting], ", asked_at = NULL"
        ) { () throws(SQLFailure) in try HoldRow(connection: connection).forgetRelease(of: id) }
    }
}

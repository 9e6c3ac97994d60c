// What is asked of `pushsweep_evidence`, besides taking its rows (see `TakenRows`), and of `pushsweep_intake`, which
// tells for ever whether the content of an imported file was taken. A file is read into this host's journal, under
// a name that follows from its content:
//
//   1. read the file into the journal under the name, durable but not to be used yet
//   2. insert the name as `taken`; where another import has it, drop what was read
//   3. confirm the name in the journal: only now its records are evidence
//
// A kill after 2, or an answer that got lost, leaves records whose name is `taken` by the run that is gone. The
// next run asks by inserting the name as `void`. If that succeeds, the import never took place: the records are
// dropped. If the name is `taken` by that run, they are confirmed.

import APNsProtocol
import Database
import TokenHygiene

/// What a name of `pushsweep_intake` says.
package enum IntakeState: Hashable, Sendable {
    /// The evidence changed hands.
    case taken
    /// It did not and never will under this name.
    case void
}

/// Asks `pushsweep_evidence` and `pushsweep_intake`.
package struct EvidenceIntake {
    static let columns = EvidenceRow.columns.joined(separator: ", ")

    let session: DatabaseSession
    var connection: any SQLConnection { session.connection }

    /// Works on the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// The most rows of one transaction. A large batch is applied faster, because more
    /// of its tokens are neighbours in the index. Nobody waits for the rows; but other writers wait for the
    /// transaction where a file has one writer at a time, or where a Galera cluster applies it on every node.
    package var mostRows: Int {
        connection.certifiesCommits || connection.dialect.engine == .sqlite ? 20_000 : 100_000
    }

    /// Whether the account sees the table; an installation without other senders may lack it.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        try session.visibility(of: PushsweepTable.evidence.name, Self.columns)
    }

    /// The number of rows that wait, of an app and environment as the rows name them, or of all.
    ///
    /// - Throws: any failure of a query.
    package func waiting(of partition: Partition? = nil) throws(StoreFailure) -> Int {
        let values = partition.map { [SQLValue.text($0.app), .text($0.environment)] } ?? []
        let which = partition == nil ? "" : " WHERE app = ? AND environment = ?"
        return try session.retries.retrying(
            "counting the rows of pushsweep_evidence",
            do: connection.query("SELECT COUNT(*) FROM pushsweep_evidence" + which, values)
                .scalar?.count ?? 0)
    }

    /// The number that is near the end of `id`: half of all numbers. A sender that inserts a number of its
    /// own can reach it with one row, the count of the rows never does.
    static let exhausted: UInt64 = 1 << 62

    /// Why no sender can insert for long, and the statement that mends it; nil where there are numbers
    /// left. Taking the rows does not bring their numbers back.
    ///
    /// - Throws: any failure of a query.
    package func exhaustion() throws(StoreFailure) -> String? {
        let table = PushsweepTable.evidence.name
        let isServer = connection.dialect.engine == .mariaDB
        let used = try session.retries.retrying("reading the numbers of \(table)") {
            () throws(SQLFailure) -> UInt64 in
            // information_schema has the number of a day ago on MySQL.
            let answer = try connection.query(
                isServer
                    ? "SHOW CREATE TABLE \(table)"
                    : "SELECT '', ' AUTO_INCREMENT=' || seq FROM sqlite_sequence "
                        + "WHERE name = '\(table)'")
            guard answer.count > 0, let text = answer[0, 1].text,
                let start = text.ranges(of: ") ENGINE").last?.lowerBound ?? text.indices.first,
                let found = text[start...].firstMatch(of: /\sAUTO_INCREMENT=(\d+)/)
            else { return 0 }
            return UInt64(found.1) ?? .max
        }
        guard used >= Self.exhausted else { return nil }
        return
            "a sender inserted a row with a number of its own into \(table), so its numbers are used up "
            + "and no sender can insert: once a sweep has taken the rows, as an administrator run: "
            + "\(renumbering); the next sweep does so where it may (docs/evidence.md)"
    }

    /// The statement after which the numbers go on behind the last row that is there.
    private var renumbering: String {
        let table = PushsweepTable.evidence.name
        return connection.dialect.engine == .mariaDB
            ? "ALTER TABLE \(table) AUTO_INCREMENT = 1"
            : "UPDATE sqlite_sequence SET seq = 0 WHERE name = '\(table)'"
    }

    /// Gives the table its numbers back, once no row is left that uses them up; false where one is left.
    ///
    /// - Throws: `permission` with the GRANT where the account may not; any other failure.
    package func renumber() throws(StoreFailure) -> Bool {
        let table = PushsweepTable.evidence.name
        do {
            let isDone = try session.retries.retrying("numbering \(table) anew") {
                () throws(SQLFailure) -> Bool in
                let left = try connection.query(
                    "SELECT COUNT(*) FROM \(table) WHERE id >= \(Self.exhausted)")
                guard left.scalar?.count == 0 else { return false }
                try connection.run(renumbering)
                return true
            }
            guard isDone else { return false }
        } catch {
            guard error.code == .permission,
                let grant = try session.grant({ $0.numbering(.evidence) })
            else { throw error }
            throw StoreFailure(
                .permission,
                "numbering \(table) anew: a sender used up its numbers with one of its own, so no sender "
                    + "can insert, and the account may not mend it; as an administrator run: \(grant); "
                    + "or once: \(renumbering); then sweep again")
        }
        return try exhaustion() == nil
    }

    /// Some of the waiting rows, without taking them: the first ones, or those after a number, in the order of
    /// their numbers.
    ///
    /// - Throws: any failure of a query.
    package func peek(after id: Int64?, limit: Int) throws(StoreFailure) -> [EvidenceRow] {
        try session.retries.retrying(
            "reading pushsweep_evidence",
            do: rows(
                connection.query(
                    "SELECT \(Self.columns) FROM pushsweep_evidence\(Self.behind(id).sql) ORDER BY id "
                        + "LIMIT \(limit)", Self.behind(id).values)))
    }

    /// The condition of the rows behind a number; none from the first row on. No number stands for the first,
    /// because a row may have the least there is.
    static func behind(_ id: Int64?) -> BoundSQL {
        id.map { (" WHERE id > ?", [.integer($0)]) } ?? ("", [])
    }

    /// The most rows that are searched for tokens.
    package static let mostSearched = 20_000

    /// The rows that wait about given tokens, among the oldest `mostSearched`, at most `limit`, with
    /// whether others were not looked at. Tokens have any spelling, so each row is read.
    ///
    /// - Throws: any failure of a query.
    package func waiting(
        about tokens: Set<DeviceToken>, limit: Int
    ) throws(StoreFailure) -> (rows: [DeviceToken: [EvidenceRow]], isCut: Bool) {
        try session.retries.retrying("searching pushsweep_evidence") { () throws(SQLFailure) in
            var ids: [(id: SQLValue, token: DeviceToken)] = []
            var (last, searched) = (Int64?.none, 0)
            var isAtEnd = false
            while !isAtEnd, searched < Self.mostSearched, ids.count < limit {
                let page = try connection.query(
                    "SELECT id, device_token FROM pushsweep_evidence\(Self.behind(last).sql) ORDER BY id "
                        + "LIMIT 2000", Self.behind(last).values)
                for row in 0..<page.count {
                    last = page[row, 0].integer ?? last
                    guard let token = page[row, 1].spelledToken, tokens.contains(token) else {
                        continue
                    }
                    ids.append((page[row, 0], token))
                }
                searched += page.count
                isAtEnd = page.count < 2_000
            }
            var found: [DeviceToken: [EvidenceRow]] = [:]
            for (id, token) in ids.prefix(limit) {
                found[token, default: []] += try rows(
                    connection.query(
                        "SELECT \(Self.columns) FROM pushsweep_evidence WHERE id = ?", [id]))
            }
            return (found, !isAtEnd || ids.count > limit)
        }
    }

    /// Says for ever what became of a name. A name that nobody has used becomes void.
    ///
    /// - Throws: any failure; then the question is open, and can be asked again.
    package func resolve(_ name: String, run: String) throws(StoreFailure) -> IntakeState {
        try session.retries.retrying("looking for intake \(name)") { () throws(SQLFailure) in
            if try owner(of: name)?.state == .void {
                // A killed run may still be entering an import under this name. This waits for it,
                // and after it that run finds another owner.
                _ = try connection.execute(
                    "UPDATE pushsweep_intake SET run = ? WHERE id = ? AND state = 'void'",
                    [.text("void-" + String(run.prefix(31))), .text(name)])
            }
            if let state = try state(of: name, for: run) { return state }
            do throws(SQLFailure) {
                try insert(name, run: run, source: "table", state: "void", ReportCounts())
                return .void
            } catch {
                // The name was inserted meanwhile.
                guard error.kind != .lost, let state = try state(of: name, for: run) else {
                    throw error
                }
                return state
            }
        }
    }

    /// The counts of an intake that was taken.
    ///
    /// - Throws: any failure of a query.
    package func counts(of name: String) throws(StoreFailure) -> ReportCounts {
        try session.retries.retrying("reading the counts of intake \(name)") {
            () throws(SQLFailure) in
            let found = try connection.query(
                "SELECT \(Self.counted) FROM pushsweep_intake WHERE id = ?", [.text(name)])
            var counts = ReportCounts()
            guard found.count > 0 else { return counts }
            counts.reports = found[0, 0].count ?? 0
            counts.evidence = found[0, 1].count ?? 0
            counts.suspects = found[0, 2].count ?? 0
            counts.other = found[0, 3].count ?? 0
            counts.quarantined = found[0, 4].count ?? 0
            return counts
        }
    }

    /// Enters the name of an imported content. Nothing is deleted anywhere, so a name that a killed
    /// import made void is taken after all.
    ///
    /// - Returns: false when the content was imported before.
    /// - Throws: any failure; then it is unknown whether the name is taken. The same import asks
    ///   again.
    package func claim(
        _ name: String, run: String, _ counts: ReportCounts
    ) throws(StoreFailure) -> Bool {
        try session.retries.retrying("entering the import \(name)") { () throws(SQLFailure) in
            switch try owner(of: name) {
            case .some(let (state, owner)) where state == .taken: return owner == run
            case .some(let (_, owner)):
                let now = connection.dialect.now
                // The answer to an earlier try may have been lost, so the row decides.
                return try connection.changesRow(
                    "UPDATE pushsweep_intake SET state = 'taken', run = ?, \(Self.assignments), "
                        + "taken_at = \(now) WHERE id = ? AND state = 'void' AND run = ?",
                    [.text(run)] + Self.values(counts) + [.text(name), .text(owner)]
                ) { () throws(SQLFailure) in try state(of: name, for: run) == .taken }
            case nil:
                try insert(name, run: run, source: "import", state: "taken", counts)
                return true
            }
        }
    }

    // MARK: Statements

    /// What the name says for a run. An imported content has the same name on every host, and only
    /// the run that entered it has taken it.
    private func state(of name: String, for run: String) throws(SQLFailure) -> IntakeState? {
        guard let (state, owner) = try owner(of: name) else { return nil }
        return owner == run ? state : .void
    }

    private func owner(of name: String) throws(SQLFailure) -> (state: IntakeState, run: String)? {
        let found = try connection.query(
            "SELECT state, run FROM pushsweep_intake WHERE id = ?", [.text(name)])
        guard found.count > 0 else { return nil }
        return (found[0, 0].text == "taken" ? .taken : .void, found[0, 1].text ?? "")
    }

    private func insert(
        _ name: String, run: String, source: String, state: String, _ counts: ReportCounts
    ) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_intake (id, run, source, state, taken_at, \(Self.counted)) VALUES "
                + "(?, ?, ?, ?, \(connection.dialect.now), ?, ?, ?, ?, ?)",
            [.text(name), .text(run), .text(source), .text(state)] + Self.values(counts))
    }

    private static let counted = "reports, evidence, suspects, other, quarantined"
    private static let assignments =
        "reports = ?, evidence = ?, suspects = ?, other = ?, quarantined = ?"

    /// What the table has no column for is passed over like what says nothing.
    private static func values(_ counts: ReportCounts) -> [SQLValue] {
        let other = counts.other + counts.otherPlatform + counts.unknownReasons
        return [counts.reports, counts.evidence, counts.suspects, other, counts.quarantined].map {
            .integer(Int64($0))
        }
    }

    func rows(_ found: SQLRows) throws(SQLFailure) -> [EvidenceRow] {
        try found.require(width: 9)
        return (0..<found.count).map { EvidenceRow(found.row($0), connection.dialect) }
    }
}

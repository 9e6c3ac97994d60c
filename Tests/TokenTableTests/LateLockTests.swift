import APNsProtocol
import Database
import TestSupport
import Testing
import TokenHygiene
import TokenTable

/// What another transaction does to row 5 after it was read and before it would be marked.
private enum ChangeInBetween: String, CaseIterable {
    case registration = "registered_at = '2024-01-01 00:02:00'"
    case mark = "invalidated_at = '2024-02-01 00:00:00'"
    case reason = "invalid_reason = 'app'"
    case token = "device_token = X'00FF'"
    case app = "app_id = 'mail'"
    case spelling = "app_id = 'Chat'"
    case removal = ""

    var statement: String {
        let row = "WHERE device_token = X'\(DeviceToken.numbered(5).hex)'"
        return self == .removal
            ? "DELETE FROM active_users \(row)"
            : "UPDATE active_users SET \(rawValue) \(row)"
    }

    /// Whether the row may be marked all the same.
    var keepsEvidence: Bool { self == .reason }
}

/// Why a chunk judges rows that it has not locked.
private enum Way: CaseIterable {
    /// The node certifies commits, so the chunk reads them without a lock.
    case certified
    /// The forecast has read them.
    case known
}

@Suite("Marks of rows that were read without a lock", .needsServer)
struct LateLockTests {
    private static let evidence = (0..<200).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let change = "UPDATE `active_users`"

    private struct Stage {
        let database: TokenDatabase
        let connection: FaultyConnection
        let store: TokenTable

        let knows: Bool

        init(_ way: Way? = .certified) throws {
            database = try TokenDatabase.own(.mariaDB, 0..<200)
            connection = FaultyConnection(database.driver(), [])
            connection.certifiesCommits = way == .certified
            knows = way == .known
            store = try TokenTable(database.settings, connection, hurried())
        }

        /// Judges evidence as a batch of the run `marks`, behind a forecast where rows are to be known.
        @discardableResult
        func sweep(_ evidence: [TokenEvidence]) throws -> BatchProgress {
            try store.record("marks")
            return knows
                ? try store.applyKnown(evidence, run: "marks")
                : try store.apply(evidence, run: "marks")
        }

        /// The statements that read the tokens' rows, with a lock and without.
        var reads: (locking: Int, plain: Int) {
            let reads = connection.log.map(\.0).filter {
                $0.hasPrefix("SELECT") && $0.contains("FROM `active_users`")
                    && $0.contains("`device_token`")
            }
            let locking = reads.filter { $0.hasSuffix("FOR UPDATE") }.count
            return (locking, reads.count - locking)
        }

        /// Runs statements on another connection just before the first change.
        func beforeFirstChange(_ statements: [String]) {
            var isDone = false
            connection.refusal = { [database] sql in
                guard !isDone, sql.hasPrefix(LateLockTests.change) else { return nil }
                isDone = true
                do {
                    for statement in statements { try database.execute(statement) }
                } catch {
                    Issue.record(error)
                }
                return nil
            }
        }

        /// The number of marked rows without an entry in the ledger, and of entries without a mark.
        func apart() throws -> [[String]] {
            let entry = "(SELECT 1 FROM pushsweep_change WHERE row_key = CAST(id AS CHAR))"
            return try database.texts(
                """
                SELECT SUM(invalid_reason <=> 'feedback' AND NOT EXISTS \(entry)),
                SUM(NOT invalid_reason <=> 'feedback' AND EXISTS \(entry)) FROM active_users
                """)
        }
    }

    @Test(
        "first marks lock no row before the statement that marks it, after its ledger entry",
        arguments: Way.allCases)
    fileprivate func order(_ way: Way) throws {
        let stage = try Stage(way)
        try stage.sweep(Self.evidence)
        #expect(stage.reads.locking == 0 && stage.reads.plain > 0)
        if way == .known { #expect(stage.reads.plain == 1, "the forecast alone has read") }
        let log = stage.connection.log.map(\.0)
        let entry = try #require(log.firstIndex { $0.hasPrefix("INSERT INTO pushsweep_change") })
        let mark = try #require(log.firstIndex { $0.hasPrefix(Self.change) })
        #expect(entry < mark)
        #expect(try stage.apart() == [["0", "0"]])
        #expect(try stage.store.undo(.run("marks")).restored == 200)
        #expect(try stage.database.unmarked() == 200)
    }

    @Test(
        "the first chunk is a small one there, because one that loses is repeated",
        arguments: [(true, 300), (false, 900)])
    func firstChunk(_ certifies: Bool, _ tokens: Int) throws {
        let stage = try Stage(certifies ? .certified : nil)
        var pacing = hurried()
        pacing.firstChunk = 900
        let store = try TokenTable(stage.database.settings, stage.connection, pacing)
        try store.apply((0..<900).map { TokenEvidence.dead($0, at: start + 60_000) })
        let read = try #require(
            stage.connection.log.first {
                $0.0.contains("FROM `active_users`") && $0.0.contains("`device_token` IN (?")
            })
        let sought = Set(read.1.filter { if case .bytes = $0 { true } else { false } })
        #expect(sought.count == tokens)
    }

    @Test(
        "where locks hold for every client and nothing is known, rows are locked when they are read"
    )
    func plainServer() throws {
        let stage = try Stage(nil)
        try stage.store.apply(Self.evidence)
        #expect(stage.reads.locking > 0 && stage.reads.plain == 0)
    }

    @Test(
        "a row that changes between read and mark survives, and the next try locks",
        arguments: ChangeInBetween.allCases, Way.allCases)
    fileprivate func inBetween(_ change: ChangeInBetween, _ way: Way) throws {
        let stage = try Stage(way)
        stage.beforeFirstChange([change.statement])
        let progress = try stage.sweep(Self.evidence)
        #expect(stage.reads.locking == 1)
        #expect(progress.isApplied)
        #expect(progress.counts.applied == (change.keepsEvidence ? 200 : 199))
        #expect(progress.rowsChanged == (change.keepsEvidence ? 200 : 199))
        #expect(try stage.apart() == [["0", "0"]])
        let kept = try stage.database.rows(of: "active_users", "invalid_reason <=> 'feedback'")
        #expect(kept == (change.keepsEvidence ? 200 : 199))
        if change != .removal, !change.keepsEvidence {
            let row = try stage.database.rows(
                of: "active_users", "\(change.rawValue) AND NOT invalid_reason <=> 'feedback'")
            #expect(row == 1)
        }
    }

    @Test("a row that is registered in between by a new row is left to the next signal")
    func insertedInBetween() throws {
        let stage = try Stage()
        try stage.database.execute(
            "ALTER TABLE active_users DROP INDEX device, ADD INDEX device (device_token)")
        stage.beforeFirstChange([
            "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                + "SELECT 'other', app_id, environment, device_token, '2024-01-01 00:02:00' "
                + "FROM active_users WHERE device_token = X'\(DeviceToken.numbered(5).hex)'"
        ])
        let progress = try stage.store.apply(Self.evidence)
        #expect(progress.counts == Counts(applied: 200))
        #expect(
            try stage.database.texts(
                "SELECT COUNT(*) FROM active_users WHERE user_id = 'other' AND invalidated_at IS NULL"
            )
                == [["1"]])
    }

    @Test(
        "rows with an older mark and a reason are marked without a lock too, and undo brings both back"
    )
    func markedBefore() throws {
        let stage = try Stage(.known)
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = '2023-12-31 00:00:00', invalid_reason = 'App ' "
                + "WHERE id IN (5, 6)")
        try stage.database.execute("UPDATE active_users SET invalid_reason = 'app' WHERE id = 7")
        let before = try stage.database.texts("SELECT * FROM active_users ORDER BY id")
        try stage.sweep(Self.evidence)
        #expect(stage.reads.locking == 0 && stage.reads.plain > 0)
        #expect(try stage.apart() == [["0", "0"]])
        #expect(try stage.store.undo(.run("marks")).restored == 200)
        #expect(try stage.database.texts("SELECT * FROM active_users ORDER BY id") == before)
    }

    @Test(
        "an older mark or reason that changes in between is kept for the undo",
        arguments: ["invalidated_at = '2023-12-31 01:00:00'", "invalid_reason = 'app'"],
        Way.allCases)
    fileprivate func markedBeforeAndChanged(_ change: String, _ way: Way) throws {
        let stage = try Stage(way)
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = '2023-12-31 00:00:00', invalid_reason = 'App' "
                + "WHERE id IN (5, 6)")
        stage.beforeFirstChange(["UPDATE active_users SET \(change) WHERE id = 5"])
        try stage.sweep(Self.evidence)
        #expect(stage.reads.locking == 1)
        #expect(try stage.store.undo(.run("marks")).restored == 200)
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM active_users WHERE id = 5 AND "
                    + change.replacing(" = ", with: " = BINARY ")) == 1)
    }

    @Test("two rows that exchange their tokens in between are judged anew", arguments: Way.allCases)
    fileprivate func exchanged(_ way: Way) throws {
        let stage = try Stage(way)
        func token(_ number: Int) -> String { "X'\(DeviceToken.numbered(number).hex)'" }
        // The first of them died later, and nothing else tells the rows apart.
        var evidence = Self.evidence
        evidence[5] = .dead(5, at: start + 3_600_000)
        let database = stage.database
        stage.beforeFirstChange([
            "UPDATE active_users SET device_token = X'01' WHERE device_token = \(token(5))",
            "UPDATE active_users SET device_token = \(token(5)) WHERE device_token = \(token(6))",
            "UPDATE active_users SET device_token = \(token(6)) WHERE device_token = X'01'",
        ])
        try stage.sweep(evidence)
        #expect(stage.reads.locking == 1)
        #expect(
            try database.rows(
                of: "active_users",
                "device_token = \(token(5)) AND invalidated_at = '2024-01-01 01:00:00'") == 1)
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM active_users u JOIN pushsweep_change c ON c.row_key = CAST(u.id AS CHAR) "
                    + "WHERE c.token = u.device_token") == 200)
    }

    @Test("rows to delete are locked when they are read")
    func otherChanges() throws {
        let removing = try Stage()
        try removing.store.apply(Self.evidence, policy: RemovalPolicy(action: .delete))
        // The trial takes the first row back before any is removed.
        #expect(removing.reads.plain == 1)
    }

    @Test("a row that a trigger holds back costs no other row its mark", arguments: Way.allCases)
    fileprivate func trigger(_ way: Way) throws {
        let stage = try Stage(way)
        try stage.database.hold("device_token", "X'\(DeviceToken.numbered(5).hex)'")
        let progress = try stage.sweep(Self.evidence)
        #expect(progress.rowsRefused == 1)
        #expect(progress.counts.applied == 199)
        #expect(try stage.database.rows(of: "active_users", "invalid_reason <=> 'feedback'") == 199)
    }
}

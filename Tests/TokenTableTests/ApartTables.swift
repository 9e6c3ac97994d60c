import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// Two databases with half of the rows each; the first one has our tables too.
struct ApartTables {
    let first: TokenDatabase
    let second: TokenDatabase

    /// A feed of three chunks about stale, fresh and absent rows, and what it amounts to.
    static let evidence = (0..<240).map { TokenEvidence.dead($0, at: start + 60_000) }
    static let counts = OutcomeCounts(applied: 150, newer: 50, unknown: 40)

    init() throws {
        first = try TokenDatabase(.mariaDB)
        try first.createOwnSchema()
        second = try TokenDatabase(.mariaDB)
        try second.createOwnSchema()
        for number in 0..<200 {
            try (number % 2 == 0 ? first : second).register(
                .numbered(number), at: number < 150 ? start : start + 90_000)
        }
        // Keys are unique in the whole table.
        try second.execute("UPDATE active_users SET id = id + 10000")
    }

    /// The rows' connection, and a store with it.
    func store(
        halfCommit: Int? = nil, _ kind: SQLFailure.Kind = .lost,
        ledger faults: [FaultyConnection.Fault] = [],
        _ change: (inout TableMapping) -> Void = { _ in }
    ) throws -> (TokenTable, FaultyConnection) {
        let rows = TwoShards(
            [first.driver(), second.driver()], halfCommit: halfCommit, kind: kind)
        let ledger = FaultyConnection(first.driver(), faults)
        var settings = first.settings
        change(&settings.mapping)
        return (
            try TokenTable(
                settings, ApartConnection(rows: rows, ledger: ledger), hurried()), ledger
        )
    }

    func texts(_ query: String) throws -> [String] {
        try (first.texts(query) + second.texts(query)).map { $0.joined(separator: " ") }
            .sorted()
    }

    /// Checks that rows, ledger and checkpoint tell the same, and that nothing is pending.
    func checkAgreement(_ note: Comment) throws {
        let marked = try texts(
            "SELECT id FROM active_users WHERE invalidated_at IS NOT NULL")
        let entries = try first.texts("SELECT row_key FROM pushsweep_change WHERE seq >= 0")
            .map { $0[0] }.sorted()
        #expect(marked == entries, note)
        #expect(
            try first.texts(
                "SELECT SUM(last_seq - first_seq + 1), MAX(last_seq) FROM pushsweep_commit "
                    + "WHERE number > 0") == [["150", "149"]], note)
        #expect(
            try first.count(
                "SELECT COUNT(*) FROM pushsweep_feed WHERE pending IS NOT NULL") == 0, note)
    }

    /// Applies the feed up to a COMMIT of rows that reaches the first table only.
    func leaveHalf() throws {
        let (store, _) = try store(halfCommit: 2, .other)
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "one")
        }
        #expect(try pending() == 1)
    }

    /// The number of pending chunks.
    func pending() throws -> Int { try first.count("SELECT COUNT(pending) FROM pushsweep_feed") }

    /// Puts all rows into the first table, beside the ledger, as the conversion to one engine does.
    func convert() throws {
        try first.execute("INSERT INTO active_users SELECT * FROM \(second.name).active_users")
        try second.execute("DELETE FROM active_users")
    }

    /// Lets the time of pending chunks lie an hour back.
    func age() throws {
        try first.execute(
            "UPDATE pushsweep_feed SET changed_at = changed_at - INTERVAL 1 HOUR "
                + "WHERE pending IS NOT NULL")
    }
}

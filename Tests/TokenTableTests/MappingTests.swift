import APNsProtocol
import Database
import Findings
import TestSupport
import Testing
import TokenHygiene

@Suite("Tables of other applications")
struct MappingTests {
    private static let pushChat = """
        CREATE TABLE active_users (udid varchar(40) NOT NULL PRIMARY KEY, \
        device_token varchar(64) NOT NULL, nickname varchar(255) NOT NULL, \
        secret_code varchar(255) NOT NULL, ip_address varchar(32) NOT NULL)
        """

    private static func insert(_ token: Int, as udid: String, _ database: TokenDatabase) throws {
        try database.execute(
            "INSERT INTO active_users VALUES (?, ?, 'nick', 'room', '192.0.2.1')",
            [.text(udid), .text(DeviceToken.numbered(token).hex.uppercased())])
    }

    @Test(
        "the original PushChat table stays as it is, and marks go into the side table",
        arguments: TestEngine.available)
    func pushChatMarks(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(Self.pushChat)
        for token in 0..<5 { try Self.insert(token, as: "udid\(token)", database) }
        try Self.insert(1, as: "second", database)
        let before = try database.texts("SELECT * FROM active_users ORDER BY udid")
        let store = try database.store()
        let evidence = (1..<7).map { TokenEvidence.dead($0, at: start + 5_500) }
        let foretold = try store.classify(evidence)
        #expect(foretold.counts == Counts(applied: 4, unknown: 2))
        #expect(foretold.candidateRows == 5 && foretold.undatedRows == 5)
        let first = try store.apply(evidence)
        #expect(first.counts == Counts(applied: 4, unknown: 2) && first.rowsChanged == 4)
        #expect(try database.texts("SELECT * FROM active_users ORDER BY udid") == before)
        #expect(
            try database.texts(
                "SELECT token, app, environment, invalidated_at, reason FROM pushsweep_invalid "
                    + "ORDER BY token"
            ).first == [
                DeviceToken.numbered(1).hex, "chat", "production", "2024-01-01 00:00:05.500",
                "feedback",
            ])
        let again = try store.apply(evidence)
        #expect(again.counts == Counts(already: 4, unknown: 2) && again.rowsChanged == 0)
        let later = try store.apply([.dead(1, at: start + 9_000)])
        #expect(later.counts == Counts(already: 1) && later.rowsChanged == 1)
        let other = try store.apply([.dead(1, at: start)], app: "other")
        #expect(other.counts == Counts(applied: 1))
    }

    @Test(
        "the original PushChat table loses a row only by an explicit policy",
        arguments: TestEngine.available)
    func pushChatDeletes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(Self.pushChat)
        for token in 0..<3 { try Self.insert(token, as: "udid\(token)", database) }
        let store = try database.store()
        let evidence = [TokenEvidence.dead(1, at: start)]
        try store.apply(evidence, policy: RemovalPolicy(action: .delete))
        #expect(try database.rows() == 3)
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        let told = try store.apply(evidence, policy: policy)
        #expect(told.counts == Counts(applied: 1))
        #expect(
            try database.texts("SELECT udid FROM active_users ORDER BY udid") == [
                ["udid0"], ["udid2"],
            ])
    }

    @Test(
        "rows are changed by any key that the table has",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func keys(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let shapes: [(columns: String, key: [String], values: (Int) -> [SQLValue])] = [
            (
                "a VARCHAR(40) PRIMARY KEY, b INTEGER", ["a"],
                { [.text("k'\($0)\\\""), .integer(1)] }
            ),
            (
                "a INTEGER NOT NULL, b VARCHAR(40) NOT NULL, PRIMARY KEY (a, b)", ["a", "b"],
                { [.integer(Int64($0 % 7)), .text("k\($0)")] }
            ),
            (
                "a BLOB NOT NULL, b INTEGER NOT NULL UNIQUE", ["b"],
                { [.bytes([0, 1]), .integer(-Int64($0))] }
            ),
            // Adjacent numbers that are equal as floating point numbers.
            (
                "a BIGINT NOT NULL UNIQUE, b INTEGER", ["a"],
                { [.integer((1 << 62) + Int64($0)), .null] }
            ),
            (
                engine == .mariaDB
                    ? "a BIGINT UNSIGNED PRIMARY KEY, b INTEGER"
                    : "a INTEGER PRIMARY KEY, b INTEGER",
                ["a"],
                {
                    engine == .mariaDB
                        ? [.unsigned(UInt64.max - UInt64($0)), .null]
                        : [.integer(Int64.max - Int64($0)), .null]
                }
            ),
            (
                engine == .mariaDB
                    ? "a VARBINARY(16) PRIMARY KEY, b INTEGER" : "a BLOB PRIMARY KEY, b INTEGER",
                ["a"], { [.bytes([0xFF, UInt8($0)]), .null] }
            ),
        ]
        for shape in shapes {
            let database = try TokenDatabase.withSideTables(engine)
            try database.execute(
                "CREATE TABLE devices (\(shape.columns.replacing(", PRIMARY KEY (", with: ", device_token VARCHAR(64), registered_at DATETIME, invalidated_at DATETIME, PRIMARY KEY (")) "
                    + (shape.columns.contains(", PRIMARY KEY (")
                        ? ")"
                        : ", device_token VARCHAR(64), registered_at DATETIME, invalidated_at DATETIME)")
            )
            for row in 0..<230 {
                try database.execute(
                    "INSERT INTO devices (a, b, device_token, registered_at) VALUES (?, ?, ?, ?)",
                    shape.values(row) + [
                        .text(DeviceToken.numbered(row).hex),
                        row % 3 == 0 ? .null : database.time(start - 1_000 * Int64(row)),
                    ])
            }
            let store = try database.store {
                $0.table = "devices"
                $0.key = shape.key
            }
            let evidence = (0..<220).map {
                TokenEvidence.dead($0, at: start + 10_000 + 1_000 * Int64($0))
            }
            let policy = RemovalPolicy(action: action, deletesWithoutRegistrationTime: true)
            let progress = try store.apply(evidence, policy: policy)
            #expect(progress.counts == Counts(applied: 220), "key \(shape.key)")
            if action == .delete {
                #expect(try database.rows(of: "devices") == 10)
            } else {
                let rows = try database.texts(
                    "SELECT device_token, invalidated_at FROM devices ORDER BY device_token")
                for row in 0..<220 {
                    let clock = WallClock(
                        microseconds: (start + 10_000 + 1_000 * Int64(row)) * 1_000)
                    #expect(rows[row] == [DeviceToken.numbered(row).hex, clock.text(fraction: 3)])
                }
            }
        }
    }

    @Test("app and environment may be numbers", arguments: TestEngine.available)
    func numberedPartitions(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "app_id INTEGER, environment INTEGER, invalidated_at DATETIME)")
        for (id, app, environment) in [(1, 0, 0), (2, 7, 0), (3, 7, 1)] as [(Int64, Int64, Int64)] {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, NULL)",
                [
                    .integer(id), .text(DeviceToken.numbered(1).hex), .integer(app),
                    .integer(environment),
                ])
        }
        let store = try database.store {
            $0.table = "devices"
            $0.environmentValues = ["production": "1", "sandbox": "0"]
        }
        #expect(throws: StoreFailure.self) { try store.apply([.dead(1, at: start)], app: "chat") }
        try store.apply([.dead(1, at: start)], app: "7")
        #expect(
            try database.texts("SELECT id FROM devices WHERE invalidated_at IS NOT NULL") == [["3"]]
        )
    }

    @Test("a mapping that does not fit its table is refused with what to correct")
    func refusals() throws {
        for engine in TestEngine.available {
            let database = try TokenDatabase(engine)
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, "
                    + "device_token VARCHAR(64), n INTEGER)")
            let cases: [(String, (inout TableMapping) -> Void)] = [
                ("no such table", { $0.table = "nothing" }),
                ("neither `table` nor `schema.table`", { $0.table = "a.b.c" }),
                ("there is no column tok ", { $0.token = "tok" }),
                ("several rows can share k", { $0.key = ["k"] }),
                ("declare type epoch-seconds", { $0.registeredAt.column = .named("n") }),
                ("declare encoding hex", { $0.encoding = .binary }),
                (
                    "cannot hold datetime",
                    {
                        $0.registeredAt = TimeMapping(column: .named("n"), type: .datetime)
                    }
                ),
            ]
            for (expected, change) in cases {
                expectFailure(.configuration, expected) {
                    try database.store {
                        $0.table = "devices"
                        change(&$0)
                    }.require(.read)
                }
            }
        }
    }

    @Test("identifiers are quoted whatever they contain", arguments: TestEngine.available)
    func quoting(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let quote = engine == .mariaDB ? "`" : "\""
        func quoted(_ name: String) -> String {
            quote + name.replacing(quote, with: quote + quote) + quote
        }
        let token = "to\(quote)ken; DROP"
        try database.execute(
            "CREATE TABLE \(quoted("my 'table'")) (id INTEGER PRIMARY KEY, "
                + "\(quoted(token)) VARCHAR(64), \(quoted("select")) DATETIME)")
        try database.execute(
            "INSERT INTO \(quoted("my 'table'")) VALUES (1, ?, NULL)",
            [.text(DeviceToken.numbered(1).hex)])
        let store = try database.store {
            $0.table = "my 'table'"
            $0.token = token
            $0.invalidatedAt.column = .named("SELECT")
        }
        #expect(try store.apply([.dead(1, at: start)]).counts == Counts(applied: 1))
    }
}

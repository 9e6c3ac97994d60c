import APNsProtocol
import APNsSimulator
import Database
import PushQueue
import TestSupport
import Testing
import TokenTable

private let before: Int64 = 1_600_000_000_000
private let dead: UInt32 = 1_700_000_000

@Suite("A database of an earlier build")
struct UpgradeTests {
    /// The table of batches of that build.
    private static func oldTable(_ engine: TestEngine) -> [String] {
        let (id, word, number, small, time) =
            engine == .mariaDB
            ? (
                "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
                "VARCHAR(129) NOT NULL",
                "BIGINT NOT NULL DEFAULT 0", "SMALLINT NOT NULL DEFAULT", "DATETIME(3) NULL"
            )
            : (
                "TEXT NOT NULL", "TEXT NOT NULL", "INTEGER NOT NULL DEFAULT 0",
                "INTEGER NOT NULL DEFAULT", "DATETIME NULL"
            )
        let columns =
            ["feed \(id)", "part \(small) 0", "parts \(small) 1", "run \(id)"]
            + ["app", "environment", "source", "table_name"].map { "\($0) \(word)" }
            + [
                "key_columns \(engine == .mariaDB ? "VARCHAR(255)" : "TEXT") NOT NULL DEFAULT ''",
                "last_token BLOB NULL",
            ]
            + [
                "applied", "already", "newer", "unknown_tokens", "rows_changed", "invalidated",
                "refused", "rows_refused",
            ].map { "\($0) \(number)" }
            + [
                "released \(small) 0",
                "state \(engine == .mariaDB ? "VARCHAR(16)" : "TEXT") NOT NULL",
                "changed_at \(time)",
            ]
        return [
            "CREATE TABLE pushsweep_feed (\(columns.joined(separator: ", ")), PRIMARY KEY (feed, part))"
                + (engine == .mariaDB
                    ? " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin" : ""),
            "CREATE INDEX removals ON pushsweep_feed (app, environment, changed_at, released, invalidated)",
        ]
    }

    private static let kept =
        "feed, part, parts, run, app, environment, source, table_name, key_columns, last_token, applied, "
        + "already, newer, unknown_tokens, rows_changed, invalidated, refused, rows_refused, released, "
        + "state, changed_at"

    /// Makes the tables as that build leaves them.
    private static func goBack(_ database: TokenDatabase) throws {
        for statement in oldTable(database.engine) { try database.execute(statement) }
        try database.execute(
            "INSERT INTO pushsweep_feed (feed, run, app, environment, source, table_name, state) "
                + "SELECT name, run, app, environment, source, 'active_users', state FROM pushsweep_batch"
        )
        for statement in [
            "DROP TABLE pushsweep_batch", "DROP TABLE pushsweep_part",
            "DROP TABLE pushsweep_report", "DROP TABLE pushsweep_suspect",
            "DROP TABLE pushsweep_quarantine",
        ] {
            try database.execute(statement)
        }
    }

    @Test(
        "is refused in one sentence that changes nothing, and all works once the tables it names are dropped",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [.tuples((0..<3).map { .dead($0, at: dead) })]
                + [.tuples((3..<6).map { .dead($0, at: dead) }), .tuples([])])
        try stage.database.register(0..<1_000, at: before)
        let run = try #require(try stage.sweep().ends(0).json["run"] as? String)
        try Self.goBack(stage.database)
        let asked = stage.gateway.records.count
        let rows = try stage.database.texts("SELECT \(Self.kept) FROM pushsweep_feed")

        var drops: [Substring] = []
        for words in [["sweep"], ["check"], ["undo", run], ["schema", "apply"]] {
            let refusal = try stage.run(words).ends(
                78, "pushsweep_feed is of an earlier build", "marks in pushsweep_invalid",
                for: "\(words)")
            #expect(refusal.error.components(separatedBy: "pushsweep_feed is").count == 2)
            let told = try #require(refusal.printed.firstMatch(of: /DROP TABLE [a-z_,; A-Z]+/))
            drops = told.output.split(separator: "; ")
        }
        let gate = ["preflight", "--read-only", "--app", "chat"]
        for look in [["audit"], ["environments"], ["sweep", "--dry-run"], gate] {
            try stage.run(look).ends(78, "pushsweep_feed is of an earlier build", for: "\(look)")
        }
        #expect(stage.gateway.records.count == asked, "a list was read")
        #expect(try stage.database.texts("SELECT \(Self.kept) FROM pushsweep_feed") == rows)
        #expect(throws: (any Error).self) { try stage.database.rows(of: "pushsweep_report") }

        for statement in drops { try stage.database.execute(String(statement)) }
        try stage.run("schema", "apply").ends(0, "pushsweep_batch", "pushsweep_report")
        try stage.run("schema", "apply").ends(0, "nothing is missing")
        #expect(try stage.database.marked == 3)
        // The folder belonged to what was dropped.
        try stage.sweep().ends(78)
        let next = try #require(try stage.sweep("--adopt").ends(0).json["run"] as? String)
        #expect(try stage.database.marked == 6)
        try stage.run("check").ends(0)
        try stage.run("audit").ends(0)
        try stage.run("undo", next).ends(0)
        #expect(try stage.database.marked == 3)
    }

    @Test(
        "is not what lacks a column that may be added, which schema apply adds and keeps all rows",
        arguments: TestEngine.available)
    func completed(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        let run = try #require(try stage.sweep().ends(0).json["run"] as? String)
        try stage.database.execute("ALTER TABLE pushsweep_batch DROP COLUMN label")
        try stage.run("sweep").ends(
            78, "pushsweep_batch lacks the columns label", "run `pushsweep schema apply`")
        try stage.run("schema", "apply").ends(0, "ADD COLUMN")
        try stage.run("schema", "apply").ends(0, "nothing is missing")
        try stage.run("undo", run).ends(0)
        #expect(try stage.database.marked == 0)
    }

    @Test("is not what an account sees in part, which is told of the right it lacks", .needsServer)
    func seenInPart() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let account = try ServerAccount(of: database)
        for right in ["SELECT", "UPDATE"] { try account.grant(right, on: "active_users") }
        try account.grant("SELECT (name, state)", on: "pushsweep_batch")
        let failure = #expect(throws: (any Error).self) {
            try TokenTable(account.settings).applySchema(upgrading: false)
        }
        for words in ["may see only some columns of pushsweep_batch", "GRANT SELECT ON"] {
            #expect("\(failure as Any)".contains(words), "\(failure as Any)")
        }
    }
}

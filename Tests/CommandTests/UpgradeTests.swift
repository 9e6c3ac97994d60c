import APNsProtocol
import APNsSimulator
import Database
import EvidenceJournal
import TestSupport
import Testing
import TokenHygiene

private let before: Int64 = 1_600_000_000_000
private let dead: UInt32 = 1_700_000_000

@Suite("A database of version 0.3.0")
struct UpgradeTests {
    /// `pushsweep_feed` as version 0.3.0 makes it.
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
            "CREATE TABLE old_feed (\(columns.joined(separator: ", ")), PRIMARY KEY (feed, part))"
                + (engine == .mariaDB
                    ? " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin" : ""),
            "CREATE INDEX removals ON old_feed (app, environment, changed_at, released, invalidated)",
        ]
    }

    private static let kept =
        "feed, part, parts, run, app, environment, source, table_name, key_columns, last_token, applied, "
        + "already, newer, unknown_tokens, rows_changed, invalidated, refused, rows_refused, released, "
        + "state, changed_at"

    /// Makes the database and the journal as 0.3.0 leaves them, with a list that is held in the journal.
    private static func goBack(_ stage: SweepStage) throws -> String {
        let database = stage.database
        for statement in oldTable(database.engine) { try database.execute(statement) }
        try database.execute("INSERT INTO old_feed SELECT \(kept) FROM pushsweep_feed")
        for statement in [
            "DROP TABLE pushsweep_feed", "ALTER TABLE old_feed RENAME TO pushsweep_feed",
            "DROP TABLE pushsweep_report",
        ] {
            try database.execute(statement)
        }
        let journal = try EvidenceJournal(in: StateFolder(stage.state))
        let now = EpochMilliseconds(1_790_000_000_000)
        let feed = try journal.beginFeed(
            run: "r", partition: Partition(app: "chat", environment: "production"),
            source: "gateway:2196", at: now)
        let tuples = (100..<600).map { FeedbackTuple.dead($0, at: dead + UInt32($0 % 10)) }
        try FeedbackTuple.bytes(tuples).withUnsafeBytes { try feed.append($0) }
        try feed.close(.closeNotify, at: now)
        try journal.close(feed.id, as: .held, cause: "it was too much", gate: .volume, at: now)
        return feed.id
    }

    @Test(
        "is refused before anything is read, completed by schema apply, and has all that it had",
        arguments: TestEngine.available)
    func completed(_ engine: TestEngine) throws {
        let stage = try SweepStage(
            engine,
            feeds: [.tuples((0..<3).map { .dead($0, at: dead) })]
                + [FeedSource](repeating: .tuples([]), count: 5))
        try stage.database.register(0..<1_000, at: before)
        let run = try #require(try stage.sweep().ends(0).json["run"] as? String)
        let page = try stage.run("changes", "--since", "n0", "--limit", "2").ends(0)
        let cursor = try #require(
            page.output.split(separator: "\n").last?.firstMatch(of: /"cursor":"([^"]+)"/)
        ).1
        let held = try Self.goBack(stage)
        let asked = stage.gateway.records.count

        for words in [["sweep"], ["check"], ["undo", run]] {
            try stage.run(words).ends(
                78, "pushsweep_feed lacks the columns inlet", "run `pushsweep schema apply`",
                for: "\(words)")
        }
        #expect(stage.gateway.records.count == asked, "a list was read")
        let rows = try stage.database.texts("SELECT \(Self.kept) FROM pushsweep_feed")
        try stage.run("schema", "apply").ends(0, "ADD COLUMN", "pushsweep_report")
        try stage.run("schema", "apply").ends(0, "nothing is missing")
        #expect(try stage.database.texts("SELECT \(Self.kept) FROM pushsweep_feed") == rows)

        // The hold of the journal is one of the database.
        try stage.sweep().ends(3)
        let shown = try stage.json("holds", "show", held).ends(0)
        #expect(shown.json["cause"] as? String == "it was too much")
        #expect(shown.json["gate"] as? String == "volume" && shown.json["tuples"] as? Int == 500)
        let digest = try #require(shown.json["digest"] as? String)
        try stage.run(["holds", "release", digest], environment: stage.host("b")).ends(0)
        #expect(try stage.database.marked == 503)

        // The follower goes on behind its cursor, and the undo knows the ledger of before.
        let rest = try stage.run("changes", "--since", "\(cursor)").ends(0)
        #expect(rest.output.split(separator: "\n").count == 501)
        try stage.run("undo", run).ends(0)
        #expect(try stage.database.marked == 500)
        try stage.run("audit").ends(0)
        try stage.sweep().ends(0)
    }
}

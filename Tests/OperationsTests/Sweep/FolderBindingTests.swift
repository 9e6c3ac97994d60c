import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("A state folder belongs to one database")
struct FolderBindingTests {
    private static let died: UInt32 = 1_700_000_000

    /// A stage whose gateway has a list, and a second database with the same rows.
    private static func twoDatabases(
        _ engine: TestEngine
    ) throws -> (stage: SweepStage, other: TokenDatabase) {
        let stage = try SweepStage(
            engine,
            feeds: [.tuples([]), .tuples((0..<10).map { .dead($0, at: died) })]
                + [ListSource](repeating: .tuples([]), count: 5))
        let other = try TokenDatabase(engine)
        try other.createOwnSchema()
        for database in [stage.database, other] {
            try database.register(0..<100, at: 1_600_000_000_000)
        }
        return (stage, other)
    }

    private static func use(_ database: TokenDatabase, _ stage: SweepStage) throws {
        stage.lines.store = try database.settingsLines(in: stage.folder)
    }

    @Test(
        "what waits for one database is poured into no other, in which nothing is read either, and its lists are named",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let (stage, other) = try Self.twoDatabases(engine)
        try stage.run("sweep").ends(0)
        // A dry run keeps the list that it reads.
        try stage.run("sweep", "--dry-run").ends(75)
        try #require(stage.feedStates().last == "pending")
        try Self.use(other, stage)
        let asked = stage.gateway.records.count
        for words in [["sweep"], ["sweep", "--dry-run"], ["replay", "--batch", "12345678"]] {
            let result = try stage.run(words).ends(78, "belongs to database", "sweep --adopt")
            #expect(result.error.contains("chat/production from 127.0.0.1"), "\(result.error)")
            if words.count == 1 { #expect(result.error.contains("never swept")) }
        }
        #expect(try other.marked == 0)
        #expect(stage.gateway.records.count == asked)
        #expect(try other.rows(of: "pushsweep_commit") == 0)
        try Self.use(stage.database, stage)
        try stage.run("sweep").ends(0)
        #expect(try stage.database.marked == 10)
        // One that has an identity of its own is another database as well.
        try stage.run(["sweep"], environment: stage.host("b")).ends(0)
        try Self.use(other, stage)
        try stage.run(["sweep"], environment: stage.host("c")).ends(0)
        let result = try stage.run("sweep").ends(78)
        #expect(!result.error.contains("never swept"))
        try stage.run(["sweep"], environment: stage.host("b")).ends(78)
    }

    @Test(
        "a person hands a folder over to the database that took the place of another",
        arguments: TestEngine.available)
    func adopted(_ engine: TestEngine) throws {
        let (stage, other) = try Self.twoDatabases(engine)
        try stage.run("sweep").ends(0)
        try stage.run("sweep", "--dry-run").ends(75)
        try Self.use(other, stage)
        try stage.run("sweep", "--adopt", "--dry-run").ends(75, "10 would become invalid")
        try stage.run("sweep").ends(78)
        try stage.run("sweep", "--adopt").ends(0, "belonged to database", "1 list that waited")
        #expect(try other.marked == 10 && stage.database.marked == 0)
        // It belongs to the new one now, for every run.
        #expect(try !stage.run("sweep", "--adopt").ends(0).error.contains("belonged"))
        try Self.use(stage.database, stage)
        try stage.run("sweep").ends(78)
    }

    @Test(
        "a database that is older than its folder is told which lists it lacks, and takes each again"
    )
    func restored() throws {
        let stage = try SweepStage(
            .sqlite,
            feeds: [
                .tuples((0..<5).map { .dead($0, at: Self.died) }),
                .tuples((5..<9).map { .dead($0, at: Self.died) }),
            ] + [ListSource](repeating: .tuples([]), count: 5))
        try stage.database.register(0..<100, at: 1_600_000_000_000)
        try stage.run("sweep").ends(0)
        guard case .sqlite(let path) = stage.database.settings.location else { return }
        let copy = stage.folder.file("backup.sqlite")
        try stage.database.execute("VACUUM INTO '\(copy)'")
        let swept = try stage.swept().ends(0)
        #expect(!swept.error.contains("lacks"))
        #expect(try stage.database.marked == 9)
        // Restored in place.
        try stage.database.execute("DELETE FROM pushsweep_batch WHERE bytes = 4 * 38")
        try stage.database.execute(
            "DELETE FROM pushsweep_report WHERE batch NOT IN (SELECT number FROM pushsweep_batch)")
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = NULL, invalid_reason = NULL WHERE id > 5")
        _ = path
        let told = try stage.run("sweep").ends(0, "lacks 1 list")
        let line = try #require(
            told.error.split(separator: "\n").first { $0.contains("replay --batch ") })
        let words = line.split(separator: " ")
        let name = String(words[words.firstIndex(of: "--batch")! + 1])
        try stage.run("replay", "--batch", name).ends(0)
        #expect(try stage.database.marked == 9)
        #expect(try !stage.run("sweep").ends(0).error.contains("lacks"))
    }

    @Test("a folder whose file has no name any more belongs to a database that nobody can name")
    func damaged() throws {
        let (stage, other) = try Self.twoDatabases(.sqlite)
        try stage.run("sweep").ends(0)
        try stage.run("sweep", "--dry-run").ends(75)
        let file = URL(fileURLWithPath: stage.state + "/database")
        for content in ["", "no name\n", "\0\0\0\0"] {
            try Data(content.utf8).write(to: file)
            try Self.use(other, stage)
            try stage.run("sweep").ends(78, "damaged", "chat/production from 127.0.0.1")
        }
        #expect(try other.marked == 0)
        try Self.use(stage.database, stage)
        try stage.run("sweep", "--adopt").ends(0)
        #expect(try stage.database.marked == 10)
    }

    @Test(
        "the sweeps of a folder are no good sweeps of another database",
        arguments: TestEngine.available)
    func strangeSweeps(_ engine: TestEngine) throws {
        let (stage, other) = try Self.twoDatabases(engine)
        try stage.run("sweep").ends(0)
        let gate = ["preflight", "--app", "chat", "--read-only"]
        let own = try stage.run(gate)
        #expect(!own.output.contains("no-recent-sweep"), "\(own.output)")
        let last = "the last good sweep was under an hour ago"
        #expect(try stage.run("audit", "--format", "json").output.contains(last))
        try Self.use(other, stage)
        let shut = try stage.run(gate).ends(78, "belongs to database")
        #expect(shut.error.contains("sweep --adopt"))
        let audit = try stage.run("audit", "--format", "json").output
        #expect(audit.contains("belongs to database") && !audit.contains(last), "\(audit)")
    }

    @Test(
        "check names both, and says which is which where they differ",
        arguments: TestEngine.available)
    func checked(_ engine: TestEngine) throws {
        let (stage, other) = try Self.twoDatabases(engine)
        #expect(try !stage.run("check").output.contains("belongs to database"))
        try stage.run("sweep").ends(0)
        let identity = try stage.database.texts(
            "SELECT run FROM pushsweep_commit WHERE number = 0")[0][0]
        #expect(
            try stage.run("check").output.contains("belongs to database \(identity), as this one"))
        try Self.use(other, stage)
        let told = try stage.run("check").ends(78)
        #expect(
            told.output.contains("belongs to database \(identity)")
                && told.output.contains("--adopt"), "\(told.output)")
    }
}

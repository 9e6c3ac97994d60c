import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Undo under faults")
struct UndoFaultTests {
    private static let evidence = (0..<240).map { TokenEvidence.dead($0, at: start + 60_000) }

    /// A table that a wrong run has marked or emptied, and its rows before. Some rows have been
    /// touched since.
    private static func database(
        _ engine: TestEngine, _ action: RemovalPolicy.Action
    ) throws -> (TokenDatabase, [[String]]) {
        let database = try TokenDatabase.own(engine, 0..<200)
        let before = try database.contents()
        try database.store(pacing: hurried()).sweep(
            "wrong", evidence, policy: RemovalPolicy(action: action))
        return (database, before)
    }

    private static func undo(
        _ database: TokenDatabase, _ faults: [FaultyConnection.Fault]
    ) throws -> (UndoProgress, FaultyConnection) {
        let connection = FaultyConnection(database.driver(), faults)
        let store = try TokenTable(database.settings, connection, hurried())
        return (try store.undo(.run("wrong")), connection)
    }

    private static func check(
        _ progress: UndoProgress, _ database: TokenDatabase, _ before: [[String]], _ note: Comment
    ) throws {
        #expect(progress.isDone && progress.restored == 200 && progress.entries == 200, note)
        #expect(progress.rowsChanged == 200, note)
        #expect(try database.contents() == before, note)
        #expect(
            try database.texts(
                "SELECT COUNT(*), COUNT(DISTINCT row_key), MIN(seq), MAX(seq) FROM pushsweep_change "
                    + "WHERE source = 'undo'") == [["200", "200", "0", "199"]], note)
    }

    @Test(
        "a fault at any statement, before or after the database ran it, changes no result",
        arguments: TestEngine.available, [SQLFailure.Kind.lost, .conflict])
    func anyStatement(_ engine: TestEngine, _ kind: SQLFailure.Kind) throws {
        let action: RemovalPolicy.Action = kind == .lost ? .delete : .mark
        let (trial, _) = try Self.database(engine, action)
        let count = try Self.undo(trial, []).1.operations
        for fault in FaultyConnection.Fault.spread(over: count, most: 12, kind: kind, on: engine) {
            let (database, before) = try Self.database(engine, action)
            let (progress, _) = try Self.undo(database, [fault])
            try Self.check(progress, database, before, "\(fault) of \(count)")
        }
    }

    @Test(
        "the next undo continues one that died anywhere, under its name, with exact numbers",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func resumes(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let (trial, _) = try Self.database(engine, action)
        let count = try Self.undo(trial, []).1.operations
        for fault in FaultyConnection.Fault.spread(
            over: count, from: 4, most: 6, kind: .other, on: engine)
        {
            let (database, before) = try Self.database(engine, action)
            _ = try? Self.undo(database, [fault])
            let progress = try database.store(pacing: hurried()).undo(.run("wrong"))
            // An undo that died after its last commit was complete; the next one finds all rows as
            // before.
            if try database.rows(of: "pushsweep_run", "kind = 'undo'") == 2 {
                #expect(progress.already == 200 && progress.rowsChanged == 0)
                continue
            }
            try Self.check(progress, database, before, "\(fault) of \(count)")
        }
    }

    @Test("a stopped undo continues where it stopped", arguments: TestEngine.available)
    func stopped(_ engine: TestEngine) throws {
        let (database, before) = try Self.database(engine, .delete)
        let store = try database.store(pacing: hurried())
        var chunks = 0
        let half = try store.undo(.run("wrong")) {
            chunks += 1
            return chunks > 1
        }
        #expect(!half.isDone && half.restored == 90)
        try Self.check(try store.undo(.run("wrong")), database, before, "continued")
    }

    @Test(
        "rows that their table refuses are counted, and the others come back",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute("CREATE TABLE person (name VARCHAR(20) PRIMARY KEY)")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), registered_at "
                + "DATETIME, name VARCHAR(20), serial INTEGER UNIQUE, "
                + "FOREIGN KEY (name) REFERENCES person (name))")
        for name in ["ada", "ben"] {
            try database.execute("INSERT INTO person VALUES (?)", [.text(name)])
        }
        for row in 0..<150 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, ?)",
                [
                    .integer(Int64(row)), .text(DeviceToken.numbered(row).hex),
                    database.time(start), .text(row % 10 == 0 ? "ben" : "ada"),
                    .integer(Int64(row)),
                ])
        }
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        try store.sweep("wrong", Self.evidence, policy: RemovalPolicy(action: .delete))
        try database.execute("DELETE FROM person WHERE name = 'ben'")
        try database.execute(
            "INSERT INTO devices (id, serial) VALUES (900, 1)")
        let undone = try store.undo(.run("wrong"))
        #expect(undone.kept == ["refused": 15, "taken": 1] && undone.inserted == 134)
        #expect(try database.rows(of: "devices") == 135)
    }
}

@Suite("Rights to undo", .needsServer)
struct UndoRightsTests {
    @Test(
        "the printed rights suffice, each missing one is named, and a dry run needs only SELECT"
    )
    func exactRights() throws {
        for action in RemovalPolicy.Action.allCases {
            let database = try TokenDatabase.own(.mariaDB, 0..<50)
            let owner = try database.store()
            try owner.sweep(
                "wrong", (0..<50).map { .dead($0, at: start + 60_000) },
                policy: RemovalPolicy(action: action))
            let plan = try owner.planUndo(.run("wrong"), until: EpochMilliseconds(.max))
            let need = TableUse.undo(actions: plan.actions, isDry: false)
            func account(_ grants: [String], _ body: (TokenTable) throws -> Void) throws {
                let account = try ServerAccount(of: database)
                try account.run(grants.map { $0.replacing("NAME", with: account.name) })
                try body(TokenTable(account.settings))
            }
            let before = try database.texts(
                "CHECKSUM TABLE active_users, pushsweep_run, pushsweep_batch, pushsweep_change")
            try account(["GRANT SELECT ON \(database.name).* TO 'NAME'@'%'"]) { store in
                try store.require(.undo(actions: plan.actions, isDry: true))
                let trial = try store.undo(.run("wrong"), isDry: true)
                // On MySQL this account does not see whether a trigger may refuse a mark.
                let isSure = action == .mark && MariaDBServer.isMariaDB
                #expect(trial.restored == (isSure ? 50 : 0))
                #expect(trial.untried == (isSure ? nil : 50))
                #expect(throws: StoreFailure.self) { try store.require(need) }
                #expect(throws: StoreFailure.self) { try store.undo(.run("wrong")) }
            }
            #expect(
                try database.texts(
                    "CHECKSUM TABLE active_users, pushsweep_run, pushsweep_batch, pushsweep_change")
                    == before)
            let grants = RequiredPrivileges(
                need, try owner.layout(), .mariaDB, database: database.name,
                readsTokenMarks: false,
                showsTriggers: try owner.session.describe().showsTriggers
            ).grants(to: "NAME@%")
            for missing in grants.indices {
                try account(grants.enumerated().filter { $0.offset != missing }.map(\.element)) {
                    store in
                    let failure = #expect(throws: StoreFailure.self, "without \(grants[missing])") {
                        try store.require(need)
                    }
                    #expect(failure?.code == .permission || failure?.code == .configuration)
                }
            }
            try account(grants) { store in
                try store.require(need)
                #expect(try store.undo(.run("wrong")).restored == 50)
            }
        }
    }
}

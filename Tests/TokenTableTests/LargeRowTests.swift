import APNsProtocol
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Deletion of large rows")
struct LargeRowTests {
    private static let mebibyte = 1_024 * 1_024

    private static func database(
        _ engine: TestEngine, rows: Int, large: (Int) -> Bool
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), registered_at "
                + "DATETIME, avatar \(engine == .mariaDB ? "MEDIUMBLOB" : "BLOB"))")
        for row in 0..<rows {
            let size = large(row) ? mebibyte : 10
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(row)), .text(DeviceToken.numbered(row).hex),
                    database.time(start), .bytes([UInt8](repeating: UInt8(row % 251), count: size)),
                ])
        }
        return database
    }

    @Test(
        "rows of a mebibyte are deleted with no more than a few in memory",
        arguments: TestEngine.available)
    func bounded(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 12) { _ in true }
        let connection = MeasuringConnection(database.driver())
        let pauses = Mutex(0)
        var settings = database.settings
        settings.mapping.table = "devices"
        let store = try TokenTable(
            settings, connection, hurried { pauses.withLock { $0 += 1 } })
        let progress = try store.apply(
            (0..<15).map { .dead($0, at: start + 60_000) }, policy: RemovalPolicy(action: .delete))
        #expect(progress.isApplied && progress.rowsChanged == 12)
        #expect(progress.counts == Counts(applied: 12, unknown: 3))
        #expect(try database.rows(of: "devices") == 0)
        #expect(
            try database.count(
                "SELECT COUNT(DISTINCT row_key) FROM pushsweep_change WHERE LENGTH(before_image) > "
                    + "\(2 * Self.mebibyte)") == 12)
        // The row that exceeds the bound is read, and no other.
        #expect(connection.mostRead > Self.mebibyte)
        #expect(connection.mostRead <= ChunkSizing.mostBytes + Self.mebibyte + 1_024)
        #expect(connection.mostSent < 2 * Self.mebibyte + 4_096)
        // A row that is too large is not a failure, so there was no pause.
        #expect(pauses.withLock { $0 } == 0)
    }

    @Test(
        "large rows that stay marked long enough are all removed in one run, and all come back",
        arguments: TestEngine.available)
    func thereAndBack(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 12) { _ in true }
        try database.execute("ALTER TABLE devices ADD COLUMN invalidated_at DATETIME NULL")
        try database.execute(
            "UPDATE devices SET invalidated_at = ?", [database.time(start + 60_000)])
        let sum = "SELECT id, SHA2(avatar, 256) FROM devices ORDER BY id"
        let before = engine == .mariaDB ? try database.texts(sum) : []
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        try store.record("run", at: start)
        let expiry = GraceEnd.afterAWeek(at: start + 30 * 86_400_000, run: "run")
        #expect(try store.remove(expiry) == 12)
        #expect(try database.rows(of: "devices") == 0)
        let undone = try store.undo(.run("run"))
        #expect(undone.isDone && undone.restored == 12 && undone.inserted == 12)
        #expect(
            try database.rows(of: "devices", "LENGTH(avatar) = \(Self.mebibyte)") == 12)
        if engine == .mariaDB { #expect(try database.texts(sum) == before) }
    }

    @Test(
        "a few large rows among many small ones are all deleted once",
        arguments: TestEngine.available)
    func mixed(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 300) { $0 % 60 == 0 }
        let store = try database.store { $0.table = "devices" }
        let progress = try store.apply(
            (0..<300).map { .dead($0, at: start + 60_000) }, policy: RemovalPolicy(action: .delete))
        #expect(progress.isApplied && progress.counts == Counts(applied: 300))
        #expect(try database.rows(of: "devices") == 0)
        #expect(
            try database.texts("SELECT COUNT(*), MIN(seq), MAX(seq) FROM pushsweep_change")
                == [["300", "0", "299"]])
    }
}

/// Measures the bytes read and sent in one statement.
private final class MeasuringConnection: SQLConnection {
    private let real: any SQLConnection
    private(set) var mostRead = 0
    private(set) var mostSent = 0

    init(_ real: any SQLConnection) { self.real = real }

    var dialect: SQLDialect { real.dialect }

    func connect() throws(SQLFailure) { try real.connect() }

    func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        try query(sql, parameters, mostBytes: .max)
    }

    func query(
        _ sql: String, _ parameters: [SQLValue], mostBytes: Int
    ) throws(SQLFailure) -> SQLRows {
        let rows = try real.query(sql, parameters, mostBytes: mostBytes)
        mostRead = max(mostRead, rows.bytes)
        return rows
    }

    func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        var sent = SQLRows(width: 1)
        for parameter in parameters { sent.append(parameter) }
        mostSent = max(mostSent, sent.bytes)
        return try real.execute(sql, parameters)
    }

    func run(_ sql: String) throws(SQLFailure) { try real.run(sql) }

    func describe() throws(SQLFailure) -> ServerDescription { try real.describe() }
}

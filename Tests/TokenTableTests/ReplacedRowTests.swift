import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Tables that resolve conflicts by themselves")
struct ReplacedRowTests {
    @Test(
        "a table that would remove the row in conflict loses none by a mark, and none by what comes back"
    )
    func conflicts() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT, device TEXT UNIQUE "
                + "ON CONFLICT REPLACE, registered_at TEXT, invalidated_at TEXT, invalid_reason TEXT, "
                + "UNIQUE (device_token, invalidated_at) ON CONFLICT REPLACE)")
        for number in 0..<4 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, NULL, NULL)",
                [
                    .integer(Int64(number)), .text(DeviceToken.numbered(number % 3).hex),
                    .text("d\(number)"), database.time(start),
                ])
        }
        database.settings.mapping.table = "devices"
        let store = try database.store(pacing: hurried())
        // Two rows have the token 0, and both would get the same mark.
        try store.sweep("marks", [.dead(0, at: start + 60_000)])
        #expect(try database.rows(of: "devices") == 4)
        try store.undo(.run("marks"))
        try store.sweep(
            "run", [.dead(1, at: start + 60_000)], policy: RemovalPolicy(action: .delete))
        try database.execute(
            "INSERT INTO devices VALUES (9, 'b1', 'd1', ?, NULL, NULL)", [database.time(start)])
        let living = try database.texts("SELECT * FROM devices ORDER BY id")
        #expect(try store.undo(.run("run")).inserted == 0)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == living)
    }
}

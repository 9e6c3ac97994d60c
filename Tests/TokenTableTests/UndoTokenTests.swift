import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// An entry of the ledger names its row by the key. Whose token stands there now decides whether an undo touches it.
@Suite("Undo and the token of a row")
struct UndoTokenTests {
    private static let dead = TokenEvidence.dead(1, at: start + 60_000)
    private static let replaced = DeviceToken.numbered(901)

    /// Puts another token into the row of token 1, as an application does when a device gets a new one.
    private static func replaceToken(in database: TokenDatabase) throws {
        try database.execute(
            "UPDATE active_users SET device_token = ? WHERE device_token = ?",
            [.bytes(replaced.bytes), .bytes(DeviceToken.numbered(1).bytes)])
    }

    @Test(
        "a mark that the token of another device carries now is left, and the row of the same token is not",
        arguments: TestEngine.available)
    func replacedInPlace(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<3)
        let store = try database.store()
        try store.sweep("first", [Self.dead, .dead(2, at: start + 60_000)])
        try Self.replaceToken(in: database)
        let left = try database.texts("SELECT * FROM active_users WHERE id = 2")
        let trial = try store.undo(.run("first"), isDry: true)
        let undone = try store.undo(.run("first"))
        #expect(undone.restored == 1 && undone.kept == ["foreign": 1])
        #expect(trial.kept == undone.kept && trial.restored == 1)
        #expect(try database.texts("SELECT * FROM active_users WHERE id = 2") == left)
        // It comes back, and its own entry can be undone.
        try database.execute(
            "UPDATE active_users SET device_token = ? WHERE id = 2",
            [.bytes(DeviceToken.numbered(1).bytes)])
        let again = try store.undo(.token(.numbered(1)), at: start + 950_000)
        #expect(again.restored == 1 && again.kept.isEmpty)
    }

    @Test(
        "a key that is used again for a marked row keeps that mark", arguments: TestEngine.available
    )
    func keyUsedAgain(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<3)
        let store = try database.store()
        try store.sweep("first", [Self.dead])
        try database.execute("DELETE FROM active_users WHERE id = 2")
        try database.execute(
            "INSERT INTO active_users (id, user_id, app_id, device_token, registered_at) "
                + "VALUES (2, 'other', 'chat', ?, ?)",
            [.bytes(Self.replaced.bytes), database.time(start)])
        try store.sweep(
            "second", [TokenEvidence(token: Self.replaced, time: Self.dead.time)],
            at: start + 700_000)
        let left = try database.texts("SELECT * FROM active_users ORDER BY id")
        #expect(try store.undo(.run("first")).kept == ["foreign": 1])
        #expect(try database.texts("SELECT * FROM active_users ORDER BY id") == left)
        #expect(try store.undo(.run("second"), at: start + 950_000).restored == 1)
    }

    @Test(
        "a person who opted out with a new token is not switched on",
        arguments: TestEngine.available)
    func optedOut(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.execute("ALTER TABLE active_users ADD active INTEGER DEFAULT 1")
        try database.register(1..<2, at: start)
        let store = try database.store {
            $0.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        try store.sweep("first", [Self.dead])
        #expect(try database.texts("SELECT active FROM active_users") == [["0"]])
        // The device gets another token; the person opts out: the row looks as the sweep had left it.
        try Self.replaceToken(in: database)
        let undone = try store.undo(.run("first"))
        #expect(undone.restored == 0 && undone.kept == ["foreign": 1])
        #expect(try database.texts("SELECT active FROM active_users") == [["0"]])
    }
}

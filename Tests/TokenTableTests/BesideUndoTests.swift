import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

private let day: Int64 = 86_400_000

private struct BesideStage {
    let database: TokenDatabase
    let store: TokenTable

    /// A table of devices that were marked dead a day after they registered, if they tell when they did.
    init(_ engine: TestEngine, _ count: Int, registered: Bool = true) throws {
        database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (udid VARCHAR(40) PRIMARY KEY, device_token VARCHAR(255) "
                + "NOT NULL" + (registered ? ", registered_at DATETIME NULL)" : ")"))
        store = try database.store(pacing: hurried())
        for number in 0..<count {
            try insert("udid\(number)", number, registered ? start : nil)
        }
        try store.sweep(
            "old", (0..<count).map { .dead($0, at: start + day) }, at: start + day,
            policy: policy(registered))
    }

    private func policy(_ registered: Bool) -> RemovalPolicy {
        RemovalPolicy(
            action: .delete, deletesWithoutRegistrationTime: !registered, deletesAfter: 7 * day)
    }

    func insert(_ udid: String, _ number: Int, _ time: Int64?) throws {
        try database.execute(
            "INSERT INTO active_users VALUES (?, ?\(time == nil ? "" : ", ?"))",
            [.text(udid), .text(DeviceToken.numbered(number).hex)]
                + (time.map { [database.time($0)] } ?? []))
    }

    /// Ends the periods of grace, and returns how many rows went.
    func end(registered: Bool = true) throws -> Int? {
        try store.record("sweep", at: start + 30 * day)
        return try store.remove(
            GraceEnd(
                run: "sweep", feed: UUID().uuidString.lowercased(), partition: chat,
                policy: policy(registered), now: EpochMilliseconds(start + 30 * day)))
    }

    func notes(_ condition: String = "1 = 1") throws -> Int {
        try database.rows(of: "pushsweep_spared", condition)
    }
}

/// Marks that stand beside the rows come and go with them, and the rows decide what an undo says of a device.
@Suite("Undo and marks beside the rows")
struct BesideUndoTests {
    @Test(
        "rows of several chunks that went with their marks come back for good, and the undo of that forgets it",
        arguments: TestEngine.available)
    func graceInChunks(_ engine: TestEngine) throws {
        let undo = try BesideStage(engine, 700)
        #expect(try undo.end() == 700)
        #expect(try undo.database.rows(of: "pushsweep_invalid") == 0)
        try undo.store.undo(.run("sweep"), as: "back", at: start + 31 * day)
        #expect(try undo.database.rows() == 700)
        #expect(try undo.database.rows(of: "pushsweep_invalid") == 700)
        #expect(try undo.notes("undone_at IS NOT NULL") == 700)
        try undo.store.undo(.run("back"), as: "gone", at: start + 32 * day)
        #expect(try undo.database.rows() == 0 && undo.notes() == 0)
    }

    @Test(
        "the mark of a device that came back in another row stays away, whether its old row comes back or not",
        arguments: TestEngine.available, [true, false])
    func returned(_ engine: TestEngine, _ isKeyUsed: Bool) throws {
        let undo = try BesideStage(engine, 3, registered: false)
        #expect(try undo.end(registered: false) == 3)
        try undo.insert(isKeyUsed ? "udid1" : "again", 1, nil)
        try undo.store.undo(.run("sweep"), as: "back", at: start + 31 * day)
        let living = try undo.store.tokenStatuses(in: chat).statuses(
            of: (0..<3).map { .numbered($0) })
        #expect(living[.numbered(1)] == .living)
        #expect(living[.numbered(0)] == .stale && living[.numbered(2)] == .stale)
    }

    @Test(
        "a mark that was moved behind a registration is undone as that of a living device",
        arguments: TestEngine.available)
    func movedMark(_ engine: TestEngine) throws {
        let undo = try BesideStage(engine, 2)
        let (again, wrong) = (start + 2 * day, start + 3 * day)
        try undo.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE udid = 'udid0'",
            [undo.database.time(again)])
        try undo.store.sweep("wrong", [.dead(0, at: wrong), .dead(1, at: wrong)], at: wrong)
        try undo.store.undo(.run("wrong"), as: "back", at: start + 4 * day)
        // The other device is dead by its earlier mark.
        #expect(
            try undo.database.texts("SELECT token FROM pushsweep_spared")
                == [[DeviceToken.numbered(0).hex]])
        #expect(
            try undo.database.texts(
                "SELECT taken_back FROM pushsweep_part WHERE run = 'wrong'") == [["1"]])
        let line = try undo.store.apply([.dead(0, at: wrong)], hearing: .unknown)
        #expect(line.counts == Counts(newer: 1))
    }

    @Test("a yes to older evidence leaves a no to later evidence", arguments: TestEngine.available)
    func olderYes(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<2)
        let store = try database.store()
        let (older, later) = (start + 60_000, start + 120_000)
        try store.sweep("later", [.dead(0, at: later)])
        try store.undo(.run("later"), as: "undo1")
        try store.record("asked")
        try store.apply(
            [.dead(0, at: older)], run: "asked",
            hearing: .asked(EpochMilliseconds(4_000_000_000_000)))
        #expect(try database.marked == 1)
        try store.undo(.run("asked"), as: "undo2", at: start + 950_000)
        #expect(try database.marked == 0)
        try store.apply([.dead(0, at: later)], hearing: .unknown)
        #expect(try database.marked == 0)
        // So does the undo of an undo of older evidence.
        try store.undo(.run("undo2"), as: "undo3", at: start + 960_000)
        try store.undo(.run("undo3"), as: "undo4", at: start + 970_000)
        try store.apply([.dead(0, at: later)], hearing: .unknown)
        #expect(try database.marked == 0)
    }
}

import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Followers of changes")
struct ChangeFollowerTests {
    private static func database(_ engine: TestEngine, rows: Int) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine, 0..<rows)
        return database
    }

    private static func dead(_ numbers: Range<Int>, at time: Int64 = 60_000) -> [TokenEvidence] {
        numbers.map { .dead($0, at: start + time) }
    }

    @Test(
        "marks, later marks, deletions and undos are listed with the state of the row",
        arguments: TestEngine.available)
    func states(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 2)
        let store = try database.store()
        try store.sweep("run1", Self.dead(0..<1))
        try store.sweep("run2", Self.dead(0..<1, at: 70_000), at: start + 610_000)
        try store.undo(.run("run2"), as: "undo2", at: start + 620_000)
        try store.undo(.run("run1"), as: "undo1", at: start + 630_000)
        let deleting = RemovalPolicy(action: .delete)
        try store.sweep("run3", Self.dead(1..<2), at: start + 640_000, policy: deleting)
        try store.undo(.run("run3"), as: "undo3", at: start + 650_000)
        try store.undo(.run("undo3"), as: "undo4", at: start + 660_000)
        let changes = try database.followed()
        #expect(
            changes.map {
                [$0.run, $0.action, $0.state ?? "-", $0.source ?? "-", $0.reason ?? "-"]
            } == [
                ["run1", "mark", "invalid", "feedback", "feedback"],
                ["run2", "advance", "invalid", "feedback", "feedback"],
                ["undo2", "restore", "invalid", "undo", "-"],
                ["undo1", "restore", "valid", "undo", "-"],
                ["run3", "delete", "deleted", "feedback", "feedback"],
                ["undo3", "insert", "valid", "undo", "-"],
                ["undo4", "delete", "deleted", "undo", "-"],
            ])
        #expect(
            changes.map(\.token) == [0, 0, 0, 0, 1, 1, 1].map { DeviceToken.numbered($0) })
        #expect(changes.map(\.evidence.rawValue).first == start + 60_000)
        #expect(changes.allSatisfy { $0.app == "chat" && $0.environment == "production" })
        #expect(changes.map { $0.key(wholeTokens: false) } == ["1", "1", "1", "1", "2", "2", "2"])
    }

    @Test(
        "marks beside the table are listed, and their token is shortened in the key",
        arguments: TestEngine.available)
    func tokenMarks(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (device_token VARCHAR(255) PRIMARY KEY, registered_at "
                + "DATETIME)")
        let token = DeviceToken.numbered(7)
        try database.execute(
            "INSERT INTO active_users VALUES (?, ?)", [.text(token.hex), database.time(start)])
        let store = try database.store()
        try store.sweep("mark", Self.dead(7..<8))
        try store.undo(.run("mark"), as: "undo")
        try store.sweep("gone", Self.dead(7..<8), policy: RemovalPolicy(action: .delete))
        let changes = try database.followed()
        #expect(changes.map(\.action) == ["side-mark", "side-restore", "delete"])
        #expect(changes.map(\.state) == ["invalid", "valid", "deleted"])
        #expect(changes.allSatisfy { $0.token == token })
        for change in changes {
            #expect(change.key(wholeTokens: false) == "[\"\(token.redacted)\"]")
            #expect(change.key(wholeTokens: true).contains(token.hex))
        }
    }

    @Test(
        "a mark beside the table that goes with its row tells of a removed device, not of a living one",
        arguments: TestEngine.available)
    func tokenMarkGone(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (device_token VARCHAR(255) PRIMARY KEY, registered_at DATETIME)"
        )
        try database.execute(
            "INSERT INTO active_users VALUES (?, ?)",
            [.text(DeviceToken.numbered(7).hex), database.time(start)])
        let store = try database.store()
        try store.sweep("mark", Self.dead(7..<8))
        let expiry = GraceEnd(
            run: "gone", feed: "g", partition: chat,
            policy: RemovalPolicy(action: .delete, deletesAfter: 1),
            now: EpochMilliseconds(start + 2 * 86_400_000))
        #expect(try store.remove(expiry) == 1)
        #expect(
            try database.texts(
                "SELECT action, state FROM pushsweep_change WHERE \(isOfRun("gone")) ORDER BY seq")
                == [["delete", "deleted"], ["side-restore", "deleted"]])
    }

    @Test(
        "a follower continues after every single entry, also within a number of many pages",
        arguments: TestEngine.available)
    func everyPlace(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 520)
        try database.store(pacing: Pacing(firstChunk: 520)).apply(Self.dead(0..<520))
        try database.store().apply(Self.dead(0..<3, at: 80_000))
        let all = try database.followed()
        #expect(all.count == 523)
        let session = try database.store().session
        for place in Set(stride(from: 0, to: 523, by: Series.isLong ? 1 : 9)).union(510..<523)
            .sorted()
        {
            let cursor = try #require(ChangeCursor("\(all[place].cursor)"))
            #expect(cursor == all[place].cursor)
            var follower = try ChangeFollower(session, from: .cursor(cursor))
            let next = try follower.next().first
            #expect(next?.cursor == (place + 1 < all.count ? all[place + 1].cursor : nil))
        }
    }

    @Test(
        "removals after a grace period and an undo over several apps are listed too",
        arguments: TestEngine.available)
    func otherWriters(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 1)
        try database.register(.numbered(1), at: start, app: "mail")
        try database.register(.numbered(2), at: start, mark: start + 3_600_000)
        let store = try database.store()
        let expiry = GraceEnd(
            run: "grace", feed: "g", partition: chat,
            policy: RemovalPolicy(action: .delete, deletesAfter: 1),
            now: EpochMilliseconds(start + 2 * 86_400_000))
        #expect(try store.remove(expiry) == 1)
        for (number, app) in ["chat", "mail"].enumerated() {
            try store.session.record(
                RunRecord(
                    id: app, kind: "sweep", started: EpochMilliseconds(start + 1), host: "h"))
            try store.apply(Self.dead(number..<number + 1), app: app, run: app)
        }
        try store.undo(.since(EpochMilliseconds(start)), as: "undo")
        let changes = try database.followed()
        #expect(
            changes.map { [$0.run, $0.app ?? "-", $0.action, $0.source ?? "-", $0.state ?? "-"] }
                == [
                    ["grace", "chat", "delete", "grace", "deleted"],
                    ["chat", "chat", "mark", "feedback", "invalid"],
                    ["mail", "mail", "mark", "feedback", "invalid"],
                    ["undo", "chat", "restore", "undo", "valid"],
                    ["undo", "mail", "restore", "undo", "valid"],
                ])
        #expect(changes.map(\.token) == [2, 0, 1, 0, 1].map { DeviceToken.numbered($0) })
        try database.expectNumbers()
    }

    @Test(
        "a run and a time begin at the first number at or after it",
        arguments: TestEngine.available)
    func beginnings(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 10)
        let store = try database.store()
        for number in 0..<4 { try store.sweep("run-\(number)", Self.dead(number..<number + 1)) }
        for number in 1...4 {
            try database.execute(
                "UPDATE pushsweep_commit SET committed_at = ? WHERE number = ?",
                [database.time(start + Int64(number) * 1_000), .integer(Int64(number))])
        }
        func runs(_ from: ChangeStart) throws -> [String] {
            try database.followed(from: from).map(\.run)
        }
        #expect(try runs(.run("run-2")) == ["run-2", "run-3"])
        #expect(try runs(.time(EpochMilliseconds(start + 2_000))) == ["run-1", "run-2", "run-3"])
        #expect(try runs(.time(EpochMilliseconds(start + 3_001))) == ["run-3"])
        #expect(try runs(.time(EpochMilliseconds(start + 9_000))) == [])
        func obstacle(_ from: ChangeStart) -> ChangeObstacle? {
            #expect(throws: ChangeObstacle.self) { try runs(from) }
        }
        #expect(obstacle(.run("run-")) == .severalRuns)
        #expect(obstacle(.run("none")) == .unknownRun)
        #expect(obstacle(.cursor(ChangeCursor(number: 5))) == .beyond(4))
        let foreign = try #require(ChangeCursor("n2.00000000"))
        #expect(obstacle(.cursor(foreign)) == .otherTransaction)
        let beyondItsNumber = try #require(
            ChangeCursor("n2.7." + "\(try database.followed()[1].cursor)".suffix(8)))
        #expect(obstacle(.cursor(beyondItsNumber)) == .otherTransaction)
    }

    @Test(
        "a follower that missed purged entries is refused with a place to continue, others go on",
        arguments: TestEngine.available)
    func purged(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 40)
        let store = try database.store()
        try store.sweep("old1", Self.dead(0..<5))
        try store.sweep("old2", Self.dead(5..<10))
        let old = try database.followed()
        for column in ["pushsweep_commit SET committed_at", "pushsweep_batch SET changed_at"] {
            try database.execute("UPDATE \(column) = ?", [database.time(start)])
        }
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        try store.sweep("new", Self.dead(10..<15), at: now)
        let purge = try store.purge(before: EpochMilliseconds(now - 86_400_000))
        #expect(purge.isDone && purge.changes == 10)
        #expect(
            try database.texts("SELECT number, last_seq FROM pushsweep_commit ORDER BY number")
                == [["0", "3"], ["2", "4"], ["3", "4"]])
        func runs(after cursor: ChangeCursor) throws -> [String] {
            try database.followed(from: .cursor(cursor)).map(\.run)
        }
        let new = Array(repeating: "new", count: 5)
        #expect(try runs(after: old[9].cursor) == new)
        for place in 0..<9 {
            let obstacle = #expect(throws: ChangeObstacle.self) {
                try runs(after: old[place].cursor)
            }
            guard case .purged(let after, let next)? = obstacle else {
                Issue.record("\(obstacle as Any)")
                continue
            }
            #expect(after == old[place].cursor)
            #expect(try runs(after: next) == new)
        }
        #expect(try runs(after: ChangeCursor(number: 0)) == new)
        try store.sweep("later", Self.dead(15..<16), at: now)
        #expect(try runs(after: old[9].cursor) == new + ["later"])
        // No entry is left, and still the last number says that there was something.
        let all = try database.followed()
        #expect(try store.purge(before: EpochMilliseconds(now + 86_400_000)).changes == 6)
        let obstacle = #expect(throws: ChangeObstacle.self) { try runs(after: all[4].cursor) }
        let last = all[5].cursor
        #expect(obstacle == .purged(after: all[4].cursor, next: last))
        #expect(try runs(after: last) == [] && runs(after: ChangeCursor(number: 4)) == [])
    }

    @Test(
        "entries before a missing one are listed before the loss is reported",
        arguments: TestEngine.available)
    func hole(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 10)
        try database.store().apply(Self.dead(0..<10))
        let all = try database.followed()
        try database.execute("DELETE FROM pushsweep_change WHERE seq IN (4, 5)")
        var follower = try ChangeFollower(
            try database.store().session, from: .cursor(all[0].cursor))
        #expect(try follower.next().map(\.cursor) == all[1...3].map(\.cursor))
        let obstacle = #expect(throws: ChangeObstacle.self) { try follower.next() }
        #expect(obstacle == .purged(after: all[3].cursor, next: all[5].cursor))
        #expect(
            try database.followed(from: .cursor(all[5].cursor)).map(\.cursor)
                == all[6...].map(\.cursor))
    }

    @Test("a cursor reads back as it was printed, and no other text is one")
    func cursors() {
        for text in ["n0", "n41", "n41.3fa9c2d1", "n42.17.00000001"] {
            #expect(ChangeCursor(text).map { "\($0)" } == text)
        }
        for text in [
            "", "n", "41", "n-1", "n+1", "n1.", "n1.3fa9c2d", "n1.3FA9C2D1", "n1.0.3fa9c2d1",
            "n0.3fa9c2d1", "n1.2.3fa9c2d1.", "n99999999999999999999", "n٣", "n1 ",
        ] {
            #expect(ChangeCursor(text) == nil, "\(text)")
        }
    }

    @Test(
        "without the table of numbers no use that changes rows begins, and the cure is named",
        arguments: TestEngine.available)
    func missingTable(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 1)
        try database.execute("DROP TABLE pushsweep_commit")
        let uses: [TableUse] = [
            .apply(RemovalPolicy()), .undo(actions: [], isDry: false), .purge(isDry: false),
        ]
        for use in uses {
            expectFailure(.configuration, "pushsweep_commit", "`pushsweep schema apply`") {
                try database.store().require(use)
            }
        }
        expectFailure(nil, "`pushsweep schema apply`") {
            try database.store().requireFollowing()
        }
        #expect(try database.store().require(.read).firstFailure == nil)
    }
}

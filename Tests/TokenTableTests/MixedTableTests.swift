import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

private let day: Int64 = 86_400_000

@Suite("Tables with rows of several platforms")
struct MixedTableTests {
    /// How the rows of Apple's devices are told apart.
    struct Platform: Sendable, CustomTestStringConvertible {
        let type: String
        let apple: SQLValue
        let other: SQLValue
        var testDescription: String { type }

        static let all = [
            Platform(type: "VARCHAR(16)", apple: .text("ios"), other: .text("android")),
            Platform(type: "INTEGER", apple: .integer(1), other: .integer(2)),
        ]

        /// The value as the settings write it.
        var word: String { apple.testText }
    }

    /// Rows 0..<40: even ones of Apple's devices, odd ones of others, 38 and 39 without a platform.
    private static func database(
        _ engine: TestEngine, _ platform: Platform, with marks: Bool = true
    ) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine)
        try database.execute("ALTER TABLE active_users ADD platform \(platform.type)")
        if !marks {
            try database.execute("ALTER TABLE active_users DROP COLUMN invalidated_at")
            try database.execute("ALTER TABLE active_users DROP COLUMN invalid_reason")
        }
        try database.register(0..<40, at: start)
        try database.execute("UPDATE active_users SET platform = ?", [platform.other])
        for number in stride(from: 0, to: 38, by: 2) {
            try database.update("platform = ?", [platform.apple], of: number)
        }
        try database.execute(
            "UPDATE active_users SET platform = NULL WHERE device_token IN (?, ?)",
            [38, 39].map { .bytes(DeviceToken.numbered($0).bytes) })
        return database
    }

    private static func store(
        _ database: TokenDatabase, _ platform: Platform
    ) throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.platform = PlatformMapping(column: "Platform", value: platform.word)
        }
    }

    @Test(
        "evidence changes rows of the platform only, and undo restores them",
        arguments: TestEngine.available, Platform.all)
    func sweep(_ engine: TestEngine, _ platform: Platform) throws {
        let database = try Self.database(engine, platform)
        let store = try Self.store(database, platform)
        let before = try database.contents()
        let evidence = (0..<40).map { TokenEvidence.dead($0, at: start + 60_000) }
        let forecast = try store.classify(evidence)
        #expect(forecast.counts.applied == 19)
        #expect(forecast.counts.unknown == 21)
        #expect(forecast.candidateRows == 19)
        #expect(try store.livingRows(in: chat).count(atMost: 1_000) == 19)
        try store.sweep("sweep", evidence)
        #expect(try database.marked == 19)
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL "
                    + "AND platform = ?", [platform.apple]) == 19)
        #expect(try store.livingRows(in: chat).count(atMost: 1_000) == 0)
        #expect(try store.undo(.run("sweep")).restored == 19)
        #expect(try database.contents() == before)
    }

    @Test(
        "tokens of other platforms are unknown to send, and no tokens of a user",
        arguments: TestEngine.available, Platform.all)
    func sending(_ engine: TestEngine, _ platform: Platform) throws {
        let database = try Self.database(engine, platform)
        let store = try Self.store(database, platform)
        let tokens = (0..<40).map { DeviceToken.numbered($0) }
        let reasons = try store.skipReasons(of: tokens, in: chat)
        #expect(reasons.count == 21)
        #expect(Set(reasons.values) == [.unknown])
        #expect(reasons[.numbered(0)] == nil)
        let reached = try store.tokens(ofUser: "user", limit: 100)
        #expect(Set(reached) == Set(stride(from: 0, to: 38, by: 2).map { .numbered($0) }))
    }

    @Test(
        "rows of other platforms stay when the grace period ends",
        arguments: TestEngine.available, [true, false])
    func expiry(_ engine: TestEngine, _ marksInRows: Bool) throws {
        let platform = Platform.all[0]
        let database = try Self.database(engine, platform, with: marksInRows)
        let all = try database.store(pacing: hurried())
        // Marks of a time before the setting.
        try all.apply((0..<40).map { .dead($0, at: start + 60_000) })
        try database.forgetLedger()
        let store = try Self.store(database, platform)
        let removal = GraceEnd.afterAWeek(at: start + 30 * day, run: "run")
        #expect(try store.due(removal) == 19)
        #expect(try store.remove(removal) == 19)
        #expect(try database.rows() == 21)
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM active_users WHERE platform = ?", [platform.apple]) == 0)
    }

    @Test("an upper-case value is another one, as for apps", arguments: TestEngine.available)
    func exactValue(_ engine: TestEngine) throws {
        let platform = Platform.all[0]
        let database = try Self.database(engine, platform)
        try database.execute("UPDATE active_users SET platform = 'IOS' WHERE platform = 'ios'")
        let store = try Self.store(database, platform)
        #expect(try store.classify([.dead(0, at: start + 60_000)]).counts.unknown == 1)
    }

    @Test(
        "check names column and value, and reads the sample of the platform's rows",
        arguments: TestEngine.available)
    func check(_ engine: TestEngine) throws {
        let platform = Platform.all[0]
        let database = try Self.database(engine, platform)
        let report = try Self.store(database, platform).examine(
            .apply(RemovalPolicy()), partitions: [chat])
        #expect(report.firstFailure == nil)
        #expect(report.sample?.total == 19)
        let sentences = report.findings.map(\.sentence)
        #expect(sentences.contains { $0.contains("platform platform, only rows with `ios`") })
        #expect(!sentences.contains { $0.contains("no row has") })
        let other = try database.store {
            $0.platform = PlatformMapping(column: "platform", value: "tvos")
        }.examine(.apply(RemovalPolicy()), partitions: [chat])
        // Each signal would be lost, so a run is refused too.
        let failure = try #require(other.firstFailure)
        #expect(failure.code == .configuration)
        #expect(failure.sentence.contains("no row has `tvos` in column platform"))
        #expect(failure.sentence.contains("platform.value"))
    }

    @Test(
        "the sample of a table whose key contains the token reads", arguments: TestEngine.available)
    func keyWithToken(_ engine: TestEngine) throws {
        let database = try Self.database(engine, Platform.all[0])
        let report = try database.store {
            $0.platform = PlatformMapping(column: "platform", value: "ios")
            $0.key = ["device_token", "app_id", "environment"]
        }.examine(.apply(RemovalPolicy()), partitions: [chat])
        #expect(report.firstFailure == nil && report.sample?.total == 19)
    }

    @Test(
        "check warns about an app that only other platforms have", arguments: TestEngine.available)
    func appOfOthers(_ engine: TestEngine) throws {
        let platform = Platform.all[0]
        let database = try Self.database(engine, platform)
        try database.register(.numbered(99), at: start, app: "talk")
        let talk = Partition(app: "talk", environment: "production")
        let report = try Self.store(database, platform).examine(.read, partitions: [chat, talk])
        #expect(report.findings.contains { $0.sentence.contains("no row has `talk`") })
        #expect(!report.findings.contains { $0.sentence.contains("no row has `chat`") })
    }

    @Test(
        "a missing column, and a word for a column of numbers, are refused with 78",
        arguments: TestEngine.available)
    func refusals(_ engine: TestEngine) throws {
        let database = try Self.database(engine, Platform.all[1])
        for (mapping, part) in [
            (PlatformMapping(column: "os", value: "ios"), "there is no column os"),
            (PlatformMapping(column: "platform", value: "ios"), "holds whole numbers, and `ios`"),
            (PlatformMapping(column: "device_token", value: "ios"), "device_token"),
        ] {
            let store = try database.store { $0.platform = mapping }
            let failure = try #require(try store.examine(.read, partitions: [chat]).firstFailure)
            #expect(failure.code == .configuration)
            #expect(failure.sentence.contains(part), "\(failure.sentence)")
            #expect(failure.sentence.contains("store.active-users.platform"))
        }
    }
}

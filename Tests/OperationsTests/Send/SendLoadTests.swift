import APNsProtocol
import APNsSimulator
import EvidenceJournal
import Foundation
import Logging
import PushQueue
import SecureTransport
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@testable import Operations

@Suite("A sender's use of memory")
struct SendLoadTests {
    /// Sends `rows` notifications of `size` bytes each and returns the most held at once.
    private static func peak(
        rows: Int, size: Int, type: String, streams: UInt32 = 1_000,
        _ prepare: (TokenDatabase) throws -> Void = { _ in }
    ) throws -> (rows: Int, bytes: Int, waiting: Int) {
        let stage = try RogueStage(.sqlite)
        try stage.database.register(100..<rows, at: 1_690_000_000_000)
        let payload = #"{"aps":{"alert":""# + String(repeating: "x", count: size - 20) + #""}}"#
        #expect(payload.utf8.count == size)
        try stage.database.sql.begin()
        for number in 0..<rows {
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, environment, device_token, payload, push_type, queued_at) "
                    + "VALUES ('chat', 'production', ?, ?, ?, ?)",
                [
                    .bytes(DeviceToken.numbered(number < 100 ? number % 60 : number).bytes),
                    .text(payload), .text(type), stage.database.time(1_600_000_000_000),
                ])
        }
        try stage.database.sql.commit()
        try prepare(stage.database)
        var settings = HTTP2ServerSettings()
        settings.maximumStreams = streams
        let gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate), settings: settings,
            keepsRecords: false)
        let context = RunContext(
            interrupt: try Interrupt(), log: Logger(label: "load") { _ in SwiftLogNoOpLogHandler() }
        )
        let plan = try stage.plan(for: gateway, 2, isSlow: false, context)
        let app = plan.apps[0]
        let queue = try PushQueue(
            TokenTable(plan.sweep.store), QueueLease(run: "load", host: "test", seconds: 120),
            newName: UUIDText.random)
        let job = try SendJob(
            app, plan, queue: queue, gateway: try app.gateway.get(),
            answers: KeptAnswers(in: nil), lease: SenderLease(seconds: 120), number: 0, context)
        while case .paused = try job.drain() {}
        try job.finish()
        #expect(job.entry.sent == rows, "\(job.entry)")
        #expect(job.load.rows == 0 && job.load.bytes == 0 && job.load.waiting == 0)
        return job.load.peak
    }

    private static func check(_ peak: (rows: Int, bytes: Int, waiting: Int), size: Int) {
        #expect(peak.rows <= SendLoad.Window.provider.rows)
        #expect(peak.bytes < SendLoad.mostBytes + size)
        // One claim more than the limit, and its last row.
        #expect(peak.waiting < SendLoad.mostBytes * 2 + size)
    }

    @Test(
        "a gateway that takes a few at a time is given few more than it has streams",
        arguments: [(4_096, "alert"), (5_120, "voip")])
    func slowGateway(_ size: Int, _ type: String) throws {
        let peak = try Self.peak(rows: 2_000, size: size, type: type, streams: 5)
        Self.check(peak, size: size)
        // Two connections with five streams each, and twice as many that are free.
        #expect(peak.rows <= 30 && peak.bytes <= 30 * size)
    }

    @Test("what the connections have is bounded in rows and in bytes")
    func window() {
        for (size, rows) in [(30, SendLoad.Window.provider.rows), (4_096, 1_024)] {
            var load = SendLoad()
            var given = 0
            while case let count = load.fitting(repeatElement(size, count: 700), rows: .max),
                count > 0
            {
                load.claimed(count * size)
                load.given(count, count * size)
                given += count
            }
            #expect(given == rows)
        }
    }

    @Test("rows and bytes are bounded with a database that is slow to write")
    func slowDatabase() throws {
        let peak = try Self.peak(rows: 2_000, size: 4_096, type: "alert") { database in
            try database.sql.run(
                "CREATE TRIGGER slow BEFORE UPDATE ON pushsweep_claim BEGIN SELECT (WITH RECURSIVE "
                    + "c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000) "
                    + "SELECT MAX(x) FROM c); END")
        }
        Self.check(peak, size: 4_096)
    }

    @Test("one payload fits however large it is, and the next one waits for it")
    func huge() {
        var load = SendLoad()
        load.claimed(100_000_000)
        #expect(!load.mayClaim)
        #expect(load.fitting([100_000_000, 1], rows: 10) == 1)
        load.given(1, 100_000_000)
        #expect(load.mayClaim)
        #expect(load.fitting([1], rows: 10) == 0)
        load.release(100_000_000)
        #expect(load.fitting([1, 1], rows: 1) == 1)
    }
}

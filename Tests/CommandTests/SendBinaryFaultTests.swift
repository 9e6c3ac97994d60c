// Senders over the binary interface, with bad tokens scattered, late error packets, connections cut,
// and kills at random moments. The gateway's book is the reference: a row that is called sent was
// accepted once, a row that failed or waits never was, and only a row of unknown outcome may be either.

import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Faults of the binary interface", .serialized)
struct SendBinaryFaultTests {
    /// Rows of the large queue.
    private static let rows =
        Series.length("PUSHSWEEP_TEST_BINARY_ROWS", short: 800, long: 3_000)
    /// Kills and cuts; the printed seed and this number repeat a run.
    private static let kills =
        Series.length("PUSHSWEEP_TEST_BINARY_KILLS", short: 4, long: 10)
    private static let registered: Int64 = 1_690_000_000_000

    /// Rules under which one token of a hundred is bad, and most packets come late.
    private static func rules(
        _ count: Int, _ random: inout SeededGenerator
    ) -> (BinaryRules, bad: Int) {
        var rules = BinaryRules()
        var bad = 0
        for number in 0..<count where Int.random(in: 0..<100, using: &random) == 0 {
            let status: BinaryStatus =
                Bool.random(using: &random) ? .invalidToken : .invalidTokenSize
            let delay: BinaryDelay =
                switch Int.random(in: 0...2, using: &random) {
                case 0: .none
                case 1: .frames(Int.random(in: 1...500, using: &random))
                default: .bytes(Int.random(in: 1...50_000, using: &random))
                }
            rules.script.tokens[.numbered(number)] = .reject(status, delay: delay)
            bad += 1
        }
        rules.packetPiece = 2
        rules.quiet = .milliseconds(20)
        return (rules, bad)
    }

    private static func stage(
        _ engine: TestEngine, _ count: Int, _ rules: BinaryRules
    ) throws -> (SendStage, BinaryGateway) {
        let stage = try SendStage(engine)
        let gateway = try BinaryGateway(certificates: SweepStage.certificates.get(), rules: rules)
        try stage.use(gateway, "error-wait: 1s")
        try stage.database.register(0..<count, at: registered)
        try stage.queue(0..<count)
        return (stage, gateway)
    }

    @Test(
        "each row of a large queue with scattered bad tokens ends in one state, and none is sent twice",
        arguments: TestEngine.available)
    func volume(_ engine: TestEngine) throws {
        var random = SeededGenerator("binary volume on \(engine)")
        let (rules, bad) = Self.rules(Self.rows, &random)
        let (stage, gateway) = try Self.stage(engine, Self.rows, rules)
        let clock = ContinuousClock.now
        try stage.send().ends(0)
        #expect(
            try stage.states() == ["sent": Self.rows - bad, "failed": bad],
            "seed \(random.seed)")
        #expect(try stage.rowsAgainst(gateway.log) == [], "seed \(random.seed)")
        print(
            "binary volume on \(engine): \(Self.rows) rows, \(bad) bad, "
                + "\(gateway.log.connections.count) connections, \(gateway.log.totals.frames) frames, "
                + "\(ContinuousClock.now - clock)")
    }

    @Test("kills and cuts at random moments lose no row and send none twice")
    func killsAndCuts() throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("binary kills on \(engine)")
            var unknown = 0
            for round in 0..<max(1, Self.kills / TestEngine.available.count) {
                let count = 400
                var (rules, _) = Self.rules(count, &random)
                if round % 2 == 1 {
                    let place = Int.random(in: 1...count, using: &random)
                    if Bool.random(using: &random) {
                        rules.resetAt = place
                    } else {
                        rules.closeAt = place
                    }
                    rules.connections = Int.random(in: 1...2, using: &random)
                    rules.resetsBehindPacket = Bool.random(using: &random)
                }
                let (stage, gateway) = try Self.stage(engine, count, rules)
                let sender = try stage.start(["send"])
                if round % 2 == 0 {
                    usleep(UInt32.random(in: 0...4_000_000, using: &random))
                    sender.signal(SIGKILL)
                }
                _ = sender.wait()
                try stage.database.execute(
                    "UPDATE pushsweep_claim SET expires_at = ?",
                    [stage.database.time(Self.registered)])
                let last = try stage.send()
                let states = try stage.states()
                let wrong = try stage.rowsAgainst(gateway.log)
                let isDone = states.values.reduce(0, +) == count && states["pending"] == nil
                #expect(
                    wrong == [] && isDone,
                    "\(engine), seed \(random.seed), round \(round): \(states) \(last.exit) \(last.error)"
                )
                if wrong != [] || !isDone { return }
                unknown += states["unknown"] ?? 0
            }
            print("binary kills and cuts on \(engine): \(unknown) unknown")
        }
    }
}

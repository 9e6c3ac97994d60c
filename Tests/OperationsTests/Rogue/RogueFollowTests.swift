import APNsSimulator
import Database
import Foundation
import SecureTransport
import TestSupport
import Testing

@testable import Operations

@Suite("Following a queue whose gateway fails for a while")
struct RogueFollowTests {
    /// Follows a queue of 60 rows past a gateway with a scenario until no row waits, then stops. None of these
    /// gateways leaves a request without an answer, so the deadlines are long: with short ones a busy machine
    /// would cost rows.
    private static func follow(_ scenario: ProviderScenario) throws -> RogueRun {
        let stage = try RogueStage(.sqlite)
        try stage.queue(60)
        let interrupt = try Interrupt()
        let settings = stage.database.settings
        guard case .sqlite(let path) = settings.location else { throw TestFailure("no file") }
        let watch = try WorkerThread {
            let looker = SQLiteConnection(path: path, creates: false, settings)
            try? looker.connect()
            let deadline = Deadline.in(.seconds(40))
            while !deadline.hasPassed {
                usleep(20_000)
                let rows = try? looker.query(
                    "SELECT COUNT(*) FROM push_queue WHERE state = 'pending'")
                if rows?.scalar?.count == 0 { break }
            }
            interrupt.trip()
        }
        defer { watch.join() }
        return try stage.send(
            scenario, connections: 1, isSlow: false,
            { plan in
                plan.follows = true
                plan.rest = .milliseconds(40)
            }, interrupt: interrupt)
    }

    @Test("each new try costs at most three rows, and all others are sent once the gateway answers")
    func renewedTries() throws {
        let bad = ProviderScenario.Connection(rest: .reset(.internalError))
        let run = try Self.follow(
            ProviderScenario([ProviderScenario.Connection](repeating: bad, count: 7) + [.init()]))
        let unknown = run.rows.count { $0.state == "unknown" }
        // Three connections of the first try, then one for each of four more.
        #expect(unknown == 9 + 4 * 3, "\(run.told)")
        #expect(run.rows.count { $0.state == "sent" } == 60 - unknown)
        #expect(run.told.components(separatedBy: "trying again").count - 1 == 5, "\(run.told)")
        #expect(run.told.contains("21 of 60"), "\(run.told)")
        #expect(run.exit != .done, "a third of all is too much for success")
    }

    @Test("a gateway that breaks HTTP/2 for a while is tried again too")
    func brokenForAWhile() throws {
        let bad = ProviderScenario.Connection(
            rest: .rawBytes([0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1]))
        let run = try Self.follow(ProviderScenario([bad, bad, bad, bad, .init()]))
        #expect(run.rows.count { $0.state == "sent" } >= 60 - 12, "\(run.told)")
        #expect(run.rows.allSatisfy { $0.state == "sent" || $0.state == "unknown" })
        #expect(run.told.contains("trying again"), "\(run.told)")
    }

    @Test(
        "a gateway that shows another certificate or protocol after a good connection is tried again",
        arguments: [ProviderScenario.Opening.foreignAuthority, .otherHost, .noProtocol])
    func otherGatewayForAWhile(_ opening: ProviderScenario.Opening) throws {
        let good = ProviderScenario.Connection(
            actions: [ProviderScenario.Action](repeating: .serve, count: 10) + [.goAway])
        let wrong = [ProviderScenario.Connection](repeating: .init(opening), count: 7)
        let run = try Self.follow(ProviderScenario([good] + wrong + [.init()]))
        #expect(run.rows.allSatisfy { $0.state == "sent" }, "\(run.told)")
        // Three connections a try: the second try knows of the good connection too.
        #expect(run.told.components(separatedBy: "trying again").count - 1 == 2, "\(run.told)")
        #expect(run.exit != .configuration, "\(run.told)")
    }

    @Test(
        "a gateway that shows another certificate or protocol at first ends the run with 78",
        arguments: [ProviderScenario.Opening.foreignAuthority, .otherHost, .noProtocol])
    func otherGatewayAtFirst(_ opening: ProviderScenario.Opening) throws {
        let stage = try RogueStage(.sqlite)
        try stage.queue(10)
        let run = try stage.send(
            ProviderScenario([.init(opening), .init()]), connections: 1, isSlow: true,
            stopsAfter: 200,
            { plan in
                plan.follows = true
                plan.rest = .milliseconds(40)
            })
        #expect(run.exit == .configuration, "\(run.told)")
        #expect(run.rows.allSatisfy { $0.state == "pending" }, "\(run.told)")
    }

    @Test("unprocessed rows are claimed again, and none is reported as lost")
    func goesAway() throws {
        let scenes = (0..<12).map { _ in ProviderScenario.Connection(actions: [.serve, .goAway]) }
        let run = try Self.follow(ProviderScenario(scenes + [.init()]))
        #expect(run.rows.allSatisfy { $0.state == "sent" }, "\(run.told)")
        #expect(!run.told.contains("unknown outcome"), "\(run.told)")
    }
}

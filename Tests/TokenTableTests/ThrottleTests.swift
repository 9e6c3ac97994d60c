import APNsProtocol
import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
import Encodings
@testable import TokenTable

/// A clock that moves with each pause, and by some milliseconds with every reading.
private final class Clock: Sendable {
    private let state = Mutex((now: 0.0, pauses: [Int]()))
    private let step: Double

    init(step: Double = 0) { self.step = step }

    /// Pacing on this clock, in chunks of 90 tokens.
    func pacing(_ throttle: Throttle) -> Pacing {
        var pacing = Pacing(
            firstChunk: 90,
            monotonic: {
                self.state.withLock { state in
                    state.now += self.step
                    return state.now
                }
            },
            sleep: { pause in
                self.state.withLock { state in
                    state.now += Double(pause)
                    state.pauses.append(pause)
                }
            }, random: { 0.5 })
        pacing.throttle = throttle
        return pacing
    }

    var pauses: [Int] { state.withLock { $0.pauses } }
}

/// Readings in order, the last one for ever, and the messages of the throttle.
private final class Script: Sendable {
    private let state: Mutex<(readings: [ThrottleReading], looks: Int, story: [String])>

    init(_ readings: [ThrottleReading]) { state = Mutex((readings, 0, [])) }

    func install(in throttle: inout Throttle) {
        throttle.scripted = {
            self.state.withLock { state in
                state.looks += 1
                return state.readings.count > 1 ? state.readings.removeFirst() : state.readings[0]
            }
        }
        throttle.report = { line in self.state.withLock { $0.story.append(line) } }
    }

    var looks: Int { state.withLock { $0.looks } }
    var story: [String] { state.withLock { $0.story } }
}

private func load(_ figure: Double) -> ThrottleReading {
    ThrottleReading(status: ["threads_running": figure])
}

@Suite("The throttle")
struct ThrottleTests {
    private static let evidence = (0..<500).map { TokenEvidence.dead($0, at: start + 60_000) }

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.own(engine, 0..<500)
        return database
    }

    private static func isDone(_ progress: BatchProgress, _ database: TokenDatabase) throws {
        #expect(progress.isApplied && progress.counts.applied == 500)
        #expect(try database.changedOnce(500))
    }

    @Test("the throttle obeys the most urgent limit")
    func decisions() throws {
        var throttle = Throttle()
        throttle.maxLag = 10
        throttle.maxLoad = try LoadLimits("25")
        throttle.criticalLoad = try LoadLimits("Threads_running=100,Threads_connected=400")
        func decide(_ running: Double, lags: [Double?] = [0]) -> String {
            let reading = ThrottleReading(
                status: ["threads_running": running, "threads_connected": 5],
                lags: lags.enumerated().map { .init(name: "r\($0.offset)", seconds: $0.element) })
            switch throttle.decision(for: reading) {
            case .proceed: return "go on"
            case .pause(let reason, let sentence): return "pause \(reason.rawValue): \(sentence)"
            case .stop(let reason, let sentence): return "stop \(reason.rawValue): \(sentence)"
            }
        }
        #expect(decide(25) == "go on")
        #expect(decide(26) == "pause max-load: Threads_running is 26, the limit 25")
        #expect(
            decide(101)
                == "stop critical-load: Threads_running is 101, the limit 100 (critical-load)")
        #expect(decide(1, lags: [3, 10.5]) == "pause max-lag: r1 lags 10.5 s, the limit is 10 s")
        #expect(decide(1, lags: [3, nil]) == "pause max-lag: r1 does not replicate")
        #expect(decide(101, lags: [nil]).hasPrefix("stop critical-load"))
    }

    @Test("the throttle reads limits as gh-ost and pt-online-schema-change do, and refuses others")
    func limits() throws {
        #expect(try LoadLimits("25").description == "Threads_running=25")
        #expect(
            try LoadLimits("Threads_connected=400,wsrep_flow_control_paused=0.1").description
                == "Threads_connected=400,wsrep_flow_control_paused=0.1")
        for text in [
            "", "x", "Threads_running", "a=", "=5", "a=1=2", "a=-1", "a b=1", "a=1,", "1e3", "5,6",
        ] {
            #expect(throws: Refusal.self, "\(text)") { try LoadLimits(text) }
        }
    }

    @Test(
        "a run pauses while the load is high, then continues and loses nothing",
        arguments: TestEngine.available)
    func pauses(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        let clock = Clock(step: 400)
        let script = Script([load(1), load(50), load(50), load(50), load(2)])
        var throttle = Throttle()
        throttle.maxLoad = try LoadLimits("25")
        script.install(in: &throttle)
        var marks: [Int] = []
        let progress = try database.store(pacing: clock.pacing(throttle)).apply(
            Self.evidence, report: { marks.append($0.counts.applied) })
        try Self.isDone(progress, database)
        #expect(clock.pauses.filter { $0 == Throttle.pause }.count == 3)
        #expect(script.story.count == 2)
        #expect(script.story.first == "pauses: Threads_running is 50, the limit 25")
        #expect(script.story.last?.hasPrefix("continues after a pause of") == true)
    }

    @Test("the throttle reads figures once a second at most, and none without a limit")
    func cheapness() throws {
        let database = try Self.database(.sqlite)
        let script = Script([load(1)])
        var throttle = Throttle()
        throttle.maxLoad = try LoadLimits("25")
        script.install(in: &throttle)
        try database.store(pacing: Clock().pacing(throttle)).apply(Self.evidence)
        #expect(script.looks == 1)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(
            database.settings, connection, Clock(step: 5_000).pacing(Throttle()))
        try store.apply(Self.evidence)
        #expect(!connection.log.contains { $0.0.contains("STATUS") })
    }

    @Test("a stop signal ends a pause", arguments: TestEngine.available)
    func stopSignal(_ engine: TestEngine) throws {
        let database = try Self.database(engine)
        var throttle = Throttle()
        throttle.maxLag = 1
        Script([ThrottleReading(lags: [.init(name: "r", seconds: nil)])]).install(in: &throttle)
        let clock = Clock()
        let progress = try database.store(pacing: clock.pacing(throttle)).apply(
            Self.evidence, shouldStop: { clock.pauses.count > 3 })
        #expect(!progress.isApplied && progress.counts.total == 0)
        #expect(clock.pauses.count == 4)
    }

    /// A cause that ends a run early, and its setup: a reading that stays after a first good one.
    private static let endings: [(StopReason, ThrottleReading)] = [
        (.criticalLoad, load(500)), (.maxLoad, load(50)),
        (
            .maxLag,
            ThrottleReading(status: ["threads_running": 1], lags: [.init(name: "r", seconds: nil)])
        ),
        (.timeBudget, load(1)), (.stopFile, load(1)),
    ]

    @Test(
        "a limit ends a run between two chunks with a reason, and the next run completes it",
        arguments: TestEngine.available, endings)
    func ends(_ engine: TestEngine, _ ending: (reason: StopReason, reading: ThrottleReading)) throws
    {
        let database = try Self.database(engine)
        let folder = try TemporaryFolder()
        let clock = Clock(step: 300)
        var throttle = Throttle()
        throttle.maxLoad = try LoadLimits("25")
        throttle.criticalLoad = try LoadLimits("100")
        throttle.maxLag = 10
        throttle.began = 0
        throttle.stopFile = folder.file("stop")
        if ending.reason == .timeBudget { throttle.timeBudget = 3_000 }
        Script([load(1), ending.reading]).install(in: &throttle)
        let failure = #expect(throws: StoreFailure.self) {
            try database.store(pacing: clock.pacing(throttle)).apply(
                Self.evidence, feed: "f", run: "one",
                report: { _ in
                    if ending.reason == .stopFile { _ = try? folder.write("stop", "") }
                })
        }
        #expect(failure?.code == .stopped && failure?.reason == ending.reason, "\(failure as Any)")
        let known = try #require(try database.store().progress(of: "f"))
        #expect((90..<500).contains(known.counts.applied) && !known.isApplied, "\(known)")
        #expect(try database.marked == known.counts.applied)
        try Self.isDone(
            try database.store().apply(Self.evidence, feed: "f", run: "two"), database)
    }

    /// The other changes that are made in chunks.
    enum LongChange: CaseIterable {
        case undo, removal, purge

        private static let end = start + 40 * 86_400_000

        /// Makes the change; true if it was completed.
        func make(
            with store: TokenTable, shouldStop: @escaping () -> Bool = { false }
        ) throws -> Bool {
            let end = EpochMilliseconds(Self.end)
            switch self {
            case .undo: return try store.undo(.run("old"), shouldStop: shouldStop).isDone
            case .purge: return try store.purge(before: end, shouldStop: shouldStop).isDone
            case .removal:
                let run = UUID().uuidString
                try store.session.record(RunRecord(id: run, kind: "sweep", started: end, host: "h"))
                let expiry = GraceEnd.afterAWeek(at: Self.end, run: run)
                return try store.remove(expiry, shouldStop: shouldStop) != nil
            }
        }

        /// How many of 500 are not changed yet.
        func left(in database: TokenDatabase) throws -> Int {
            switch self {
            case .undo:
                try database.marked
            case .purge: try database.rows(of: "pushsweep_change")
            case .removal: try database.rows()
            }
        }
    }

    @Test(
        "limits pause and end undo, removal and purge too, and the next run completes them",
        arguments: TestEngine.available, LongChange.allCases)
    func otherChanges(_ engine: TestEngine, _ change: LongChange) throws {
        let database = try Self.database(engine)
        try database.store().sweep("old", Self.evidence)
        var throttle = Throttle()
        throttle.maxLag = 1
        Script([ThrottleReading(lags: [.init(name: "r", seconds: nil)])]).install(in: &throttle)
        let waiting = Clock()
        #expect(
            try !change.make(
                with: database.store(pacing: waiting.pacing(throttle)),
                shouldStop: { waiting.pauses.count > 3 }))
        #expect(waiting.pauses.count == 4)
        #expect(try change.left(in: database) == 500)

        throttle.criticalLoad = try LoadLimits("100")
        let well = ThrottleReading(status: ["threads_running": 1])
        // Rows that are due are looked for and stored as reports first.
        let before = Array(repeating: well, count: change == .removal ? 8 : 0)
        Script(before + [well, load(500)]).install(in: &throttle)
        let failure = #expect(throws: StoreFailure.self) {
            try change.make(
                with: database.store(pacing: Clock(step: 300).pacing(throttle)))
        }
        #expect(failure?.code == .stopped && failure?.reason == .criticalLoad)
        let left = try change.left(in: database)
        #expect((1..<500).contains(left), "\(left)")
        #expect(try change.make(with: database.store()))
        #expect(try change.left(in: database) == 0)
        if change == .undo {
            #expect(
                try database.texts(
                    "SELECT COUNT(*), COUNT(DISTINCT row_key) FROM pushsweep_change "
                        + "WHERE source = 'undo'") == [["500", "500"]])
        }
    }

    @Test("the throttle refuses limits that it cannot watch before anything is done")
    func refusals() throws {
        var throttle = Throttle()
        throttle.maxLoad = try LoadLimits("No_such_figure=1")
        for engine in TestEngine.available {
            let database = try Self.database(engine)
            expectFailure(.configuration) {
                try database.store(pacing: Clock().pacing(throttle)).session.waitForThrottle()
            }
        }
    }

    @Test("the throttle reads the load of a real server", .needsServer)
    func realLoad() throws {
        let database = try Self.database(.mariaDB)
        var throttle = Throttle()
        throttle.maxLoad = try LoadLimits("threads_running=100000,Threads_connected=100000")
        #expect(try database.store(pacing: Clock().pacing(throttle)).session.waitForThrottle())
        // The thread that answers runs.
        throttle.criticalLoad = try LoadLimits("0")
        let failure = #expect(throws: StoreFailure.self) {
            try database.store(pacing: Clock().pacing(throttle)).session.waitForThrottle()
        }
        #expect(failure?.reason == .criticalLoad)
    }

    @Test(
        "the throttle reads the lag of a real server, and pauses while replication is stopped",
        .needsServer)
    func realLag() throws {
        // A server of its own: a replica is refused by the runs of all other tests.
        let own = try PrivateServer([])
        defer { withExtendedLifetime(own) {} }
        let server = own.server
        var settings = server.settings(database: "mysql")
        settings.acceptsReplica = true
        func wait(_ pacing: Pacing, _ shouldStop: () -> Bool = { false }) throws -> Bool {
            try DatabaseSession(settings, pacing: pacing).waitForThrottle(shouldStop: shouldStop)
        }
        var throttle = Throttle()
        throttle.maxLag = 5
        // An empty list of servers is a mistake in the settings, and the error names the remedy.
        for replicas in [[], [settings]] {
            throttle.replicas = replicas
            expectFailure(.configuration, "it is no replica") {
                try wait(Clock().pacing(throttle))
            }
        }
        // A replica that does not answer counts as not replicating.
        var absent = settings
        absent.location = .server(
            .init(address: .tcp(host: "127.0.0.1", port: 1), database: "mysql"))
        throttle.replicas = [absent]
        let clock = Clock()
        #expect(try !wait(clock.pacing(throttle)) { !clock.pauses.isEmpty })
        let admin = try server.connection()
        try admin.run("CHANGE MASTER 'other' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1")
        for replicas in [[], [settings]] {
            throttle.replicas = replicas
            let script = Mutex<[String]>([])
            throttle.report = { line in script.withLock { $0.append(line) } }
            let clock = Clock()
            #expect(try !wait(clock.pacing(throttle)) { !clock.pauses.isEmpty })
            #expect(script.withLock { $0.first?.contains("does not replicate") } == true)
        }
    }
}

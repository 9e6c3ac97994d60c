import APNsProtocol
import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Patience with failures that pass")
struct PatienceTests {
    private static let gone = SQLFailure(kind: .lost, code: 2_013, message: "gone")

    /// A table of 300 stale rows behind a connection whose faults follow the virtual time.
    private static func stage(
        _ time: VirtualTime, _ pacing: Pacing? = nil
    ) throws -> (TokenDatabase, TokenTable, FaultyConnection) {
        let database = try TokenDatabase.own(.sqlite, 0..<300)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, pacing ?? time.pacing)
        return (database, store, connection)
    }

    private static let evidence = (0..<300).map { TokenEvidence.dead($0, at: start + 60_000) }

    @Test(
        "a statement that keeps failing is tried again for 60 seconds, and the message says so",
        arguments: [SQLFailure.Kind.conflict, .lost, .overloaded, .unreachable])
    func deadline(_ kind: SQLFailure.Kind) throws {
        let time = VirtualTime()
        let (_, store, connection) = try Self.stage(time)
        connection.outage = { SQLFailure(kind: kind, code: 9_999, message: "not now") }
        let failure = #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
        #expect(time.now == 60_000)
        #expect(
            failure?.sentence.contains("not now (9999), tried again for 60 s; ") == true,
            "\(failure as Any)")
    }

    @Test(
        "the settings say how long a failed statement is tried again, and what is given to a session wins"
    )
    func ofSettings() throws {
        for (given, waited) in [(nil, 90_000.0), (5_000, 5_000)] as [(Double?, Double)] {
            let time = VirtualTime()
            let database = try TokenDatabase.own(.sqlite, 0..<3)
            database.settings.patience = 90_000
            var pacing = time.pacing
            if let given { pacing.patience = given }
            let connection = FaultyConnection(database.driver(), [])
            let store = try TokenTable(database.settings, connection, pacing)
            connection.outage = { Self.gone }
            #expect(throws: StoreFailure.self) { try store.apply([.dead(1, at: start)]) }
            #expect(time.now == waited)
        }
    }

    @Test("a database that returns within the patience costs nothing but time")
    func returns() throws {
        for kind in [SQLFailure.Kind.lost, .unreachable, .overloaded, .conflict] {
            let time = VirtualTime()
            let (database, store, connection) = try Self.stage(time)
            let begin = connection.operations
            connection.outage = {
                guard connection.operations > begin + 12, time.now < 59_000 else { return nil }
                return SQLFailure(kind: kind, code: 9_999, message: "not now")
            }
            #expect(try store.apply(Self.evidence).counts == Counts(applied: 300))
            #expect(time.now >= 59_000)
            #expect(try database.changedOnce(300))
        }
    }

    @Test("every committed chunk starts the clock anew")
    func progress() throws {
        let time = VirtualTime()
        let (database, store, connection) = try Self.stage(time)
        defer { withExtendedLifetime(database) {} }
        var (until, chunks) = (20_000.0, 0)
        connection.outage = { time.now < until ? Self.gone : nil }
        let progress = try store.apply(
            Self.evidence,
            report: { _ in
                chunks += 1
                until = time.now + 20_000
            })
        #expect(progress.isApplied && chunks == 3)
        #expect(time.now >= 60_000)
    }

    @Test(
        "a first connection that is refused is given up after three seconds, a later one after 30")
    func connecting() throws {
        let time = VirtualTime()
        let database = try TokenDatabase.own(.sqlite)
        let connection = FaultyConnection(database.driver(), [])
        let refused = SQLFailure(kind: .unreachable, code: 2_002, message: "refused")
        connection.outage = { refused }
        let failure = #expect(throws: StoreFailure.self) {
            try TokenTable(database.settings, connection, time.pacing)
        }
        #expect(failure?.code == .unreachable && time.now == 3_000)
        #expect(failure?.sentence.contains("refused (2002), tried again for 3 s; check") == true)

        connection.outage = { nil }
        let store = try TokenTable(database.settings, connection, time.pacing)
        let begin = time.now
        connection.outage = { refused }
        #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
        #expect(time.now - begin == 60_000)
    }

    @Test(
        "a run begins on no replica and waits a second for a read-only server; after a loss it waits whole",
        arguments: [SQLFailure.Kind.misplaced, .readOnly])
    func begins(_ kind: SQLFailure.Kind) throws {
        let time = VirtualTime()
        let (database, _, connection) = try Self.stage(time)
        connection.outage = { SQLFailure(kind: kind, code: 0, message: "no") }
        func connect(_ settings: StoreSettings) -> StoreFailure? {
            #expect(throws: StoreFailure.self) { try TokenTable(settings, connection, time.pacing) }
        }
        var fresh = database.settings
        fresh.hosts = HostChoice()
        var begin = time.now
        let expected: StoreFailure.Code = kind == .readOnly ? .readOnly : .configuration
        #expect(connect(fresh)?.code == expected)
        #expect(time.now - begin == (kind == .readOnly ? 1_000 : 0))
        func refuseAfterLoss() {
            begin = time.now
            connection.outage = {
                SQLFailure(kind: time.now == begin ? .unreachable : kind, code: 0, message: "no")
            }
        }
        // Of a host that never answered nobody takes over.
        refuseAfterLoss()
        #expect(connect(fresh)?.code == expected)
        #expect(time.now - begin < 2_000)
        // Another connection of a run that was at work, as those of its workers are.
        connection.outage = { nil }
        _ = try TokenTable(fresh, connection, time.pacing)
        refuseAfterLoss()
        #expect(connect(fresh)?.code == (kind == .readOnly ? .readOnly : .busy))
        #expect(time.now - begin == 60_000)
    }

    @Test(
        "what another try cannot cure is thrown at once, and a node without changes asked for 1 s")
    func hopeless() throws {
        for (kind, patience) in [
            (SQLFailure.Kind.permission, 0.0), (.configuration, 0), (.refused, 0), (.untrusted, 0),
            (.other, 0), (.leaseLost, 0), (.tooLarge, 0), (.readOnly, 1_000),
        ] {
            let time = VirtualTime()
            let (_, store, connection) = try Self.stage(time)
            connection.outage = { SQLFailure(kind: kind, code: 9_999, message: "no") }
            let failure = #expect(throws: StoreFailure.self) {
                _ = try store.session.databaseTime()
            }
            #expect(time.now == patience, "\(kind)")
            #expect(failure?.sentence.contains("tried") == (patience > 0), "\(failure as Any)")
        }
    }

    @Test("after a stop signal no failure is tried again")
    func stops() throws {
        let time = VirtualTime()
        let isStopping = Mutex(false)
        var pacing = time.pacing
        pacing.isStopping = { isStopping.withLock { $0 } }
        pacing.sleep = { pause in
            time.pass(Double(pause))
            if time.now > 5_000 { isStopping.withLock { $0 = true } }
        }
        let (_, store, connection) = try Self.stage(time, pacing)
        connection.outage = { Self.gone }
        #expect(throws: StoreFailure.self) { try store.apply(Self.evidence) }
        #expect((5_000...7_000).contains(time.now))
    }

    @Test("a lease that cannot be given back is left to its end after one second")
    func givesBack() throws {
        let time = VirtualTime()
        let (_, store, connection) = try Self.stage(time)
        let applicant = LeaseApplicant(kind: "sweep", run: "r", home: "h", host: "a")
        guard case .taken(let lease) = try store.takeLease(applicant) else {
            Issue.record("the lease was not taken")
            return
        }
        let begin = time.now
        connection.outage = { Self.gone }
        #expect(throws: StoreFailure.self) { try store.session.giveBack(lease) }
        #expect(time.now - begin == 1_000)
    }

    @Test("a database that was given up is asked with short patience until it answers")
    func givenUp() throws {
        let time = VirtualTime()
        let (database, store, connection) = try Self.stage(time)
        defer { withExtendedLifetime(database) {} }
        var waits: [Double] = []
        func fail() {
            let begin = time.now
            connection.outage = { Self.gone }
            #expect(throws: StoreFailure.self) { try store.session.databaseTime() }
            connection.outage = { nil }
            waits.append(time.now - begin)
        }
        fail()
        fail()
        _ = try store.session.databaseTime()
        fail()
        store.session.giveUp()
        fail()
        #expect(waits == [60_000, 1_000, 60_000, 1_000])
    }

    @Test("a clock that stands still does not make the tries endless")
    func frozen() throws {
        let pauses = Mutex(0)
        let pacing = Pacing(
            monotonic: { 7 }, sleep: { pause in pauses.withLock { $0 += pause } }, random: { 0 })
        let (_, store, connection) = try Self.stage(VirtualTime(), pacing)
        connection.outage = { Self.gone }
        #expect(throws: StoreFailure.self) { try store.session.databaseTime() }
        #expect(pauses.withLock { $0 } == 60_000)
    }
}

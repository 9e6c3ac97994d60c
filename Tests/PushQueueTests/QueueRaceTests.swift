import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// What the nodes of a cluster have committed: by the name of each guard, the number of the commit.
final class Certification: Sendable {
    private let commits = Mutex((last: 0, guards: [String: Int]()))

    var last: Int { commits.withLock { $0.last } }

    /// Certifies a transaction that began after a commit; false where a later one changed the same guard.
    func certify(_ names: Set<String>, since start: Int) -> Bool {
        commits.withLock { commits in
            guard names.allSatisfy({ commits.guards[$0] ?? 0 <= start }) else { return false }
            commits.last += 1
            for name in names { commits.guards[name] = commits.last }
            return true
        }
    }
}

/// The order in which a fast node and slow ones claim, which does not depend on the machine: between what a
/// slow node reads and what it writes, the fast one commits a claim, and between two claims of the fast one
/// each slow node tries one. So a slow node loses every race for the same rows to the fast one. The slow ones
/// then write one after the other, and each is the first of them in every other round: none of them is
/// faster than the other.
///
/// `@unchecked` holds because the state is read and changed under the condition's lock only.
final class ClaimRounds: @unchecked Sendable {
    private let condition = NSCondition()
    private let slow: Range<Int>
    private var fastClaims = 0
    private var isFastDone = false
    /// By slow node: the number of fast claims when it began its last try.
    private var tries: [Int: Int] = [:]
    /// The slow nodes whose last try has neither been committed nor lost.
    private var trying: Set<Int> = []

    init(slow: Range<Int>) {
        self.slow = slow
        for node in slow { tries[node] = -1 }
    }

    /// Whether a node did not come in time, which ends the order for all.
    private(set) var isBroken = false

    /// The fast claims so far, which a try reads.
    var round: Int { condition.withLock { fastClaims } }

    private func wait(until isTrue: () -> Bool) {
        let end = Date(timeIntervalSinceNow: 60)
        while !isTrue(), !isBroken {
            if !condition.wait(until: end) { isBroken = true }
        }
    }

    /// Lets each slow node try once for the fast one's last claim.
    func beginFast() {
        condition.withLock { wait { tries.values.allSatisfy { $0 >= fastClaims } } }
    }

    /// Notes a claim of the fast node.
    func claimedFast() {
        condition.withLock {
            fastClaims += 1
            condition.broadcast()
        }
    }

    /// Lets the other slow nodes end their tries of the round, so that a new one sees what they claimed.
    func beginSlow(_ node: Int) {
        condition.withLock {
            wait { isFastDone || trying.allSatisfy { $0 == node || tries[$0] == fastClaims } }
        }
    }

    /// Makes a slow node that has read in a round wait while the fast one claims, and for its turn.
    func trySlow(_ node: Int, readIn round: Int) {
        condition.withLock {
            tries[node] = round
            trying.insert(node)
            condition.broadcast()
            wait { fastClaims > round || isFastDone }
            let first = slow.lowerBound + round % slow.count
            wait {
                isFastDone || node == first || !trying.contains(first) || tries[first] != round
            }
        }
    }

    /// Notes that the try of a slow node is committed or lost.
    func triedSlow(_ node: Int) {
        condition.withLock {
            trying.remove(node)
            condition.broadcast()
        }
    }

    /// Notes that a node claims no more.
    func end(_ node: Int) {
        condition.withLock {
            if tries.removeValue(forKey: node) == nil { isFastDone = true }
            trying.remove(node)
            condition.broadcast()
        }
    }
}

/// A connection to one node of a cluster that detects conflicts when they commit, as Galera does: a claim
/// fails with 1213 where another node has committed one of its guards since it began.
final class CertifiedConnection: PassingConnection {
    private let cluster: Certification
    /// The order of claims with this node's number in it, of which 0 is fast; nil for any order.
    private let rounds: (order: ClaimRounds, node: Int)?
    private var start = 0
    private var round = 0
    private var names: Set<String> = []
    /// Whether every commit of a claim fails.
    var losesAlways = false
    /// Conflicts so far.
    private(set) var conflicts = 0

    init(
        _ real: any SQLConnection, _ cluster: Certification,
        _ rounds: (order: ClaimRounds, node: Int)? = nil
    ) {
        (self.cluster, self.rounds) = (cluster, rounds)
        super.init(real)
    }

    override func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        if sql.hasPrefix("UPDATE pushsweep_queue"), let name = parameters[1].text {
            if names.isEmpty, let rounds, rounds.node > 0 {
                rounds.order.trySlow(rounds.node, readIn: round)
            }
            names.insert(name)
        }
        return try real.execute(sql, parameters)
    }

    override func run(_ sql: String) throws(SQLFailure) {
        if sql == dialect.begin {
            if let rounds {
                if rounds.node == 0 {
                    rounds.order.beginFast()
                } else {
                    rounds.order.beginSlow(rounds.node)
                }
                round = rounds.order.round
            }
            (start, names) = (cluster.last, [])
        }
        defer {
            if ["COMMIT", "ROLLBACK"].contains(sql), let rounds, rounds.node > 0 {
                rounds.order.triedSlow(rounds.node)
            }
        }
        if sql == "COMMIT", !names.isEmpty, losesAlways || !cluster.certify(names, since: start) {
            conflicts += 1
            real.rollBack()
            throw SQLFailure(
                kind: .conflict, code: 1_213, message: "Deadlock found when trying to get lock")
        }
        try real.run(sql)
        if sql == "COMMIT", !names.isEmpty, let rounds, rounds.node == 0 {
            rounds.order.claimedFast()
        }
    }
}

@Suite("Claims that race", .serialized)
struct QueueRaceTests {
    private struct Sender {
        var keys: [Int64] = []
        var failure: String?
    }

    /// Sends all that is due, and claims the next batch while the last one is on the wire, as a sender does: so it
    /// always has an open claim, by which the others know it. Gives the rows that it had.
    private static func drain(_ queue: PushQueue) throws -> [Int64] {
        var (cursor, keys) = (QueueCursor(), [Int64]())
        var last: Batch?
        repeat {
            let next = try queue.claim(chat, limit: 500, from: &cursor)
            if var claim = last {
                let isOurs = try queue.handOver(claim)
                guard isOurs, try queue.record(claim.results(.sent), of: &claim) == 0 else {
                    throw TestFailure("lease lost")
                }
            }
            keys += next?.keys ?? []
            last = next
        } while last != nil
        return keys
    }

    /// Drains a queue with three senders, each on a node of its own, of which two lose every race to the first.
    private static func drain(_ stage: QueueStage) -> [Sender] {
        let settings = stage.database.settings
        let drivers = (0..<3).map { _ in stage.database.driver() }
        let cluster = Certification()
        let rounds = ClaimRounds(slow: 1..<3)
        let senders = Mutex((0..<3).map { _ in Sender() })
        let group = DispatchGroup()
        // None begins before all are connected.
        let start = DispatchGroup()
        for number in 0..<3 {
            group.enter()
            start.enter()
            nonisolated(unsafe) let driver = drivers[number]
            Thread {
                defer { group.leave() }
                defer { rounds.end(number) }
                do {
                    let ordered = CertifiedConnection(driver, cluster, (rounds, number))
                    let opened = Result {
                        try PushQueue(
                            TokenTable(settings, ordered, Pacing()),
                            QueueLease(run: "run-\(number)", host: "host"))
                    }
                    start.leave()
                    start.wait()
                    let keys = try drain(opened.get())
                    senders.withLock { $0[number].keys = keys }
                } catch {
                    senders.withLock { $0[number].failure = "\(error)" }
                }
            }.start()
        }
        group.wait()
        #expect(!rounds.isBroken)
        return senders.withLock { $0 }
    }

    @Test(
        "three senders on three nodes share the queue, though two lose every race to the third",
        .needsServer)
    func threeNodes() throws {
        let rows = Series.isLong ? 24_000 : 9_000
        let stage = try QueueStage(
            QueueCase(engine: .mariaDB, tables: .own), 0..<100, rows: (0..<rows).map { $0 % 100 })
        let senders = Self.drain(stage)
        #expect(senders.compactMap(\.failure).isEmpty)
        let keys = senders.flatMap(\.keys)
        #expect(keys.count == rows && Set(keys).count == rows)
        let counts = senders.map(\.keys.count)
        // Without shares the slow ones get none before the fast one has ended.
        #expect(counts.allSatisfy { $0 >= rows / 20 }, "\(counts)")
        #expect(try stage.counts() == [.sent: rows])
    }

    /// Pacing by a clock that only pauses move, each as if it took a second.
    private static func pacing(_ atPause: @escaping @Sendable (Double) -> Void = { _ in }) -> Pacing
    {
        let clock = Rival()
        return Pacing(
            monotonic: { clock.state.withLock { $0.time } },
            sleep: { _ in
                atPause(
                    clock.state.withLock {
                        $0.time += 1_000
                        return $0.time
                    })
            }, random: { 0.5 })
    }

    /// A time, and what went wrong by then.
    private final class Rival: Sendable {
        let state = Mutex((time: 0.0, failure: String?.none))
    }

    @Test(
        "a claim that loses while nobody else claims gives up after a minute",
        arguments: QueueCase.own)
    func givesUp(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let connection = CertifiedConnection(stage.database.driver(), Certification())
        let queue = try stage.queue(over: connection, Self.pacing())
        connection.losesAlways = true
        let failure = #expect(throws: StoreFailure.self) { try queue.claim(5) }
        #expect(failure?.code == .busy)
        #expect((55...65).contains(connection.conflicts))
        connection.losesAlways = false
        #expect(try queue.claim(5)?.keys == [1, 2, 3, 4, 5])
    }

    @Test(
        "a claim that loses while others claim goes on, until it is told to stop",
        arguments: QueueCase.own)
    func goesOn(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<10)
        let rival = Rival()
        let settings = stage.database.settings
        let connection = CertifiedConnection(stage.database.driver(), Certification())
        let pacing = Self.pacing { time in
            rival.state.withLock { $0.time = time }
            do {
                let other = try PushQueue(
                    TokenTable(settings), QueueLease(run: "rival", host: "host"))
                guard var claim = try other.claim(1) else { throw TestFailure("nothing due") }
                _ = try other.record(claim.results(.returned), of: &claim)
            } catch {
                rival.state.withLock { $0.failure = "\(error)" }
            }
        }
        let queue = try stage.queue(over: connection, pacing)
        connection.losesAlways = true
        var cursor = QueueCursor()
        let claim = try queue.claim(chat, limit: 5, from: &cursor) {
            rival.state.withLock { $0.time } > 45_000
        }
        #expect(claim == nil && connection.conflicts > 40)
        #expect(rival.state.withLock { $0.failure } == nil)
        connection.losesAlways = false
        #expect(try queue.claim(5)?.open == 5)
    }
}

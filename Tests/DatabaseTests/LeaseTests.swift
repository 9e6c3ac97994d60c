import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

extension TokenDatabase {
    /// Makes the lease end now, as if its time had passed.
    fileprivate func endLease() throws {
        try execute(
            "UPDATE pushsweep_lease SET expires_at = ? WHERE name = 'active_users'",
            [time(start)])
    }

    /// Gives the lease to another run, whatever the time.
    fileprivate func stealLease() throws {
        try execute(
            "UPDATE pushsweep_lease SET fence = fence + 1, owner = 'sweep@thief run=t home=h since=s' "
                + "WHERE name = 'active_users'")
    }

    /// Rows, ledger and checkpoint, whatever they hold.
    fileprivate func everything() throws -> [[[String]]] {
        try [
            "SELECT * FROM active_users ORDER BY id",
            "SELECT * FROM pushsweep_change ORDER BY part, seq",
            "SELECT * FROM pushsweep_batch ORDER BY name",
        ].map { try texts($0) }
    }
}

extension LeaseApplicant {
    /// A sweep of a host, which has one state folder.
    fileprivate init(_ host: String, run: String = UUID().uuidString) {
        self.init(kind: "sweep", run: run, home: "home-of-\(host)", host: host)
    }
}

extension LeaseAnswer {
    fileprivate var lease: Lease? { if case .taken(let lease) = self { lease } else { nil } }
    fileprivate var holder: LeaseHolder? {
        if case .held(let holder) = self { holder } else { nil }
    }
}

@Suite("The lease across hosts")
struct LeaseTests {
    @Test(
        "one run holds the lease, and others learn the holder and the end",
        arguments: TestEngine.available)
    func oneHolder(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let (one, two) = (try database.store(), try database.store())
        #expect(try two.leaseHolder() == nil)
        let lease = try #require(try one.takeLease(LeaseApplicant("a", run: "run-a")).lease)
        let holder = try #require(try two.takeLease(LeaseApplicant("b")).holder)
        #expect(
            "\(holder)".wholeMatch(
                of: /sweep on a \(run run-a\) since \S+Z until \S+Z unless renewed/) != nil,
            "\(holder)")
        #expect(holder.home == "home-of-a" && !holder.isExpired)
        #expect(try two.leaseHolder()?.run == "run-a")
        try one.session.renew(lease)
        try one.session.giveBack(lease)
        #expect(try two.leaseHolder() == nil)
        let next = try #require(try two.takeLease(LeaseApplicant("b")).lease)
        #expect(next.fence == lease.fence + 1)
    }

    @Test(
        "another host takes an ended lease, and the first holder learns it",
        arguments: TestEngine.available)
    func expiry(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let (one, two) = (try database.store(), try database.store())
        let lease = try #require(try one.takeLease(LeaseApplicant("a")).lease)
        try database.endLease()
        // No other run has taken it, so it can still be renewed.
        try one.session.renew(lease)
        #expect(try two.takeLease(LeaseApplicant("b")).holder != nil)
        try database.endLease()
        let next = try #require(try two.takeLease(LeaseApplicant("b", run: "run-b")).lease)
        #expect(next.fence == lease.fence + 1)
        let failure = #expect(throws: StoreFailure.self) { try one.session.renew(lease) }
        #expect(failure?.code == .stopped && failure?.reason == .lease)
        #expect(failure?.sentence.contains("sweep on b (run run-b)") == true)
        // Giving back a lost lease does not affect its new holder.
        try one.session.giveBack(lease)
        try two.session.renew(next)
    }

    /// A change of the lease at the moment in which another host takes it.
    private enum Meddling: String, CaseIterable {
        case renewed
        case givenBack
        case taken
    }

    // SQLite has one writer at a time, so there is no such moment.
    @Test(
        "a host does not take a lease that another renews or takes at the same moment",
        .needsServer,
        arguments: Meddling.allCases)
    private func sameMoment(_ meddling: Meddling) throws {
        let database = try TokenDatabase.own(.mariaDB)
        let (one, three) = (try database.store(), try database.store())
        let lease = try #require(try one.takeLease(LeaseApplicant("a", run: "run-a")).lease)
        try database.endLease()
        let connection = FaultyConnection(database.driver())
        connection.before = { sql in
            guard sql.hasPrefix("UPDATE pushsweep_lease") else { return }
            connection.before = { _ in }
            #expect(throws: Never.self) {
                switch meddling {
                case .renewed: try one.session.renew(lease)
                case .givenBack: try one.session.giveBack(lease)
                case .taken: _ = try three.takeLease(LeaseApplicant("c", run: "run-c"))
                }
            }
        }
        let two = try TokenTable(database.settings, connection, hurried())
        let answer = try two.takeLease(LeaseApplicant("b", run: "run-b"))
        switch meddling {
        case .renewed:
            #expect(answer.holder?.run == "run-a")
            try one.session.renew(lease)
        case .givenBack: #expect(answer.lease?.fence == 2)
        case .taken: #expect(answer.holder?.run == "run-c")
        }
    }

    @Test(
        "the next run of a folder takes the lease at once: the folder's lock proves the other dead",
        arguments: TestEngine.available)
    func sameHome(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let (one, two) = (try database.store(), try database.store())
        let lease = try #require(try one.takeLease(LeaseApplicant("a")).lease)
        let next = try #require(try two.takeLease(LeaseApplicant("a")).lease)
        #expect(next.fence == lease.fence + 1)
        #expect(throws: StoreFailure.self) { try one.session.renew(lease) }
    }

    @Test(
        "the lease has one holder who knows it, whichever answer is lost while it is taken",
        arguments: TestEngine.available)
    func lostAnswers(_ engine: TestEngine) throws {
        let plain = try TokenDatabase.own(engine)
        let counting = FaultyConnection(plain.driver(), [])
        let counted = try TokenTable(plain.settings, counting, hurried())
        _ = try counted.layout()
        let before = counting.operations
        _ = try counted.takeLease(LeaseApplicant("a"))
        for operation in (before + 1)...counting.operations {
            for isExecuted in [false, true] {
                let database = try TokenDatabase.own(engine)
                let connection = FaultyConnection(
                    database.driver(),
                    [.init(operation: operation, isExecuted: isExecuted, kind: .lost)])
                let store = try TokenTable(database.settings, connection, hurried())
                _ = try store.layout()
                let lease = try store.takeLease(LeaseApplicant("a", run: "run-a")).lease
                #expect(lease != nil, "operation \(operation), executed: \(isExecuted)")
                if let lease { try store.session.renew(lease) }
                #expect(lease?.fence == 1, "operation \(operation), executed: \(isExecuted)")
            }
        }
    }

    /// The answers to twenty applicants.
    private struct Tally {
        var fences: [Int64] = []
        var held = 0
        var failures: [String] = []
    }

    @Test(
        "one of twenty hosts that ask at the same time gets the lease",
        arguments: TestEngine.available)
    func race(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        var settings = database.settings
        settings.timeouts.lockWait = 20
        for round in 0..<10 {
            let tally = Mutex(Tally())
            let group = DispatchGroup()
            for number in 0..<20 {
                group.enter()
                let thread = Thread { [settings] in
                    defer { group.leave() }
                    do {
                        let store = try TokenTable(settings)
                        let answer = try store.takeLease(LeaseApplicant("\(round)-\(number)"))
                        tally.withLock { tally in
                            switch answer {
                            case .taken(let lease): tally.fences.append(lease.fence)
                            case .held: tally.held += 1
                            }
                        }
                    } catch {
                        tally.withLock { $0.failures.append("\(error)") }
                    }
                }
                thread.start()
            }
            group.wait()
            let told = tally.withLock { $0 }
            #expect(told.failures.isEmpty, "\(told.failures)")
            #expect(told.fences == [Int64(round + 1)] && told.held == 19, "round \(round)")
            try database.endLease()
        }
    }

    @Test(
        "a lost lease stops the next commit: no row, ledger entry or checkpoint changes after it",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func fencesChunks(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try TokenDatabase.own(engine, 0..<240)
        let evidence = (0..<240).map { TokenEvidence.dead($0, at: start + 60_000) }
        let store = try database.store(pacing: hurried())
        let lease = try #require(try store.takeLease(LeaseApplicant("a")).lease)
        let policy = RemovalPolicy(action: action)
        var then: [[[String]]] = []
        let failure = #expect(throws: StoreFailure.self) {
            try store.apply(
                evidence, policy: policy, feed: "f", run: "one", lease: lease,
                report: { _ in
                    try? database.stealLease()
                    then = (try? database.everything()) ?? []
                })
        }
        #expect(failure?.reason == .lease, "\(failure as Any)")
        #expect(then.first?.isEmpty == false && then[1].count == 90)
        #expect(try database.everything() == then)
        // The next run, with its own lease, continues with exact counts.
        try database.endLease()
        let next = try #require(try store.takeLease(LeaseApplicant("b")).lease)
        let progress = try store.apply(
            evidence, policy: policy, feed: "f", run: "two", lease: next)
        #expect(progress.isApplied && progress.counts.applied == 240)
        #expect(try database.changedOnce(240))
    }

    @Test(
        "a lease lost before a feed begins leaves no checkpoint",
        arguments: TestEngine.available)
    func fencesCheckpoints(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<10)
        let store = try database.store(pacing: hurried())
        let lease = try #require(try store.takeLease(LeaseApplicant("a")).lease)
        try database.stealLease()
        let before = try database.everything()
        let failure = #expect(throws: StoreFailure.self) {
            try store.apply([.dead(1, at: start + 60_000)], lease: lease)
        }
        #expect(failure?.reason == .lease)
        #expect(try database.everything() == before)
    }

    @Test(
        "the run renews the lease while it works, until it loses it",
        arguments: TestEngine.available)
    func keeper(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        let store = try database.store()
        let lease = try #require(try store.takeLease(LeaseApplicant("a")).lease)
        var rounds = 0
        LeaseKeeper.keep(lease, database.settings, hurried()) {
            if rounds > 0 { #expect((try? store.leaseHolder())??.isExpired == false) }
            rounds += 1
            if rounds < 4 { try? database.endLease() }
            if rounds == 4 { try? database.stealLease() }
            #expect(rounds < 6)
            return rounds < 6
        }
        #expect(rounds == 4)
    }

    @Test("the lease needs the printed rights, and none for a dry run", .needsServer)
    func rights() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let grants = try database.store().grants(for: RemovalPolicy(), user: "u@%")
        #expect(
            grants.contains {
                $0.contains("SELECT, INSERT, UPDATE ON") && $0.contains("pushsweep_lease")
            })
        let account = try ServerAccount(of: database)
        try account.grant(on: "active_users")
        #expect(try TokenTable(account.settings).leaseHolder() == nil)
        expectFailure(.permission) {
            try TokenTable(account.settings).takeLease(LeaseApplicant("a"))
        }
    }
}

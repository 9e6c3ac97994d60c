import APNsProtocol
import Database
import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene
import TokenTable

/// Runs a body on a thread of its own; `wait` blocks until its end and throws its error.
private final class Worker: Sendable {
    private let done = DispatchSemaphore(value: 0)
    private let failure = Mutex<(any Error)?>(nil)

    init(_ body: @escaping @Sendable () throws -> Void) {
        let thread = Thread { [self] in
            do { try body() } catch { failure.withLock { $0 = error } }
            done.signal()
        }
        thread.start()
    }

    func wait() throws {
        done.wait()
        if let error = failure.withLock({ $0 }) { throw error }
    }
}

/// A value that one thread makes and another uses afterwards, never both at once.
private struct Handed<Value>: @unchecked Sendable {
    // Holds because the tests below use the value only from the closure that runs while the
    // thread that made it is blocked inside the store.
    let value: Value
}

@Suite("Other users of the database", .serialized)
struct ContentionTests {
    @Test(
        "no token registered again during application is lost",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func registrationRace(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let pairs = Series.isLong ? 10_000 : 2_500
        let database = try TokenDatabase.own(engine, 0..<pairs)
        let dead = start + 60_000
        let again = dead + 1
        let settings = database.settings
        let returned = Mutex(0)
        let evidence = (0..<pairs).map { TokenEvidence.dead($0, at: dead) }
        let ticks = Mutex(0.0)
        // A clock by which every chunk takes the time aimed at: chunks stay small and many.
        let pacing = Pacing(
            patience: 600_000, firstChunk: 100,
            monotonic: {
                ticks.withLock {
                    $0 += 50
                    return $0
                }
            })
        let connection = database.driver()
        let store = try TokenTable(settings, connection, pacing)
        try Self.recordWrongs(in: database, connection)
        let registrar = Worker {
            try Self.registerAgain(pairs, at: again, settings, engine) { count in
                returned.withLock { $0 = count }
            }
        }
        let progress = try store.apply(evidence, policy: RemovalPolicy(action: action))
        let during = returned.withLock { $0 }
        try registrar.wait()
        // In the end a later registration covers up for a mark that should not have been set, so
        // every change is checked when it is made.
        #expect(try database.rows(of: "wrongs") == 0)
        #expect(progress.isApplied && progress.counts.total == pairs)
        #expect(during >= 100, "\(during) registrations while evidence was applied are too few")
        #expect(try database.rows() == pairs)
        #expect(
            try database.count(
                "SELECT COUNT(*) FROM active_users WHERE registered_at = ? AND "
                    + "(invalidated_at IS NULL OR invalidated_at < registered_at)",
                [database.time(again)]) == pairs)
        let later = try database.store().apply(evidence, policy: RemovalPolicy(action: action))
        #expect(later.counts == Counts(newer: pairs) && later.rowsChanged == 0)
    }

    /// Has the database itself record every mark on, and every deletion of, a row that was
    /// registered after the evidence.
    private static func recordWrongs(
        in database: TokenDatabase, _ connection: any SQLConnection
    ) throws {
        try database.execute("CREATE TABLE wrongs (id BIGINT)")
        let dead = database.time(start + 60_000).testText
        let changed = "NEW.invalidated_at IS NOT NULL AND OLD.registered_at > NEW.invalidated_at"
        let deleted = "OLD.registered_at > '\(dead)'"
        for (moment, condition) in [("UPDATE", changed), ("DELETE", deleted)] {
            let name = "wrong_\(moment.lowercased())"
            let isUpdate = moment == "UPDATE"
            let isNew = isUpdate ? " AND NOT NEW.invalidated_at <=> OLD.invalidated_at" : ""
            try database.execute(
                "CREATE TRIGGER \(name) AFTER \(moment) ON active_users FOR EACH ROW "
                    + "INSERT INTO wrongs SELECT OLD.id FROM DUAL WHERE \(condition)\(isNew)",
                on: .mariaDB)
            guard database.engine == .sqlite else { continue }
            // A trigger of the file for updates is refused; one of the connection is no part of the table.
            let isOther = isUpdate ? " AND NEW.invalidated_at IS NOT OLD.invalidated_at" : ""
            try connection.run(
                "CREATE TEMP TRIGGER \(name) BEFORE \(moment) ON main.active_users WHEN "
                    + "\(condition)\(isOther) BEGIN INSERT INTO wrongs VALUES (OLD.id); END")
        }
    }

    /// The action of an application when devices come back: update the row, or insert it if it is
    /// missing.
    private static func registerAgain(
        _ pairs: Int, at time: Int64, _ settings: StoreSettings, _ engine: TestEngine,
        report: (Int) -> Void
    ) throws {
        let connection: any SQLConnection =
            switch settings.location {
            case .server(let server): MariaDBConnection(server, settings)
            case .sqlite(let path): SQLiteConnection(path: path, creates: true, settings)
            }
        try connection.connect()
        let clock = WallClock(microseconds: time * 1_000)
        let value = engine == .mariaDB ? SQLValue.wallClock(clock) : .text(clock.text(fraction: 3))
        func register(_ tokens: [Int]) throws(SQLFailure) {
            try connection.begin()
            for token in tokens {
                let bytes = SQLValue.bytes(DeviceToken.numbered(token).bytes)
                let found = try connection.execute(
                    "UPDATE active_users SET registered_at = ? WHERE device_token = ? "
                        + "AND app_id = 'chat' AND environment = 'production'", [value, bytes])
                if found > 0 { continue }
                _ = try connection.execute(
                    "INSERT INTO active_users (user_id, app_id, environment, device_token, "
                        + "registered_at) VALUES ('back', 'chat', 'production', ?, ?)",
                    [bytes, value])
            }
            try connection.commit()
        }
        // Two walks, up and down, meet the application behind, at and ahead of where it works.
        for step in 0..<pairs / 10 {
            let first = step % 2 == 0 ? step * 5 : pairs - 10 - (step - 1) * 5
            let tokens = Array(first..<first + 10)
            // No retry: the applier must never make a registration the victim of a deadlock.
            try register(tokens)
            report((step + 1) * 10)
        }
    }

    @Test(
        "a row that another transaction holds is waited for and tried again",
        arguments: TestEngine.available)
    func lockedRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<10)
        database.settings.timeouts.lockWait = 1
        try database.sql.begin()
        try database.execute("UPDATE active_users SET registered_at = registered_at WHERE id = 3")
        let blocker = Handed(value: database)
        let pauses = Mutex(0)
        var pacing = Pacing()
        pacing.sleep = { _ in
            pauses.withLock { $0 += 1 }
            blocker.value.sql.rollBack()
        }
        // The SQLite checkpoint needs the write lock, so a first try meets it on any engine.
        let progress = try database.store(pacing: pacing).apply(
            (0..<10).map { .dead($0, at: start + 60_000) })
        #expect(progress.counts == Counts(applied: 10))
        #expect(pauses.withLock { $0 } >= 1)
    }

    @Test(
        "between chunks SQLite leaves a gap for other writers, and servers need none",
        arguments: TestEngine.available)
    func leavesGaps(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<300)
        let ticks = Mutex(0.0)
        let pauses = Mutex<[Int]>([])
        // A clock by which every chunk takes the time aimed at, so all have 100 tokens.
        let pacing = Pacing(
            firstChunk: 100,
            monotonic: {
                ticks.withLock {
                    $0 += 50
                    return $0
                }
            }, sleep: { pause in pauses.withLock { $0.append(pause) } })
        try database.store(pacing: pacing).apply((0..<300).map { .dead($0, at: start + 60_000) })
        // None after the last chunk of storing the reports, nor after that of judging them.
        #expect(pauses.withLock { $0 } == (engine == .sqlite ? [25, 25, 25, 25] : []))
    }

    @Test(
        "a killed connection is opened again and the feed continues",
        .needsServer
    )
    func killed() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<400)
        let store = try database.store(pacing: hurried())
        var kills = 0
        let progress = try store.apply(
            (0..<400).map { .dead($0, at: start + 60_000) },
            report: { _ in
                let victim = try? database.texts(
                    "SELECT id FROM information_schema.PROCESSLIST WHERE db = ? AND id <> "
                        + "CONNECTION_ID()", [.text(database.name)]
                ).first?.first
                if let victim, kills < 3, (try? database.sql.run("KILL \(victim)")) != nil {
                    kills += 1
                }
            })
        #expect(kills >= 2)
        #expect(progress.counts == Counts(applied: 400) && progress.rowsChanged == 400)
        #expect(try database.rows(of: "pushsweep_change") == 400)
    }

    @Test(
        "where a confirmed chunk is gone after a takeover, the run ends, and the next one skips nothing",
        arguments: TestEngine.available)
    func takenBack(engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let evidence = (0..<400).map { TokenEvidence.dead($0, at: start + 60_000) }
        let tables = [
            "active_users", "pushsweep_batch", "pushsweep_change", "pushsweep_commit",
            "pushsweep_report",
        ]
        var chunks = 0
        // What the server had after the first chunk takes the place of what it has after the second.
        func keepOrPutBack() throws {
            chunks += 1
            for table in tables where chunks == 1 {
                try database.execute("CREATE TABLE kept_\(table) AS SELECT * FROM \(table)")
            }
            for table in tables where chunks == 2 {
                try database.execute("DELETE FROM \(table) WHERE 1 = 1")
                try database.execute("INSERT INTO \(table) SELECT * FROM kept_\(table)")
            }
        }
        let failure = #expect(throws: StoreFailure.self) {
            try database.store(pacing: hurried()).apply(
                evidence, feed: "one",
                report: { _ in
                    do { try keepOrPutBack() } catch { Issue.record(error) }
                })
        }
        #expect(failure?.code == .commitUnknown && chunks == 2, "\(failure as Any)")
        #expect(failure?.sentence.contains("the checkpoint of batch one is behind") == true)
        let progress = try database.store(pacing: hurried()).apply(evidence, feed: "one")
        #expect(progress.isApplied && progress.counts == Counts(applied: 400))
        #expect(try database.rows(of: "pushsweep_change") == 400)
        #expect(try database.unmarked() == 0)
    }

    @Test(
        "a forecast killed between two reads of a transaction begins with the first and counts once",
        .needsServer,
        arguments: 1...5)
    func killedForecast(_ read: Int) throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<20)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let victim = try #require(connection.query("SELECT CONNECTION_ID()").scalar?.count)
        var reads = 0
        connection.refusal = { [database] sql in
            guard sql.contains("`device_token` IN (") else { return nil }
            reads += 1
            if reads == read {
                #expect(throws: Never.self) { try database.sql.run("KILL \(victim)") }
            }
            return nil
        }
        let forecast = try store.classify((0..<3_601).map { .dead($0, at: start + 60_000) })
        // Of the fifth list only, which has a transaction of its own.
        #expect(reads == (read == 5 ? 6 : read + 5))
        #expect(forecast.candidateRows == 20 && forecast.isComplete)
        #expect(forecast.counts == Counts(applied: 20, unknown: 3_581))
    }

    @Test(
        "a transaction killed while it waits for a lock is redone whole",
        .needsServer
    )
    func killedInside() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<400)
        try database.sql.begin()
        try database.execute("UPDATE active_users SET registered_at = registered_at WHERE id = 300")
        let settings = database.settings
        let result = Mutex<BatchProgress?>(nil)
        let applier = Worker {
            let store = try TokenTable(settings, pacing: hurried())
            let progress = try store.apply((0..<400).map { .dead($0, at: start + 60_000) })
            result.withLock { $0 = progress }
        }
        let admin = try #require(MariaDBServer.fromEnvironment).connection()
        // MariaDB shows waits of InnoDB late; MySQL shows a statement with bytes of a token by an error.
        let waiting =
            MariaDBServer.isMariaDB
            ? "SELECT id FROM information_schema.PROCESSLIST WHERE db = ? AND info LIKE "
                + "'SELECT%FOR UPDATE'"
            : "SELECT processlist_id FROM performance_schema.data_lock_waits JOIN "
                + "performance_schema.threads ON thread_id = requesting_thread_id "
                + "WHERE processlist_db = ?"
        var victim: String?
        // The applier is seen waiting long before.
        for _ in 0..<100_000 where victim == nil {
            victim = try admin.query(waiting, [.text(database.name)]).scalar?.count
                .map(String.init)
        }
        try admin.run("KILL \(victim ?? "0")")
        database.sql.rollBack()
        try applier.wait()
        let progress = try #require(result.withLock { $0 })
        #expect(progress.counts == Counts(applied: 400) && progress.rowsChanged == 400)
        #expect(try database.rows(of: "pushsweep_change") == 400)
    }

    @Test(
        "a server that becomes read-only ends the run as read-only",
        .needsServer
    )
    func readOnlySession() throws {
        let database = try TokenDatabase.own(.mariaDB, 0..<10)
        let real = database.driver()
        let connection = FaultyConnection(real)
        // MariaDB itself keeps the session from writing (1792), as a replica would.
        connection.before = { sql in
            if sql == "START TRANSACTION" { try? real.run("SET SESSION TRANSACTION READ ONLY") }
        }
        let store = try TokenTable(database.settings, connection, hurried())
        expectFailure(.readOnly) {
            try store.apply([.dead(1, at: start + 9_000)])
        }
    }
}

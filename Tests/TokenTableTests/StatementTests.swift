import APNsProtocol
import Foundation
import PushQueue
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

// docs/internals/clusters.md judges engines by the statements that reach the server, as its log shows them.

/// The paths whose statements are judged, each with what it does.
private enum StatementPath: String, CaseIterable {
    case lease = "Lease"
    case sweep = "Apply: mark"
    case late = "Apply: mark on a node that certifies commits"
    case removal = "Apply: delete"
    case beside = "Apply: marks in `pushsweep_invalid`"
    case refused = "Apply: a row refuses the change"
    case expiry = "Removal after `delete-after`"
    case expiryBeside = "Removal after `delete-after`: marks in `pushsweep_invalid`"
    case undo = "Undo"
    case claim = "Claim"
    case results = "Results"
}

@Suite(
    "Statements", .serialized,
    .needsServer,
    // The page shows MariaDB's; what MySQL is asked about itself differs.
    .enabled(if: MariaDBServer.isMariaDB, Comment(rawValue: MariaDBServer.absenceOnMySQL)))
struct StatementTests {
    private static let evidence = (0..<300).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let grace = RemovalPolicy(action: .delete, deletesAfter: 86_400_000)

    /// What each path sends, in a database of its own.
    private static let recorded = Result { () throws -> [StatementPath: [StatementLog.Entry]] in
        let log = try StatementLog()
        var paths: [StatementPath: [StatementLog.Entry]] = [:]
        for path in StatementPath.allCases {
            let database = try TokenDatabase(.mariaDB, on: log.address)
            try database.createOwnSchema()
            try database.register(0..<200, at: start)
            let work = try prepare(path, database)
            paths[path] = try log.record(work)
        }
        return paths
    }

    /// Prepares a path; the closure that is returned takes it.
    private static func prepare(
        _ path: StatementPath, _ database: TokenDatabase
    ) throws -> () throws -> Void {
        switch path {
        case .lease, .sweep, .late, .removal, .beside, .refused:
            return try prepareApplication(path, database)
        case .expiry, .expiryBeside, .undo: return try prepareRemoval(path, database)
        case .claim, .results: return try prepareQueue(path, database)
        }
    }

    @Test(
        "a forecast shares a transaction among four reads, so that a node waits once for the others"
    )
    func forecast() throws {
        let log = try StatementLog()
        let database = try TokenDatabase(.mariaDB, on: log.address)
        try database.createOwnSchema()
        try database.register(0..<20, at: start)
        let store = try TokenTable(database.settings, pacing: hurried())
        let evidence = (0..<3_601).map { TokenEvidence.dead($0, at: start + 60_000) }
        var candidates = 0
        let entries = try log.record { candidates = try store.classify(evidence).candidateRows }
        #expect(candidates == 20)
        // What the store reads about the table comes before.
        let all = entries.map(\.form)
        let first = try #require(
            all.firstIndex { $0.contains("FROM `active_users`") && $0.contains(" IN (") })
        let forms = all[(first - 1)...]
        #expect(forms.count { $0.contains("FROM `active_users`") } == 5)
        #expect(forms.count { $0 == "START TRANSACTION" } == 2)
        #expect(forms.count { $0 == "COMMIT" } == 2)
    }

    private static func putMarksBeside(_ database: TokenDatabase) throws {
        try database.execute(
            "ALTER TABLE active_users DROP COLUMN invalidated_at, DROP COLUMN invalid_reason")
    }

    private static func prepareApplication(
        _ path: StatementPath, _ database: TokenDatabase
    ) throws -> () throws -> Void {
        if path == .beside { try putMarksBeside(database) }
        if path == .refused {
            try database.hold("device_token", "X'\(DeviceToken.numbered(5).hex)'")
        }
        let connection = FaultyConnection(database.driver(), [])
        connection.certifiesCommits = path == .late
        let store = try TokenTable(database.settings, connection, hurried())
        let applicant = LeaseApplicant(kind: "sweep", run: "one", home: "home", host: "host")
        return {
            guard case .taken(let lease) = try store.takeLease(applicant) else {
                throw TestFailure("the lease is not free")
            }
            if path == .lease {
                try store.session.renew(lease)
                return try store.session.giveBack(lease)
            }
            try store.apply(
                evidence, policy: RemovalPolicy(action: path == .removal ? .delete : .mark),
                lease: lease)
        }
    }

    private static func prepareRemoval(
        _ path: StatementPath, _ database: TokenDatabase
    ) throws -> () throws -> Void {
        if path == .expiryBeside { try putMarksBeside(database) }
        let store = try database.store(pacing: hurried())
        guard path == .undo else {
            let mark = database.time(start + 60_000)
            if path == .expiryBeside {
                try database.execute(
                    "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at) "
                        + "SELECT app_id, environment, device_token, ? FROM active_users "
                        + "WHERE id <= 150", [mark])
            } else {
                try database.execute(
                    "UPDATE active_users SET invalidated_at = ? WHERE id <= 150", [mark])
            }
            let now = try store.session.databaseTime()
            return {
                _ = try store.remove(
                    GraceEnd(
                        run: "two", feed: UUID().uuidString.lowercased(), partition: chat,
                        policy: grace, now: now))
            }
        }
        try store.record("one")
        try store.apply(evidence, run: "one")
        return { _ = try store.undo(.run("one")) }
    }

    private static func prepareQueue(
        _ path: StatementPath, _ database: TokenDatabase
    ) throws -> () throws -> Void {
        let store = try database.store(pacing: hurried())
        // The last row is skipped.
        for number in Array(0..<50) + [999] {
            try database.execute(
                "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, '{}')",
                [.bytes(DeviceToken.numbered(number).bytes)])
        }
        let queue = try PushQueue(
            store, QueueLease(run: "one", host: "host"), newName: { APNsID.random().description })
        var cursor = QueueCursor()
        guard path == .results else {
            return { _ = try queue.claim(chat, limit: 60, from: &cursor) }
        }
        guard var claim = try queue.claim(chat, limit: 60, from: &cursor) else {
            throw TestFailure("nothing was claimed")
        }
        return {
            _ = try queue.handOver(claim, rows: .max)
            _ = try queue.renewLeases()
            let outcomes: [Outcome] = [
                .sent, .gone(reason: "Unregistered"), .failed(reason: "BadDeviceToken"),
                .retry(seconds: 900, reason: "ServiceUnavailable"), .unknown(reason: "reset"),
                .returned,
            ]
            let results = claim.notifications.map(\.row).enumerated().map {
                DeliveryResult(key: $0.element, outcomes[$0.offset % outcomes.count])
            }
            let heard = claim.notifications.map {
                HeardReport(
                    row: $0.row, token: $0.token, source: .unregistered,
                    time: EpochMilliseconds(1_700_000_000_000))
            }
            // The second call adds to the batch of the first.
            let origin = ReportOrigin(chat, gateway: "gateway:443")
            for some in [results.prefix(20), results[...]] {
                _ = try queue.record(Array(some), of: &claim, heard: heard, from: origin)
            }
            _ = try queue.closeBatches()
        }
    }

    /// The statements that are no part of the frame of a transaction, and whether they are inside of one.
    private static func transactions(
        _ entries: [StatementLog.Entry]
    ) -> [(entry: StatementLog.Entry, isInside: Bool)] {
        var open: Set<Int> = []
        return entries.compactMap { entry in
            if entry.form.hasPrefix("START TRANSACTION") {
                open.insert(entry.thread)
            } else if entry.form == "COMMIT" || entry.form == "ROLLBACK" {
                open.remove(entry.thread)
            } else {
                return (entry, open.contains(entry.thread))
            }
            return nil
        }
    }

    @Test("nothing is used that an engine of several servers lacks")
    func unused() throws {
        let words = [
            "LOCK TABLES", "GET_LOCK", "XA ", "TEMPORARY", "CALL ", "PROCEDURE", "SERIALIZABLE",
            "REPEATABLE READ", "SKIP LOCKED", "NOWAIT", "FOR SHARE", " HANDLER ",
        ]
        for (path, entries) in try Self.recorded.get() {
            #expect(entries.count > 2, "\(path)")
            for form in entries.map(\.form) {
                for word in words { #expect(!form.uppercased().contains(word), "\(path): \(form)") }
                #expect(isOfOneTable(form), "\(path): \(form)")
            }
        }
    }

    /// Whether a change names one table only. The index hint of a removal needs the form for several.
    private func isOfOneTable(_ form: String) -> Bool {
        let words = form.split(separator: " ")
        switch words[0] {
        case "UPDATE", "INSERT": return !form.contains(" JOIN ") && !words[1].hasSuffix(",")
        case "DELETE":
            let isSingle = words[1] == "FROM" || words[2] == "FROM" && words[1] == words[3]
            return isSingle && !form.contains(" JOIN ") && !form.contains(" USING ")
        default: return true
        }
    }

    @Test("rows are locked by reads inside of transactions only")
    func locks() throws {
        var locking = 0
        for (path, entries) in try Self.recorded.get() {
            for (entry, isInside) in Self.transactions(entries)
            where entry.form.contains("FOR UPDATE") || entry.form.contains("SHARE MODE") {
                locking += 1
                #expect(isInside, "\(path): \(entry.form)")
            }
        }
        #expect(locking > 10)
    }

    @Test(
        "no transaction locks rows after marks beside them, so that two never wait for each other")
    func order() throws {
        var paths: Set<StatementPath> = []
        for (path, entries) in try Self.recorded.get() {
            var locksMarks: Set<Int> = []
            for entry in entries {
                if entry.form.hasPrefix("START TRANSACTION") { locksMarks.remove(entry.thread) }
                guard entry.form.hasSuffix("FOR UPDATE") else { continue }
                if entry.form.contains("FROM pushsweep_invalid ") {
                    locksMarks.insert(entry.thread)
                    paths.insert(path)
                }
                if entry.form.contains("FROM `active_users` ") {
                    #expect(!locksMarks.contains(entry.thread), "\(path): \(entry.form)")
                }
            }
        }
        #expect(paths == [.beside, .expiryBeside])
    }

    @Test("values and the lengths of lists do not show in the form of a statement")
    func forms() {
        func form(_ statement: String) -> String { StatementLog.form(of: statement) }
        #expect(
            form("SELECT a FROM t WHERE b = 'it''s' AND c = X'00'")
                == "SELECT a FROM t WHERE b = ? AND c = ?")
        #expect(
            form("SELECT a FROM t WHERE b IN (1, 2, 3) LIMIT 90")
                == "SELECT a FROM t WHERE b IN (?, ...) LIMIT ?")
        #expect(
            form("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
                == form("INSERT INTO t VALUES (7, 'c'), (8, NULL), (9, 'e')"))
        #expect(
            form("SELECT 1 FROM t WHERE (a = 1) OR (a = 2) OR (a = 3)")
                == form("SELECT 1 FROM t WHERE (a = 1) OR (a = 2)"))
    }
}

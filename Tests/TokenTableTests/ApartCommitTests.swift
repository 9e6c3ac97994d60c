import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite(
    "Rows that commit apart from the ledger", .enabled(if: MariaDBServer.fromEnvironment != nil),
    .disabled(if: SpreadTable.isUsed, "it makes shards of its own of two plain tables"))
struct ApartCommitTests {
    private static let evidence = ApartTables.evidence
    private static let counts = ApartTables.counts

    private static func continued(_ shards: ApartTables) throws -> FeedProgress {
        let (store, _) = try shards.store()
        try store.settlePending(lease: nil)
        return try store.apply(evidence, feed: "f", run: "two")
    }

    @Test(
        "a commit that reaches one shard only is finished by the same run or the next",
        arguments: [SQLFailure.Kind.lost, .other])
    func halfCommit(_ kind: SQLFailure.Kind) throws {
        var pending = 0
        for commit in 1...6 {
            let shards = try ApartTables()
            let (store, _) = try shards.store(halfCommit: commit, kind)
            let progress: FeedProgress
            do {
                progress = try store.apply(Self.evidence, feed: "f", run: "one")
            } catch {
                #expect(kind == .other, "\(error)")
                pending += try shards.first.count(
                    "SELECT COUNT(*) FROM pushsweep_feed WHERE pending IS NOT NULL")
                progress = try Self.continued(shards)
            }
            #expect(progress.isApplied && progress.counts == Self.counts, "commit \(commit)")
            #expect(progress.rowsChanged == 150 && progress.rowsInvalidated == 150)
            try shards.checkAgreement("commit \(commit), \(kind)")
        }
        #expect(pending > 1 || kind == .lost, "the faults hit a commit of rows")
    }

    @Test("an announcement is taken back by the run that made it, not by one with equal entries")
    func ownAnnouncement() throws {
        let shards = try ApartTables()
        let (store, _) = try shards.store()
        _ = try store.apply(Self.evidence, feed: "f", run: "one")
        let checkpoint = FeedCheckpoint(
            feed: "f", part: .whole, connection: store.connection)
        let range = LedgerRange(
            run: "one", feed: "f", part: 0, partition: chat, source: "feedback", first: 150,
            count: 3)
        let settled = PendingChunk(range, try store.layout(), nil)
        let next = PendingChunk(range, try store.layout(), nil)
        try checkpoint.announce(next)
        let failure = #expect(throws: SQLFailure.self) { try checkpoint.withdraw(settled) }
        #expect(failure?.kind == .conflict)
        #expect(try checkpoint.hasPending())
        try checkpoint.withdraw(next)
        #expect(try !checkpoint.hasPending())
    }

    @Test(
        "a fault at any statement about the ledger leaves rows and ledger in agreement",
        arguments: [SQLFailure.Kind.lost, .other])
    func ledgerFaults(_ kind: SQLFailure.Kind) throws {
        let trial = try ApartTables()
        let (store, connection) = try trial.store()
        try store.apply(Self.evidence, feed: "f", run: "one")
        try trial.checkAgreement("without a fault")
        for operation in stride(from: 1, through: connection.operations, by: 2) {
            for isExecuted in [false, true] {
                let shards = try ApartTables()
                let (store, _) = try shards.store(
                    ledger: [.init(operation: operation, isExecuted: isExecuted, kind: kind)])
                _ = try? store.apply(Self.evidence, feed: "f", run: "one")
                let progress = try Self.continued(shards)
                let note: Comment = "operation \(operation), executed: \(isExecuted), \(kind)"
                #expect(progress.isApplied && progress.counts == Self.counts, note)
                try shards.checkAgreement(note)
            }
        }
    }

    @Test("a device that registers before the next run is left alone, and the counts say so")
    func registeredMeanwhile() throws {
        let shards = try ApartTables()
        let (store, _) = try shards.store(halfCommit: 2, .other)
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "one")
        }
        // The second shard has no mark yet; one of its tokens comes back, and one row is removed.
        let (back, gone) = (DeviceToken.numbered(1), DeviceToken.numbered(3))
        try shards.second.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [shards.second.time(start + 120_000), .bytes(back.bytes)])
        try shards.second.execute(
            "DELETE FROM active_users WHERE device_token = ?", [.bytes(gone.bytes)])
        let progress = try Self.continued(shards)
        var counts = Self.counts
        (counts.applied, counts.newer, counts.unknown) = (148, 51, 41)
        #expect(progress.counts == counts && progress.rowsChanged == 148)
        let marked = try shards.texts("SELECT id FROM active_users WHERE invalidated_at > 0")
        let entries = try shards.first.texts("SELECT row_key FROM pushsweep_change")
            .map { $0[0] }.sorted()
        #expect(marked == entries && marked.count == 148)
    }

    @Test("without times of registration a row that looks unchanged is left and counted as refused")
    func withoutRegistration() throws {
        let shards = try ApartTables()
        func without(_ mapping: inout TableMapping) { mapping.registeredAt.column = .absent }
        let (store, _) = try shards.store(halfCommit: 2, .other, ledger: [], without)
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "one")
        }
        let (next, _) = try shards.store(ledger: [], without)
        try next.settlePending(lease: nil)
        let progress = try next.apply(Self.evidence, feed: "f", run: "two")
        // Of the first 90 tuples the second shard has 45 rows.
        #expect(progress.counts == OutcomeCounts(applied: 155, unknown: 40, refused: 45))
        #expect(progress.rowsRefused == 45)
        let marked = try shards.texts("SELECT id FROM active_users WHERE invalidated_at > 0")
        let entries = try shards.first.texts(
            "SELECT row_key FROM pushsweep_change WHERE seq >= 0"
        ).map { $0[0] }.sorted()
        #expect(marked == entries && marked.count == 155)
        #expect(
            try shards.first.count("SELECT COUNT(*) FROM pushsweep_change WHERE seq < 0") == 45)
    }

    @Test("a refused advance counts as refused, and takes nothing from the applied tokens")
    func refusedAdvance() throws {
        let shards = try ApartTables()
        func without(_ mapping: inout TableMapping) { mapping.registeredAt.column = .absent }
        let (store, _) = try shards.store(ledger: [], without)
        try store.apply(Self.evidence, feed: "f", run: "one")
        let later = (0..<240).map { TokenEvidence.dead($0, at: start + 95_000) }
        let (dying, _) = try shards.store(halfCommit: 2, .other, ledger: [], without)
        #expect(throws: StoreFailure.self) { try dying.apply(later, feed: "g", run: "two") }
        let (next, _) = try shards.store(ledger: [], without)
        try next.settlePending(lease: nil)
        let progress = try next.apply(later, feed: "g", run: "three")
        #expect(progress.counts == OutcomeCounts(already: 155, unknown: 40, refused: 45))
        #expect(progress.rowsInvalidated == 0 && progress.rowsRefused == 45)
    }

    @Test("a mark that a sender moved on before the chunk was settled keeps its entry, for an undo")
    func movedMark() throws {
        let shards = try ApartTables()
        let before = try shards.texts("SELECT * FROM active_users")
        try shards.leaveHalf()
        // A sender settles the checkpoints of its own feeds only.
        let later = (0..<90).map { TokenEvidence.dead($0, at: start + 70_000) }
        let (store, _) = try shards.store()
        for run in ["one", "sender"] {
            try store.session.record(
                RunRecord(id: run, kind: "sweep", started: EpochMilliseconds(start), host: "h"))
        }
        try store.apply(later, feed: "g", run: "sender")
        #expect(try shards.pending() == 1)
        try store.settlePending(lease: nil)
        #expect(
            try shards.first.count("SELECT COUNT(*) FROM pushsweep_change WHERE feed = 'f'") == 90)
        try store.undo(.run("sender"))
        try store.undo(.run("one"))
        #expect(try shards.texts("SELECT * FROM active_users") == before)
    }

    @Test("a time beside a column of two values stays only where a row was set dead")
    func livingColumn() throws {
        let shards = try ApartTables()
        for shard in [shards.first, shards.second] {
            try shard.execute("ALTER TABLE active_users ADD active INTEGER NOT NULL DEFAULT 1")
        }
        func living(_ mapping: inout TableMapping) {
            mapping.living = LivingMapping(column: "active", living: "1", dead: "0")
        }
        let (store, _) = try shards.store(halfCommit: 2, .other, ledger: [], living)
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "one")
        }
        // On the second shard one device comes back, and one row refuses the change by now.
        try shards.second.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [shards.second.time(start + 120_000), .bytes(DeviceToken.numbered(1).bytes)])
        try shards.second.execute(
            "CREATE TRIGGER held BEFORE UPDATE ON active_users FOR EACH ROW "
                + "IF OLD.device_token = X'\(DeviceToken.numbered(5).hex)' THEN "
                + "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held'; END IF")
        let (next, _) = try shards.store(ledger: [], living)
        try next.settlePending(lease: nil)
        let progress = try next.apply(Self.evidence, feed: "f", run: "two")
        #expect(
            progress.counts
                == OutcomeCounts(applied: 148, newer: 51, unknown: 40, refused: 1))
        let dead = try shards.texts(
            "SELECT LOWER(HEX(device_token)) FROM active_users WHERE active = 0")
        let times = try shards.first.texts("SELECT token FROM pushsweep_invalid").map { $0[0] }
        #expect(dead.count == 148 && times.sorted() == dead)
    }

    @Test("a pending chunk whose rows are named by another key than the settings say is left alone")
    func changedKey() throws {
        let shards = try ApartTables()
        let (store, _) = try shards.store(halfCommit: 2, .other)
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "one")
        }
        let (other, _) = try shards.store(ledger: []) {
            $0.key = ["device_token", "app_id", "environment"]
        }
        let failure = #expect(throws: StoreFailure.self) { try other.settlePending(lease: nil) }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("store.active-users.key") == true)
        _ = try Self.continued(shards)
        try shards.checkAgreement("after the key was set back")
    }

    @Test("a row that refuses the change is named without savepoints, and the others are changed")
    func refusedRow() throws {
        let shards = try ApartTables()
        try shards.second.execute(
            "CREATE TRIGGER held BEFORE UPDATE ON active_users FOR EACH ROW "
                + "IF OLD.device_token = X'\(DeviceToken.numbered(5).hex)' THEN "
                + "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held'; END IF")
        let progress = try shards.store().0.apply(Self.evidence, feed: "f", run: "one")
        #expect(progress.isApplied && progress.rowsRefused == 1)
        #expect(
            try shards.texts("SELECT id FROM active_users WHERE invalidated_at > 0").count == 149)
    }

    @Test("no row is removed before its image is in the ledger, wherever the run dies")
    func removals() throws {
        for commit in 1...4 {
            let shards = try ApartTables()
            let (store, _) = try shards.store(halfCommit: commit, .other)
            let policy = RemovalPolicy(action: .delete)
            _ = try? store.apply(Self.evidence, policy: policy, feed: "f", run: "one")
            let images = try shards.first.count(
                "SELECT COUNT(*) FROM pushsweep_change WHERE action = 'delete' "
                    + "AND before_image LIKE '%device_token%'")
            #expect(images >= 200 - (try shards.texts("SELECT id FROM active_users").count))
            let (next, _) = try shards.store()
            let progress = try next.apply(Self.evidence, policy: policy, feed: "f", run: "two")
            #expect(progress.counts == Self.counts, "commit \(commit)")
            #expect(try shards.texts("SELECT id FROM active_users").count == 50)
            #expect(try shards.first.count("SELECT COUNT(*) FROM pushsweep_change") == 150)
        }
    }

    @Test("what an undo leaves half done agrees after the next run, and the undo can be continued")
    func undo() throws {
        for commit in 1...5 {
            let shards = try ApartTables()
            let before = try shards.texts("SELECT * FROM active_users")
            try shards.store().0.apply(Self.evidence, feed: "f", run: "one")
            let (dying, _) = try shards.store(halfCommit: commit, .other)
            try dying.session.record(
                RunRecord(id: "one", kind: "sweep", started: EpochMilliseconds(start), host: "h"))
            _ = try? dying.undo(.run("one"))
            let (store, _) = try shards.store()
            try store.settlePending(lease: nil)
            let restored = try shards.texts(
                "SELECT id FROM active_users WHERE invalidated_at IS NULL AND "
                    + "registered_at < '2024-01-01 00:01:00'")
            let entries = try shards.first.texts(
                "SELECT row_key FROM pushsweep_change WHERE source = 'undo' AND seq >= 0"
            ).map { $0[0] }.sorted()
            #expect(restored == entries, "commit \(commit)")
            _ = try store.undo(.run("one"))
            #expect(try shards.texts("SELECT * FROM active_users") == before)
        }
    }
}

import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite(
    "Chunks that a failed run left", .enabled(if: MariaDBServer.fromEnvironment != nil),
    .disabled(if: SpreadTable.isUsed, "it makes shards of its own of two plain tables"))
struct PendingFeedTests {
    private static let evidence = ApartTables.evidence

    @Test(
        "a table converted to the ledger's engine is settled by the next run, or by the feed itself",
        arguments: [true, false])
    func converted(_ isRun: Bool) throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        try tables.convert()
        let store = try tables.first.store(pacing: hurried())
        #expect(!store.connection.commitsApart)
        if isRun {
            #expect(try store.settlePending(lease: nil).isEmpty)
            #expect(try tables.pending() == 0)
        }
        let progress = try store.apply(Self.evidence, feed: "f", run: "two")
        #expect(progress.isApplied && progress.counts == ApartTables.counts)
        try tables.checkAgreement("after the conversion")
    }

    @Test("an undo that was interrupted before the conversion of its table is continued after it")
    func convertedUndo() throws {
        for commit in 1...4 {
            let tables = try ApartTables()
            let before = try tables.texts("SELECT * FROM active_users")
            try tables.store().0.apply(Self.evidence, feed: "f", run: "one")
            let (dying, _) = try tables.store(halfCommit: commit, .other)
            try dying.session.record(
                RunRecord(id: "one", kind: "sweep", started: EpochMilliseconds(start), host: "h"))
            _ = try? dying.undo(.run("one"))
            try tables.convert()
            let store = try tables.first.store(pacing: hurried())
            try store.settlePending(lease: nil)
            #expect(try tables.pending() == 0)
            let progress = try store.undo(.run("one"))
            #expect(progress.isDone, "commit \(commit)")
            #expect(try tables.texts("SELECT * FROM active_users") == before, "commit \(commit)")
        }
    }

    /// Renames both tables, and returns the settings' change.
    private static func rename(
        _ tables: ApartTables, _ old: String, to new: String
    ) throws -> (inout TableMapping) -> Void {
        for database in [tables.first, tables.second] {
            try database.execute("RENAME TABLE \(old) TO \(new)")
        }
        return { $0.table = new }
    }

    @Test("a chunk of a renamed table is never settled by itself, and the run says what to do")
    func renamed() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        let new = "active_users_new"
        let mapping = try Self.rename(tables, "active_users", to: new)
        let (store, _) = try tables.store(ledger: [], mapping)
        #expect(try store.settlePending(lease: nil).isEmpty, "a run may be at work on it")
        try tables.age()
        let feeds = try store.settlePending(lease: nil)
        let cure =
            "UPDATE pushsweep_feed SET pending = JSON_SET(pending, '$.table', '\(new)') "
            + "WHERE feed = 'f' AND part = 0"
        let sentence = try #require(feeds.first).sentence(store.layout())
        #expect(
            feeds.count == 1
                && sentence.contains("feed f has an unfinished chunk in table active_users"))
        #expect(sentence.contains(cure))
        let failure = #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "two")
        }
        #expect(failure?.code == .configuration && failure?.sentence.contains(cure) == true)
        #expect(try tables.pending() == 1)

        try tables.first.execute(cure)
        #expect(try store.settlePending(lease: nil).isEmpty)
        let progress = try store.apply(Self.evidence, feed: "f", run: "two")
        #expect(progress.isApplied && progress.counts == ApartTables.counts)
        _ = try Self.rename(tables, new, to: "active_users")
        try tables.checkAgreement("after the cure")
    }

    @Test("settings that name another table leave the chunk to those that name its own")
    func moved() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        try tables.age()
        for database in [tables.first, tables.second] {
            try database.execute("CREATE TABLE active_users_b LIKE active_users")
        }
        let (store, _) = try tables.store { $0.table = "active_users_b" }
        let feeds = try store.settlePending(lease: nil)
        #expect(
            try #require(feeds.first).sentence(store.layout())
                .contains("a run whose settings name active_users settles it"))
        #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "two")
        }
        #expect(try tables.pending() == 1)
        try tables.store().0.settlePending(lease: nil)
        #expect(try tables.pending() == 0)
    }

    @Test("check names the chunk, its time and who settles it, before and after a renaming")
    func findings() throws {
        let tables = try ApartTables()
        func findings(
            _ change: (inout TableMapping) -> Void = { _ in }
        ) throws -> [StoreFinding] {
            try tables.first.store(pacing: hurried(), change).examine(.apply(RemovalPolicy()))
                .findings.filter { $0.sentence.contains("unfinished chunk") }
        }
        #expect(try findings().isEmpty)
        try tables.leaveHalf()
        let recent = try findings()
        #expect(recent.map(\.severity) == [.ok])
        #expect(recent[0].sentence.hasSuffix("a run is committing it, or one has just failed"))
        try tables.age()
        let time = try tables.first.texts(
            "SELECT DATE_FORMAT(changed_at, '%Y-%m-%dT%H:%i:') FROM pushsweep_feed")[0][0]
        let left = try findings()
        #expect(left.map(\.severity) == [.warning])
        #expect(
            left[0].sentence.hasPrefix(
                "feed f has an unfinished chunk in table active_users, begun at \(time)"))
        #expect(
            left[0].sentence.hasSuffix(
                "which a failed run left; the next run that changes rows settles it, and needs DELETE on "
                    + "pushsweep_change for that"))
        let mapping = try Self.rename(tables, "active_users", to: "active_users_new")
        let renamed = try findings(mapping)
        #expect(renamed.map(\.severity) == [.warning])
        #expect(renamed[0].sentence.contains("'$.table', 'active_users_new')"))
    }

    @Test("a chunk is judged by its own table and key, not by those with which its feed began")
    func begunElsewhere() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        for change in ["table_name = 'old_devices'", "key_columns = 'other'", "key_columns = ''"] {
            try tables.first.execute("UPDATE pushsweep_feed SET \(change)")
        }
        let (store, _) = try tables.store()
        #expect(try store.settlePending(lease: nil).isEmpty)
        #expect(try tables.pending() == 0)
        let progress = try store.apply(Self.evidence, feed: "f", run: "two")
        #expect(progress.isApplied && progress.counts == ApartTables.counts)
        try tables.checkAgreement("after another beginning")
    }

    @Test("the table is the same with and without its schema")
    func schema() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        try tables.convert()
        let store = try tables.first.store(pacing: hurried()) {
            $0.table = "\(tables.first.name).active_users"
        }
        #expect(try store.settlePending(lease: nil).isEmpty)
        #expect(try tables.pending() == 0)
    }

    @Test("the statements against a chunk are whole and name it alone, however long the names are")
    func wholeStatements() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        let new = String(repeating: "n", count: 64)
        let (store, _) = try tables.store(ledger: [], Self.rename(tables, "active_users", to: new))
        let failure = #expect(throws: StoreFailure.self) {
            try store.apply(Self.evidence, feed: "f", run: "two")
        }
        let sentence = failure?.sentence ?? ""
        for statement in [
            "JSON_SET(pending, '$.table', '\(new)') WHERE feed = 'f' AND part = 0;",
            "SET pending = NULL WHERE feed = 'f' AND part = 0:",
        ] {
            #expect(sentence.contains(statement), "\(sentence)")
        }
    }

    @Test("a chunk that cannot be read stops the run, which says how to leave it")
    func unreadable() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        try tables.first.execute("UPDATE pushsweep_feed SET pending = '{}'")
        let (store, _) = try tables.store()
        let failure = #expect(throws: StoreFailure.self) { try store.settlePending(lease: nil) }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("SET pending = NULL WHERE feed = 'f'") == true)
    }

    @Test("a purge keeps the entries and the checkpoint of a chunk that is not settled")
    func purged() throws {
        let tables = try ApartTables()
        try tables.leaveHalf()
        let (store, _) = try tables.store()
        try store.session.record(
            RunRecord(id: "one", kind: "sweep", started: EpochMilliseconds(start), host: "h"))
        for (table, change) in [("feed", ", state = 'applied'"), ("change", ""), ("commit", "")] {
            let column = table == "commit" ? "committed_at" : "changed_at"
            try tables.first.execute(
                "UPDATE pushsweep_\(table) SET \(column) = '2024-01-02'\(change)")
        }
        let cutoff = EpochMilliseconds(start + 10 * 86_400_000)
        let entries = "SELECT COUNT(*) FROM pushsweep_change"
        let before = try tables.first.count(entries)
        _ = try store.purge(before: cutoff)
        #expect(try tables.first.count(entries) == before && before > 0)
        #expect(try tables.pending() == 1)
        try store.settlePending(lease: nil)
        for (table, column) in [("feed", "changed_at"), ("change", "changed_at")] {
            try tables.first.execute("UPDATE pushsweep_\(table) SET \(column) = '2024-01-02'")
        }
        _ = try store.purge(before: cutoff)
        #expect(try tables.first.count(entries) == 0)
    }
}

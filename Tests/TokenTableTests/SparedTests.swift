import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// Times of the rule, in seconds: a no at 100 to evidence of 50.
private func note(undone: Int64? = nil, discarded: Int64? = nil) -> SparedToken {
    func time(_ seconds: Int64) -> EpochMilliseconds { EpochMilliseconds(seconds * 1_000) }
    return SparedToken(
        token: .numbered(1), partition: Partition(app: "chat", environment: "production"),
        until: time(50), heardUntil: discarded.map(time), undoneAt: undone.map(time), run: "r")
}

private func at(_ seconds: Int64) -> Hearing { .at(EpochMilliseconds(seconds * 1_000)) }

@Suite("What a person said no to")
struct SparedTests {
    @Test(
        "after an undo only what was heard later counts, whatever time it names",
        arguments: [
            (at(100), 50, true), (at(100), 51, true), (at(99), 200, true), (at(101), 1, false),
            (at(101), 50, false), (.unknown, 50, true), (.unknown, 51, false),
            (.asked(EpochMilliseconds(100_000)), 50, true),
            (.asked(EpochMilliseconds(100_001)), 50, false),
        ] as [(Hearing, Int64, Bool)])
    func undone(_ heard: Hearing, _ seconds: Int64, _ isSpared: Bool) {
        let time = EpochMilliseconds(seconds * 1_000)
        #expect(note(undone: 100).spares(time, heard: heard) == isSpared)
    }

    @Test(
        "after a discard what was heard later counts, and what says a later time",
        arguments: [
            (at(100), 50, true), (at(100), 51, false), (at(101), 50, false), (at(1), 1, true),
            (.unknown, 50, true), (.unknown, 51, false),
            (.asked(EpochMilliseconds(100_001)), 1, false),
        ] as [(Hearing, Int64, Bool)])
    func discarded(_ heard: Hearing, _ seconds: Int64, _ isSpared: Bool) {
        let time = EpochMilliseconds(seconds * 1_000)
        #expect(note(discarded: 100).spares(time, heard: heard) == isSpared)
        // An undo before it takes nothing away from it.
        let both = note(undone: 40, discarded: 100)
        #expect(both.spares(time, heard: heard) == isSpared)
    }

    /// The note about token 1: until, undone, discarded as 1 where it is there, run.
    private static func stored(_ database: TokenDatabase) throws -> [[String]] {
        try database.texts(
            "SELECT CASE WHEN undone_at IS NULL THEN 0 ELSE 1 END, CASE WHEN heard_until IS NULL THEN 0 "
                + "ELSE 1 END, by_run FROM pushsweep_spared ORDER BY token")
    }

    @Test(
        "an undo notes tokens that it leaves living, its own undo forgets that, and a discard stays",
        arguments: TestEngine.available)
    func undoOfUndo(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<4)
        let store = try database.store()
        let dead = (0..<3).map { TokenEvidence.dead($0, at: start + 60_000) }
        try store.sweep("first", dead)
        try store.undo(.run("first"), as: "undo1")
        #expect(try Self.stored(database) == Array(repeating: ["1", "0", "undo1"], count: 3))
        let until = try database.texts("SELECT DISTINCT until_at FROM pushsweep_spared")
        #expect(until.count == 1)
        let discarded = SparingNotes.Note(
            token: .numbered(0), partition: Partition(app: "chat", environment: "production"),
            until: EpochMilliseconds(start))
        try SparingNotes(connection: store.connection, run: "person")
            .add([discarded], .discarded, at: EpochMilliseconds(start + 950_000))
        #expect(try database.texts("SELECT DISTINCT until_at FROM pushsweep_spared") == until)
        try store.undo(.run("undo1"), as: "undo2", at: start + 1_000_000)
        #expect(try database.marked == 3)
        #expect(try Self.stored(database) == [["0", "1", "person"]])
    }

    @Test(
        "an undo notes a token whose row has another key now, to the end of a whole second, and says when",
        arguments: TestEngine.available)
    func goneKey(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<2)
        let type = engine == .mariaDB ? "BIGINT" : "INTEGER"
        try database.execute("ALTER TABLE active_users ADD dead_since \(type)")
        let store = try database.store {
            $0.invalidatedAt.column = .named("dead_since")
            $0.invalidatedAt.type = .epochSeconds
        }
        let time = start + 60_700
        try store.sweep("first", [.dead(0, at: time)])
        try database.execute("DELETE FROM active_users WHERE id = 1")
        try database.register(.numbered(0), at: start)
        let undone = try store.undo(.run("first"), as: "undo1")
        #expect(undone.restored == 0 && undone.kept == ["gone": 1])
        #expect(try Self.stored(database) == [["1", "0", "undo1"]])
        #expect(try store.refusalTimes(mustSee: true).count == 1)
        // The same line of a log, and one that says more.
        #expect(
            try store.apply([.dead(0, at: time)], hearing: .unknown).counts == Counts(newer: 1))
        #expect(
            try store.apply([.dead(0, at: time + 1_000)], hearing: .unknown).counts
                == Counts(applied: 1))
    }

    @Test(
        "evidence gives way to a note only where it would change a row",
        arguments: TestEngine.available)
    func judged(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<4)
        let store = try database.store()
        let dead = (0..<3).map { TokenEvidence.dead($0, at: start + 60_000) }
        try store.sweep("first", dead)
        try store.undo(.run("first"), as: "undo1")
        try database.execute(
            "UPDATE active_users SET registered_at = ? WHERE id = 2",
            [database.time(start + 120_000)])
        let partition = Partition(app: "chat", environment: "production")
        var list = EvidenceList(dead + [.dead(9, at: start)])
        let foretold = try store.classify(
            &list, in: partition, policy: RemovalPolicy(), hearing: .unknown)
        #expect(foretold.spared >= 2 && foretold.candidateRows == 0)
        let applied = try store.apply(dead + [.dead(9, at: start)], hearing: .unknown)
        #expect(applied.counts == Counts(newer: 3, unknown: 1))
        let states = try database.texts(
            "SELECT state, COUNT(*) FROM pushsweep_report WHERE batch NOT IN (SELECT number FROM "
                + "pushsweep_batch WHERE run = 'first') GROUP BY state ORDER BY state")
        #expect(states.map(\.[0]).contains("\(ReportState.spared.rawValue)"), "\(states)")
        #expect(try database.marked == 0)
        // APNs says it again.
        try store.apply(
            [.dead(0, at: start + 60_000)], hearing: .at(EpochMilliseconds(.max)))
        #expect(try database.marked == 1 && Self.stored(database).count == 3)
        // A person asks for it: the note goes.
        try store.apply(
            [.dead(2, at: start + 60_000)], hearing: .asked(EpochMilliseconds(4_000_000_000_000)))
        #expect(try database.marked == 2 && Self.stored(database).count == 2)
    }
}

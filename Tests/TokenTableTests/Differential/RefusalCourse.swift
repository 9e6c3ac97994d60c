// What persons say no to, on a random table: lists of reports that are judged at once or wait, undos and undos of undos,
// discards, releases, replays, ends of grace periods, and an application that puts other tokens into rows, uses keys
// again, corrects values and registers devices anew; in random order. Each step is compared with the model: every row as
// the server prints it, and every note.
//
// The notes have the time of the database, so the steps are told apart by its clock: what is heard before a step and
// what is heard after it differ by a millisecond at least.

import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import TokenHygiene

@testable import TokenTable

struct RefusalCourse {
    /// A list of reports that was stored.
    struct List {
        enum State { case waiting, applied, discarded }

        var id: String
        let evidence: [TokenEvidence]
        let heard: ModelNote.Heard
        var state: State
    }

    let table: RandomTable
    let database: TokenDatabase
    let connection: KeptConnection
    let findings = Findings()
    let policy: RemovalPolicy
    let store: TokenTable
    /// The rows that are there, by number.
    var states: [Int: ModelState] = [:]
    /// The place of each row's key.
    var places: [Int: Int] = [:]
    var notes: [DeviceToken: ModelNote] = [:]
    var entries: [ModelEntry] = []
    var lists: [List] = []
    /// The marks beside the rows, and their changes.
    var marks: [DeviceToken: Int64] = [:]
    var markEntries: [ModelMarkEntry] = []
    /// Keys and marks beside that were changed within the period of grace, and tokens that the end of a period left.
    var young: Set<Int> = []
    var youngMarks: Set<DeviceToken> = []
    var left: Set<DeviceToken> = []
    /// Rows that belong to the other environment for a while.
    var corrected: Set<Int> = []
    var steps: [String] = []
    /// The number of the last run.
    private(set) var next = 0
    private var last: Int64 = 0

    var model: TableModel { TableModel(policy: policy, unit: table.unit) }

    /// Nil where the table is refused.
    init?(
        _ table: RandomTable, _ database: TokenDatabase, _ connection: KeptConnection,
        _ random: inout SeededGenerator
    ) throws {
        (self.table, self.database, self.connection) = (table, database, connection)
        policy = TableModel.policies.one(&random)
        connection.faults = []
        var settings = database.settings
        table.map(&settings.mapping)
        do {
            store = try TokenTable(settings, connection, hurried())
            try store.require(.apply(policy), partitions: [chat], judgingRows: false)
        } catch {
            guard error.code == .configuration else { throw error }
            return nil
        }
        let printed = try table.printed(on: database)
        for row in table.rows {
            guard let values = printed[row.number] else { continue }
            states[row.number] = ModelState(row: row, printed: values)
            places[row.number] = row.number
        }
        try database.sql.run("CREATE TABLE \(table.name)_log AS SELECT * FROM \(table.name)")
    }

    mutating func run(_ random: inout SeededGenerator, _ tally: inout TableTrial.Tally) throws {
        for _ in 0..<Int.random(in: 4...20, using: &random) {
            try application(&random)
            let step = Int.random(in: 0..<10, using: &random)
            if Int.random(in: 0...2, using: &random) == 0 {
                tally.faults += connection.drawFaults(&random)
            }
            switch step {
            case 0...2: try list(judged: true, &random)
            case 3: try list(judged: false, &random)
            case 4...5: try undo(&random, &tally)
            case 6: try discard(&random)
            case 7: try release(&random)
            case 8: try replay(&random)
            default: try end(&random)
            }
            connection.faults = []
            try expectNotes()
            guard findings.wrong.isEmpty else { return }
        }
        tally.spared += steps.count { $0.contains("spared") }
        tally.applied += entries.count + markEntries.count
        tally.noted += notes.count
    }

    // MARK: What every step needs

    /// The present by the database's clock, later than at any step before.
    mutating func now() throws -> Int64 {
        while true {
            let time = try store.session.databaseTime().rawValue
            guard time <= last else {
                last = time
                return time
            }
        }
    }

    mutating func newRun() throws -> String {
        next += 1
        let digits = String(next)
        let run =
            "00000000-0000-0000-0000-" + String(repeating: "0", count: 12 - digits.count) + digits
        try store.session.record(
            RunRecord(
                id: run, kind: "sweep", started: EpochMilliseconds(start + Int64(next) * 1_000),
                host: "h"))
        return run
    }

    func rows(with token: DeviceToken) -> [ModelState] {
        states.values.filter { $0.row.token == token && $0.row.isOurs }
            .sorted { $0.row.number < $1.row.number }
    }

    /// The row that has the key of a place.
    func occupant(of place: Int) -> ModelState? {
        states.values.first { places[$0.row.number] == place }
    }

    /// Compares the table with what it is to be, and goes on from there.
    mutating func expect(_ expected: [Int: ModelState], after step: String) throws {
        steps.append(step)
        let printed = try table.printed(on: database)
        for number in Set(printed.keys).union(expected.keys).sorted() {
            let (found, wanted) = (printed[number], expected[number]?.printed)
            guard found != wanted else { continue }
            findings.expect(
                false,
                "row \(number) (key \(places[number] ?? -1)) after \(step): "
                    + TableCourse.difference(found, wanted))
        }
        if table.mark == .none { try expectMarks(after: step) }
        if !findings.wrong.isEmpty {
            findings.wrong.append("steps: \(steps.joined(separator: "; "))")
        }
        states = expected
    }

    private func expectMarks(after step: String) throws {
        let found = try InvalidTokenTable(partition: chat, connection: database.sql)
            .marks(on: (0..<40).map { .numbered($0) }, locking: false)
            .mapValues(\.time.rawValue)
        findings.expect(
            found == marks,
            "the marks beside after \(step) are \(found.map { ($0.key.hex.suffix(2), $0.value - start) }) and not "
                + "\(marks.map { ($0.key.hex.suffix(2), $0.value - start) })")
    }

    private func expectNotes() throws {
        let tokens = Set(notes.keys).union((0..<40).map { .numbered($0) })
        let found = try SparedTokens(connection: database.sql).notes(on: tokens)
        for token in tokens.sorted() {
            let (note, wanted) = (found[token], notes[token])
            let isSame =
                note?.until.rawValue == wanted?.until
                && (note?.heardUntil == nil) == (wanted?.discardedAt == nil)
                && (note?.undoneAt == nil) == (wanted?.undoneAt == nil)
            findings.expect(
                isSame,
                "the note on \(token.hex.suffix(2)) is \(note as Any) and not \(wanted as Any) after "
                    + steps.joined(separator: "; "))
        }
    }

    /// Notes that a person said no at a time.
    mutating func refuse(
        _ token: DeviceToken, until: Int64, undone: Int64? = nil, discarded: Int64? = nil
    ) {
        var note = notes[token] ?? ModelNote(until: until)
        note.until = max(note.until, until)
        note.undoneAt = [note.undoneAt, undone].compactMap { $0 }.max()
        note.discardedAt = [note.discardedAt, discarded].compactMap { $0 }.max()
        notes[token] = note
    }
}

extension KeptConnection {
    /// Draws up to three faults, and returns their number.
    func drawFaults(_ random: inout SeededGenerator) -> Int {
        let count = Int.random(in: 1...3, using: &random)
        for _ in 0..<count {
            faults.append(
                (
                    Int.random(in: 0...12, using: &random),
                    [.lost, .conflict, .overloaded].one(&random), Bool.random(using: &random)
                ))
        }
        return count
    }
}

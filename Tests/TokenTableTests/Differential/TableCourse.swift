import APNsProtocol
import Findings
import Foundation
import TestSupport
import TokenHygiene

@testable import Database
@testable import TokenTable

/// The differences that a trial found.
final class Findings {
    var wrong: [String] = []

    /// Records a difference.
    func expect(_ holds: Bool, _ words: @autoclosure () -> String) {
        if !holds { wrong.append(words()) }
    }
}

/// The steps on one random table, each compared with the model.
struct TableCourse {
    let table: RandomTable
    let database: TokenDatabase
    let connection: KeptConnection
    /// The differences from the model.
    let findings = Findings()
    private(set) var policy = RemovalPolicy()
    private var rows: [ModelRow] = []
    /// The rows as they were before the first sweep, with the registrations since.
    private var original: [Int: [String: String]] = [:]
    /// Rows that registered after a sweep.
    private var registered: Set<Int> = []
    /// Marks beside the table, by token.
    private var marks: [DeviceToken: Int64] = [:]
    /// The sweeps that moved them.
    private var markedBy: [DeviceToken: Set<Int>] = [:]
    private let partition = chat

    init(table: RandomTable, database: TokenDatabase, connection: KeptConnection) {
        self.table = table
        self.database = database
        self.connection = connection
    }

    private var model: TableModel { TableModel(policy: policy, unit: table.unit) }

    private func store() throws -> TokenTable {
        var settings = database.settings
        table.map(&settings.mapping)
        return try TokenTable(settings, connection, hurried())
    }

    private func printed() throws -> [Int: [String: String]] { try table.printed(on: database) }

    mutating func run(_ random: inout SeededGenerator, _ tally: inout TableTrial.Tally) throws {
        let first = try printed()
        rows = table.rows.filter { first[$0.number] != nil }
        policy = TableModel.policies.one(&random)
        connection.faults = []
        let store: TokenTable
        do {
            store = try self.store()
            // A drawn table may have no row of its platform, which a run refuses.
            try store.require(.apply(policy), partitions: [partition], judgingRows: false)
        } catch let failure as StoreFailure where failure.code == .configuration {
            tally.refusedTables += 1
            findings.expect(table.isToBeRefused(policy, rows) != false, "refused: \(failure)")
            try findings.expect(printed() == first, "a refused table changed: \(failure)")
            return
        }
        findings.expect(table.isToBeRefused(policy, rows) != true, "the table was not refused")
        try expectGuard(store)
        original = first
        for step in 0..<Int.random(in: 1...3, using: &random) {
            if step > 0 && Bool.random(using: &random) {
                try register(&random)
            }
            try sweep(step, store, &random, &tally)
        }
        try expectView(store)
        if policy.deletesAfter != nil { try expire(store, &random, &tally) }
        try takeBack(store, &random, &tally)
    }

    /// A feed of tokens that the table does not know is held.
    private func expectGuard(_ store: TokenTable) throws {
        let strangers = try store.classify(
            (900..<910).map { .dead($0, at: start) }, policy: policy)
        let proposal = RemovalProposal(
            candidates: strangers.candidateRows, counts: strangers.counts, tuples: 10, tokens: 10)
        let cause = try RemovalGuard(GuardLimits(floor: 10)).cause(
            toHold: proposal, after: RemovalHistory()
        ) { try store.livingRows(in: partition).count(atMost: $0) }
        findings.expect(cause != nil, "a feed of unknown tokens was not held")
    }

    /// The view has the tokens that a sender may send to, and no other.
    private func expectView(_ store: TokenTable) throws {
        for statement in try store.sendableView(partitions: [partition]).statements {
            try database.sql.run(statement)
        }
        defer { try? database.sql.run("DROP VIEW \(SendableView.usualName)") }
        let tokens = (0..<14).map { DeviceToken.numbered($0) }
        let statuses = try store.tokenStatuses(in: partition).statuses(of: tokens)
        let living = Set(statuses.filter { $0.value == .living }.keys)
        let shown = try Set(
            database.sql.query("SELECT number FROM \(SendableView.usualName)").numbers)
        let found = Set(
            rows.filter { $0.isOurs && shown.contains($0.number) }.compactMap(\.token))
        findings.expect(
            found == living,
            "the view lacks \(living.subtracting(found)) and has \(found.subtracting(living))")
    }

    // MARK: Steps

    private mutating func sweep(
        _ step: Int, _ store: TokenTable, _ random: inout SeededGenerator,
        _ tally: inout TableTrial.Tally
    ) throws {
        let evidence = (0..<12).filter { _ in Int.random(in: 0...2, using: &random) > 0 }.map {
            TokenEvidence.dead(
                $0,
                at: start + 60_000 * Int64(step + 1)
                    + [0, -500, 700_000, 1].one(&random),
                statements: Int.random(in: 1...2, using: &random))
        }
        let before = try printed()
        let run = "00000000-0000-0000-0000-00000000000\(step)"
        try store.session.record(
            RunRecord(
                id: run, kind: "sweep", started: EpochMilliseconds(start + Int64(step) * 1_000_000),
                host: "h"))
        injectFaults(&random, &tally)
        // Behind a forecast whose rows are known, and with reports that are stored as they are decided, or not.
        let (isKnown, isStored) = (
            Bool.random(using: &random), Bool.random(using: &random)
        )
        let progress =
            isKnown
            ? try store.applyKnown(
                evidence, policy: policy, feed: "feed \(step)", run: run, storing: isStored)
            : try store.apply(
                evidence, policy: policy, feed: "feed \(step)", run: run, storing: isStored)
        connection.faults = []
        let after = try printed()
        var counts = Counts()
        var changed = 0
        for item in evidence {
            let effects = judge(item, step, before, after)
            counts += model.count(effects.filter { $0 != .none }, item.statements)
            changed += effects.count { [.removed].contains($0) || isMark($0) }
            tally.refusedRows += effects.count { $0 == .refused }
        }
        tally.applied += changed
        findings.expect(
            progress.counts == counts, "counts \(progress.counts), the model says \(counts)")
        findings.expect(progress.isApplied, "the feed is not applied")
        // Nothing else may change.
        let named = Set(evidence.map(\.token))
        for row in rows where row.token.map({ !named.contains($0) }) ?? true {
            findings.expect(
                after[row.number] == before[row.number],
                "row \(row.number) changed without evidence")
        }
    }

    private func isMark(_ effect: TableModel.Effect) -> Bool {
        switch effect {
        case .marked, .advanced: true
        default: false
        }
    }

    /// Compares the rows of one token with the model, and moves the model on.
    private mutating func judge(
        _ item: TokenEvidence, _ step: Int, _ before: [Int: [String: String]],
        _ after: [Int: [String: String]]
    ) -> [TableModel.Effect] {
        var effects: [TableModel.Effect] = []
        let beside = table.mark == .none ? marks[item.token] : nil
        for index in rows.indices where rows[index].token == item.token && rows[index].isOurs {
            let row = rows[index]
            var effect = model.effect(of: item.time.rawValue, on: row, marks: beside)
            // A value that cannot be kept is a reason to leave the row, not to lose it.
            if effect == .removed, row.isOdd, after[row.number] == before[row.number] {
                effect = .refused
            }
            effects.append(effect)
            var expected = before[row.number]
            switch effect {
            case .removed:
                expected = nil
                rows[index].isThere = false
            case .marked(let time), .advanced(let time):
                if table.mark == .none { markedBy[item.token, default: []].insert(step) }
                rows[index].changedBy.insert(step)
                if let text = table.printedMark(time) {
                    expected?["invalidated_at"] = text
                    if table.storesReason {
                        expected?["invalid_reason"] = table.printedReason
                    }
                    rows[index].mark = time
                } else {
                    marks[item.token] = max(marks[item.token] ?? .min, time)
                }
            case .none, .newer, .already, .refused: break
            }
            let words = "row \(row.number) after \(effect) by evidence of \(item.time.rawValue)"
            findings.expect(
                after[row.number] == expected,
                "\(words): \(Self.difference(after[row.number], expected))")
        }
        return effects
    }

    /// The columns in which a row is not as it should be.
    static func difference(_ row: [String: String]?, _ expected: [String: String]?)
        -> String
    {
        guard let row else { return "the row is gone" }
        guard let expected else { return "the row is still there" }
        return expected.filter { row[$0.key] != $0.value }.map { name, value in
            "\(name) is \((row[name] ?? "nil").prefix(60)) and not \(value.prefix(60))"
        }.joined(separator: ", ")
    }

    private mutating func injectFaults(
        _ random: inout SeededGenerator, _ tally: inout TableTrial.Tally
    ) {
        guard Int.random(in: 0...2, using: &random) == 0 else { return }
        tally.faults += connection.drawFaults(&random)
    }

    /// Devices come back: some rows have a later registration.
    private mutating func register(_ random: inout SeededGenerator) throws {
        guard table.registration != .none else { return }
        let time = start + 3_000_000
        for index in rows.indices where Int.random(in: 0...3, using: &random) == 0 {
            guard rows[index].isThere else { continue }
            // A trigger may refuse the application, too.
            try database.sql.begin()
            do {
                try database.sql.run(
                    "UPDATE \(table.name) SET \(table.written("registered_at")) = "
                        + "\(RandomTable.literal(table.registration, time, table.engine)) "
                        + "WHERE number = \(rows[index].number)")
                try database.sql.commit()
            } catch {
                database.sql.rollBack()
                continue
            }
            rows[index].registration = .at(time)
            registered.insert(rows[index].number)
        }
        let now = try printed()
        for number in registered {
            original[number]?["registered_at"] = now[number]?["registered_at"]
        }
    }

    /// Ages some sweeps by days, and removes what has been marked for long enough since.
    private mutating func expire(
        _ store: TokenTable, _ random: inout SeededGenerator, _ tally: inout TableTrial.Tally
    ) throws {
        let steps = Set(rows.flatMap(\.changedBy)).union(markedBy.values.flatMap { $0 })
        // The first sweeps are old, the others are not.
        let cut = Int.random(in: 0...3, using: &random)
        let young = steps.filter { $0 >= cut }
        for step in steps.sorted() where step < cut {
            let old = table.engine == .sqlite ? "'2024-06-01 00:00:00.000'" : "'2024-06-01'"
            try database.sql.run(
                "UPDATE pushsweep_batch SET changed_at = \(old) WHERE name = 'feed \(step)'")
            for column in ["change SET changed_at", "commit SET committed_at"] {
                try database.sql.run(
                    "UPDATE pushsweep_\(column) = \(old) WHERE part IN (SELECT number FROM pushsweep_part "
                        + "WHERE batch = \(batchNumber("feed \(step)")))")
            }
        }
        let run = "00000000-0000-0000-0000-0000000000ee"
        try store.session.record(
            RunRecord(
                id: run, kind: "sweep", started: EpochMilliseconds(start + 9_000_000), host: "h"))
        let before = try printed()
        injectFaults(&random, &tally)
        let removed = try store.remove(
            GraceEnd(
                run: run, feed: run, partition: partition, policy: policy,
                now: store.session.databaseTime()))
        connection.faults = []
        let after = try printed()
        var due = 0
        for index in rows.indices {
            let row = rows[index]
            let isDue = model.isDue(
                row, marks: row.token.flatMap { table.mark == .none ? marks[$0] : nil },
                markedBy: row.token.flatMap { markedBy[$0] } ?? [], young: young)
            let isGone = isDue && !row.refusesRemoval && !row.isUnnameable
            if isGone && row.isOdd && after[row.number] != nil { continue }
            if isGone {
                due += 1
                rows[index].isThere = false
            }
            findings.expect(
                after[row.number] == (isGone ? nil : before[row.number]),
                "row \(row.number) (changed by \(row.changedBy), young \(young)) after its grace period: "
                    + Self.difference(after[row.number], isGone ? nil : before[row.number]))
        }
        tally.applied += due
        findings.expect(removed == due, "\(removed ?? -1) rows removed, the model says \(due)")
    }

    /// Undoes all since a state, does it again, and undoes that.
    private mutating func takeBack(
        _ store: TokenTable, _ random: inout SeededGenerator, _ tally: inout TableTrial.Tally
    ) throws {
        let runs = try store.runs().filter { $0.kind == "sweep" }.map(\.started)
        guard let oldest = runs.min() else { return }
        let all = UndoScope.since(oldest)
        let last = try printed()
        let dry = try store.undo(all, at: start + 90_000_000, isDry: true)
        try findings.expect(printed() == last, "a dry undo changed rows")
        injectFaults(&random, &tally)
        let undone = try store.undo(
            all, as: "00000000-0000-0000-0000-0000000000aa",
            at: start + 90_000_000)
        connection.faults = []
        tally.undone += undone.restored
        findings.expect(
            dry.restored + (dry.untried ?? 0) >= undone.restored,
            "a dry undo foretold \(dry.restored) and \(dry.untried ?? 0), \(undone.restored) came")
        let after = try printed()
        for (number, row) in original where after[number] != row {
            // A device that came back after the evidence keeps its mark.
            var kept = last[number]
            if after[number]?["environment"] == row["environment"] {
                kept?["environment"] = row["environment"]
            }
            if registered.contains(number), undone.kept["registered"] != nil,
                after[number] == last[number] || after[number] == kept
            {
                continue
            }
            findings.expect(
                false, "row \(number) after undo: \(Self.difference(after[number], row)); \(undone)"
            )
        }
        findings.expect(
            Set(after.keys) == Set(original.keys), "undo left rows that were not there")
        if undone.kept.isEmpty { try again(store, first: last, then: after) }
        // An older entry cannot be taken back from the state that a kept entry left.
        let isKept = undone.kept["registered"] != nil
        findings.expect(
            undone.kept.keys.allSatisfy {
                $0 == "registered" || isKept && ["changed", "gone"].contains($0)
            },
            "undo kept \(undone.kept)")
    }

    /// Undoes the undo, undoes that, and forgets it all.
    private func again(
        _ store: TokenTable, first: [Int: [String: String]], then: [Int: [String: String]]
    ) throws {
        let (undo, redo) = (
            "00000000-0000-0000-0000-0000000000aa", "00000000-0000-0000-0000-0000000000ab"
        )
        guard try store.runs().contains(where: { $0.id == undo }) else { return }
        let redone = try store.undo(.run(undo), as: redo, at: start + 91_000_000)
        let isTakenBack = redone.kept.isEmpty
        try findings.expect(
            !isTakenBack || printed() == first, "the undo of the undo left other rows: \(redone)")
        findings.expect(
            isTakenBack || redone.kept.keys.allSatisfy { $0 == "refused" },
            "the undo of the undo kept \(redone.kept)")
        try store.undo(
            .run(redo), as: "00000000-0000-0000-0000-0000000000ac", at: start + 92_000_000)
        try findings.expect(printed() == then, "the third undo left other rows")
        let end = EpochMilliseconds(start + 400_000_000_000)
        _ = try store.purge(before: end)
        try findings.expect(printed() == then, "a purge changed rows")
        try findings.expect(
            database.count("SELECT COUNT(*) FROM pushsweep_change") == 0, "a purge left entries")
    }
}

extension SQLRows {
    /// The first column of all rows, as numbers.
    fileprivate var numbers: [Int] { (0..<count).compactMap { self[$0, 0].count } }
}

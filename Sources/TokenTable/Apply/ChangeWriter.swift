import Database
import Encodings
import TokenHygiene

// A statement that counts its rows rightly may still do something else: a trigger takes the change back or moves
// the registration, perhaps of a row that an earlier statement has changed. So where triggers may run, all rows
// of a chunk are read again after its last statement. In SQLite, where a trigger may write its own table, the
// rows that nobody meant show by themselves (see `TouchedRows`): then the chunk is redone row by row, and the row
// whose statement wrote others is refused.

/// Runs the statements of a chunk and checks that each changed exactly its intended rows.
struct ChangeWriter {
    private let statements: ChangeStatements
    private let isolation: RowIsolation
    private let trial: RemovalTrial

    private var lookup: RowLookup { statements.lookup }
    private var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }

    /// Prepares changes that follow from evidence of a source.
    init(
        _ lookup: RowLookup, _ isolation: RowIsolation, marksFrom source: EvidenceSource
    ) {
        self.init(ChangeStatements(lookup: lookup, source: source), isolation)
    }

    /// Prepares changes without evidence: they apply only while the mark is still the one that was
    /// read.
    init(repeatingMarks lookup: RowLookup, _ isolation: RowIsolation) {
        self.init(
            ChangeStatements(
                lookup: lookup, source: nil, repeated: [lookup.mark].compactMap { $0 }), isolation)
    }

    /// Prepares marks of rows that were read without a lock: they apply only while all that was read is
    /// still so.
    init(unlocked lookup: RowLookup, _ isolation: RowIsolation, marksFrom source: EvidenceSource) {
        self.init(
            ChangeStatements(
                lookup: lookup, source: source,
                repeated: [lookup.mark, lookup.reason].compactMap { $0 }, isUnlocked: true),
            isolation)
    }

    private init(_ statements: ChangeStatements, _ isolation: RowIsolation) {
        self.statements = statements
        self.isolation = isolation
        trial = RemovalTrial(statements, isolation)
    }

    /// Makes the changes and returns the reasons of refused rows, by their place. Rows can be
    /// refused only where the chunk is processed row by row.
    ///
    /// - Throws: a conflict where rows have changed since they were judged; the first refusal where
    ///   the chunk is processed together.
    func write(
        _ changes: [RowChange]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        try write(changes) { statements.statements(for: $0) }
    }

    /// Replaces mark and reason by given values; see `write`.
    func restore(
        _ content: RowContent, in changes: [RowChange]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        try write(changes) { statements.restoring(content, of: $0) }
    }

    private func write(
        _ changes: [RowChange],
        _ plan: ([RowChange]) -> [ChangeStatements.Statement]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var refused: [Int: RowRefusal] = [:]
        if isolation.skipsRows {
            for (place, change) in changes.enumerated() {
                refused[place] = isolation.refusal(of: lookup.name(of: change.row))
            }
        }
        let unfit = try trial.refusals(of: changes, besides: refused)
        refused.merge(unfit) { known, _ in known }
        let open =
            refused.isEmpty
            ? changes : changes.indices.filter { refused[$0] == nil }.map { changes[$0] }
        let touched = try watch(open)
        if isolation.isOn {
            let places = changes.indices.filter { refused[$0] == nil }
            try writeOneByOne(changes, at: places, &refused, touched, plan)
        } else {
            try writeTogether(plan(open), of: open, touched)
        }
        try touched?.end()
        return refused
    }

    /// Makes changes one by one. A row to which another one refers may go after that one.
    private func writeOneByOne(
        _ changes: [RowChange], at places: [Int], _ refused: inout [Int: RowRefusal],
        _ touched: TouchedRows?, _ plan: ([RowChange]) -> [ChangeStatements.Statement]
    ) throws(SQLFailure) {
        func write(_ place: Int) throws(SQLFailure) {
            for statement in plan([changes[place]]) {
                refused[place] = try writeAlone(statement, of: changes[place], touched)
            }
        }
        for place in places { try write(place) }
        func left() -> [Int] {
            places.filter { refused[$0] == .referenced && changes[$0].verdict == .delete }
        }
        var waiting = left()
        while !waiting.isEmpty {
            for place in waiting.reversed() {
                // It could not be tried before.
                refused[place] = try trial.refusals(of: [changes[place]], besides: [:])[0]
                if refused[place] == nil { try write(place) }
            }
            let rest = left()
            if rest.count == waiting.count { return }
            waiting = rest
        }
    }

    /// What writes down which rows are written; nil where nothing needs to.
    private func watch(_ changes: [RowChange]) throws(SQLFailure) -> TouchedRows? {
        guard lookup.dialect.engine == .sqlite, changes.contains(where: { $0.verdict != .delete })
        else { return nil }
        return try TouchedRows(
            lookup, "UPDATE", of: Catalog(connection: connection).triggers(of: layout.table))
    }

    /// Runs the statements of a chunk, and reads all of its rows again where that is needed.
    private func writeTogether(
        _ plan: [ChangeStatements.Statement], of open: [RowChange], _ touched: TouchedRows?
    ) throws(SQLFailure) {
        guard !plan.isEmpty else { return }
        for statement in plan { try write(statement) }
        let triggers = try Catalog(connection: connection).triggers(of: layout.table)
        var moved: [ExactText] = []
        var reread = 0
        for statement in plan where try mustReread(statement, triggers) {
            switch try effect(of: statement) {
            case .meant: reread += statement.changes.count
            case .moving(let names): moved += names
            // A trigger may have restored the old value.
            case .none:
                isolation.isolate()
                throw missed(1, of: statement.changes.count)
            }
        }
        if let touched {
            let own = Set(open.map { lookup.name(of: $0.row) })
            let hasOthers = try touched.hasOthers(than: own, from: .role)
            if hasOthers || !moved.isEmpty {
                // By itself each row shows what its own statement does.
                isolation.isolate()
                throw missed(max(1, moved.count), of: open.count)
            }
        }
        if reread > 0 { try note(moved: [], sound: reread) }
        guard !moved.isEmpty else { return }
        try note(moved: moved, sound: open.count - moved.count)
        throw missed(moved.count, of: open.count)
    }

    /// Records rows whose registration moved with their change, or whose change wrote other rows.
    ///
    /// - Throws: `configuration` where that is so with every row of the run.
    private func note(
        moved: [ExactText], as refusal: RowRefusal = .moved, sound: Int
    ) throws(SQLFailure) {
        guard isolation.noteReread(spoiled: moved, as: refusal, sound: sound) else { return }
        let triggers = try Catalog(connection: connection).triggers(of: layout.table)
        let names = Set(triggers.filter { $0.event == "UPDATE" }.map(\.name)).sorted()
        let cause = names.isEmpty ? "" : " (trigger \(names.joined(separator: ", ")))"
        let cure = "nothing of this chunk was changed; let the trigger do nothing for this program"
        throw SQLFailure(
            kind: .configuration, code: 0,
            message: refusal == .others
                ? "marking a row of \(layout.table), or taking a mark back, removes other rows or changes "
                    + "their marks or registrations\(cause); \(cure)"
                : "changing a row of \(layout.table) moves its \(layout.registration?.name ?? "") too"
                    + "\(cause), so every mark would be void; \(cure) (docs/registrations.md), or name "
                    + "another column under registered-at", longest: 480)
    }

    /// Runs a statement that changes many rows.
    private func write(_ statement: ChangeStatements.Statement) throws(SQLFailure) {
        let found: Int
        do {
            found = try isolation.watching { () throws(SQLFailure) in
                try execute(statement)
            }
        } catch {
            isolation.note(error, isAboutRow: true)
            throw error
        }
        guard found != statement.changes.count else { return }
        isolation.noteMiss()
        throw missed(statement.changes.count - found, of: statement.changes.count)
    }

    /// Runs the statement of one row after a savepoint, and rolls back to it where the row is
    /// refused. A trigger of SQLite may fail a statement without undoing its effects (RAISE(FAIL)).
    private func writeAlone(
        _ statement: ChangeStatements.Statement, of change: RowChange, _ touched: TouchedRows?
    ) throws(SQLFailure) -> RowRefusal? {
        let refusal: RowRefusal
        try connection.run("SAVEPOINT pushsweep_row")
        do throws(SQLFailure) {
            try touched?.forget()
            let found = try execute(statement)
            let own = lookup.name(of: change.row)
            if try touched?.hasOthers(than: [own], from: .role) == true {
                try note(moved: [own], as: .others, sound: 0)
                return try takeBack(.others)
            }
            let triggers = try Catalog(connection: connection).triggers(of: layout.table)
            let isCounted = found == 1 ? try !mustReread(statement, triggers) : false
            let effect = isCounted ? .meant : try effect(of: statement)
            if case .meant = effect, !connection.hasBrokenKeys {
                if !isCounted { try note(moved: [], sound: 1) }
                try connection.run("RELEASE SAVEPOINT pushsweep_row")
                return nil
            }
            switch effect {
            case .meant: refusal = .referenced
            case .moving(let names):
                try note(moved: names, sound: 0)
                refusal = .moved
            case .none:
                let isOther = found == 0 ? try hasChanged(change) : false
                if isOther { throw missed(1, of: 1) }
                refusal = found == 0 ? .unmatched : .trigger
            }
        } catch {
            // The whole table moves its registrations.
            if error.kind == .configuration && error.code == 0 { throw error }
            let isSignal = isolation.isSignal(error)
            guard isSignal || error.mayBeAboutRow else { throw error }
            let reason = isSignal ? .trigger : RowRefusal(error) ?? .failure
            guard connection.isInTransaction else {
                isolation.remember(reason, of: lookup.name(of: change.row))
                throw error
            }
            if reason == .failure { try probe(statement, for: error) }
            refusal = reason
        }
        return try takeBack(refusal)
    }

    /// Takes back what happened since the savepoint of a row.
    private func takeBack(_ refusal: RowRefusal) throws(SQLFailure) -> RowRefusal {
        try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
        try connection.run("RELEASE SAVEPOINT pushsweep_row")
        return refusal
    }

    /// Whether the rows of a statement, which has run, have to be read again: it may have run triggers, or
    /// the registration is computed. `triggers` are those of the table, read after it, since one may have been
    /// made after the examination: now that the transaction has changed the table, none comes or goes until
    /// its end.
    ///
    /// - Throws: `configuration` where removed rows have run one, whose effects no undo takes back.
    private func mustReread(
        _ statement: ChangeStatements.Statement, _ triggers: [TableReach.Trigger]
    ) throws(SQLFailure) -> Bool {
        if case .removed = statement.effect {
            let new = triggers.first {
                $0.event == "DELETE" && !layout.knownTriggers.contains($0.name)
            }
            guard let trigger = new else { return false }
            throw SQLFailure(
                kind: .configuration, code: 0,
                message:
                    "removing a row of \(layout.table) runs the trigger \(trigger.name), made since "
                    + "the run began; nothing of this chunk was removed, drop it or set policy.action to mark"
            )
        }
        return layout.mayHaveUpdateTriggers || layout.registrationIsComputed
            || triggers.contains { $0.event == "UPDATE" }
    }

    private func execute(_ statement: ChangeStatements.Statement) throws(SQLFailure) -> Int {
        statement.isJoin
            ? try connection.executeJoin(statement.sql, statement.values)
            : try connection.execute(statement.sql, statement.values)
    }

    private func missed(_ count: Int, of total: Int) -> SQLFailure {
        SQLFailure(
            kind: .conflict, code: 0,
            message: "\(count) of \(total) rows of \(layout.table) changed after they were judged")
    }

    /// Rethrows a failure that is not about one row: a table, a right or a disk that accepts no
    /// change.
    private func probe(
        _ statement: ChangeStatements.Statement, for failure: SQLFailure
    ) throws(SQLFailure) {
        do throws(SQLFailure) {
            _ = try connection.execute(statements.probe(statement), [])
        } catch {
            throw failure
        }
    }

    /// Whether a changed row's values differ now from those it was judged by. The search is by
    /// token, because another row may have a key that reads the same.
    private func hasChanged(
        _ change: RowChange
    ) throws(SQLFailure) -> Bool {
        let reread = statements.searchingRows(of: change)
        let rows = try connection.query(reread.sql, reread.values)
        return !(0..<rows.count).contains { rows.row($0).elementsEqual(change.row.values) }
    }

    /// What the rows of a statement hold after it.
    private enum Effect {
        /// The state that it was to leave.
        case meant
        /// That state, and these rows another registration than the one by which they were judged.
        case moving([ExactText])
        /// Another state.
        case none
    }

    /// Reads the rows of a statement again, which may not have counted them.
    private func effect(
        of statement: ChangeStatements.Statement
    ) throws(SQLFailure) -> Effect {
        if case .removed = statement.effect {
            return try isThere(anyOf: statement.changes) ? .none : .meant
        }
        let reread = statements.rereading(statement)
        let rows = try connection.query(reread.sql, reread.values)
        guard rows.count == statement.changes.count else { return .none }
        let marks = (0..<rows.count).map { rows[$0, 0] }
        if case .holding(let value) = statement.effect {
            guard marks.allSatisfy({ $0.asImaged == value.asImaged }) else { return .none }
        } else {
            let times = Set(statement.changes.map(\.time))
            guard marks.allSatisfy({ layout.mark?.mark($0).map(times.contains) ?? false }) else {
                return .none
            }
        }
        guard let place = lookup.registration else { return .meant }
        var registrations: [ExactText: SQLValue] = [:]
        for row in 0..<rows.count {
            registrations[RowImage.key(Array(rows.row(row).dropFirst(2)))] = rows[row, 1]
        }
        let moved = statement.changes.compactMap { change -> ExactText? in
            let name = lookup.name(of: change.row)
            return registrations[name] == change.row[place] ? nil : name
        }
        return moved.isEmpty ? .meant : .moving(moved)
    }

    /// Whether one of the rows still exists. The search is by token, because a row that its own key
    /// does not find would appear removed.
    private func isThere(
        anyOf changes: ArraySlice<RowChange>
    ) throws(SQLFailure) -> Bool {
        let names = Set(changes.map { lookup.name(of: $0.row) })
        let reread = statements.searchingTokens(of: changes)
        let rows = try connection.query(reread.sql, reread.values)
        return (0..<rows.count).contains { names.contains(RowImage.key(Array(rows.row($0)))) }
    }
}

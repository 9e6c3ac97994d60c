import Database
import Encodings
import TokenHygiene

// A statement that counts its rows rightly may still do something else: a trigger takes the change back or moves
// the registration. A table with a trigger of others that could is refused before anything is taken (see
// `ForeignTriggers`). One may be made since, be hidden from the account, or have our name; and a registration may be
// computed from the mark. So behind the last statement of a chunk the triggers are read again, and where one may
// have run, the rows as well: now that the transaction has changed the table, no trigger comes or goes until its
// end. Where a row is otherwise than it was meant to be, nothing of the chunk stays, and the run ends with 78.

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
        guard isolation.isOn else {
            let plan = plan(open)
            for statement in plan { try write(statement) }
            try ensureMeant(plan)
            return refused
        }
        let places = changes.indices.filter { refused[$0] == nil }
        try writeOneByOne(changes, at: places, &refused, plan)
        try ensureMeant(plan(places.filter { refused[$0] == nil }.map { changes[$0] }))
        return refused
    }

    /// Makes changes one by one. A row to which another one refers may go after that one.
    private func writeOneByOne(
        _ changes: [RowChange], at places: [Int], _ refused: inout [Int: RowRefusal],
        _ plan: ([RowChange]) -> [ChangeStatements.Statement]
    ) throws(SQLFailure) {
        func write(_ place: Int) throws(SQLFailure) {
            for statement in plan([changes[place]]) {
                refused[place] = try writeAlone(statement, of: changes[place])
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
        if statements.isUnlocked { isolation.noteStale() } else { isolation.noteMiss() }
        throw missed(statement.changes.count - found, of: statement.changes.count)
    }

    /// Runs the statement of one row after a savepoint, and rolls back to it where the row is refused.
    private func writeAlone(
        _ statement: ChangeStatements.Statement, of change: RowChange
    ) throws(SQLFailure) -> RowRefusal? {
        let refusal: RowRefusal
        try connection.run("SAVEPOINT pushsweep_row")
        do throws(SQLFailure) {
            if try execute(statement) == 1 {
                if !connection.hasBrokenKeys {
                    try connection.run("RELEASE SAVEPOINT pushsweep_row")
                    return nil
                }
                refusal = .referenced
            } else {
                if try hasChanged(change) { throw missed(1, of: 1) }
                refusal = .unmatched
            }
        } catch {
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
        try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
        try connection.run("RELEASE SAVEPOINT pushsweep_row")
        return refusal
    }

    /// Requires that statements, which have run, left their rows as they were meant to be, and ran no trigger of
    /// others that can do more.
    ///
    /// - Throws: `configuration` where they did.
    private func ensureMeant(_ plan: [ChangeStatements.Statement]) throws(SQLFailure) {
        guard !plan.isEmpty else { return }
        let triggers = try Catalog(connection: connection).triggers(of: layout.table)
        for statement in plan {
            let harmful = triggers.first {
                statement.isRemoval
                    ? $0.event == "DELETE" && !layout.knownTriggers.contains($0.name)
                    : $0.event == "UPDATE" && $0.mayWriteTable && !layout.owns($0)
            }
            if let harmful { throw made(harmful) }
            let mayBeOther =
                layout.hidesUpdateTriggers || layout.registrationIsComputed
                || triggers.contains { $0.event == "UPDATE" && $0.mayWriteTable }
            if mayBeOther, !statement.isRemoval, try !isMeant(statement) {
                throw SQLFailure(
                    kind: .configuration, code: 0,
                    message:
                        "changing a row of \(layout.table) takes the change back, or moves its "
                        + "\(layout.registration?.name ?? "registration") too, by a trigger or because it is "
                        + "computed, so the mark would be void; nothing of this chunk was changed; name "
                        + "another column under registered-at, or keep marks in pushsweep_invalid "
                        + "(invalidated-at: none, and no living)", longest: 480)
            }
        }
    }

    private func made(_ trigger: TableReach.Trigger) -> SQLFailure {
        SQLFailure(
            kind: .configuration, code: 0,
            message:
                "changing a row of \(layout.table) runs the trigger \(trigger.name), made since the run "
                + "began; nothing of this chunk was changed; `pushsweep check` says what helps",
            longest: 480)
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

    /// Whether the rows of a statement hold what it wrote, and the registrations by which they were judged.
    private func isMeant(_ statement: ChangeStatements.Statement) throws(SQLFailure) -> Bool {
        let reread = statements.rereading(statement)
        let rows = try connection.query(reread.sql, reread.values)
        guard rows.count == statement.changes.count else { return false }
        let marks = (0..<rows.count).map { rows[$0, 0] }
        if case .holding(let value) = statement.effect {
            guard marks.allSatisfy({ $0.asImaged == value.asImaged }) else { return false }
        } else {
            let times = Set(statement.changes.map(\.time))
            guard marks.allSatisfy({ layout.mark?.mark($0).map(times.contains) ?? false }) else {
                return false
            }
        }
        guard let place = lookup.registration else { return true }
        var registrations: [ExactText: SQLValue] = [:]
        for row in 0..<rows.count {
            registrations[RowImage.key(Array(rows.row(row).dropFirst(2)))] = rows[row, 1]
        }
        return statement.changes.allSatisfy {
            registrations[lookup.name(of: $0.row)] == $0.row[place]
        }
    }
}

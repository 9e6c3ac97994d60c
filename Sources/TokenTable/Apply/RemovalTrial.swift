import Database
import Encodings
import TokenHygiene

// A removed row has to come back as it was, and only the table itself knows whether it does: a trigger for
// INSERT may change a value, and a type may read otherwise than it is written. So before rows are removed, they
// are removed and inserted again from their images, compared, and rolled back:
//
//   savepoint -> remove -> insert from the image -> read and compare -> roll back to the savepoint
//
// Where nothing tells one row from another, one row of a run shows it. Each row is tried where the table has a
// trigger for INSERT, which may change some rows only, or a rule that a row may break already: a foreign key
// that was not checked when the row was written, a CHECK. What a trigger writes into tables without transactions
// stays, as after any rollback.

/// Tries whether rows that are to be removed would come back. Confined to the store's thread.
final class RemovalTrial {
    private let lookup: RowLookup
    private let isolation: RowIsolation
    private let statements: ChangeStatements
    /// Whether a row came back since the table had no trigger that an INSERT runs.
    private var isTried = false

    private var connection: any SQLConnection { lookup.connection }
    private var insertion: RowInsertion { RowInsertion(lookup: lookup, isolation: isolation) }

    /// Prepares the trials of one run.
    init(_ statements: ChangeStatements, _ isolation: RowIsolation) {
        lookup = statements.lookup
        self.isolation = isolation
        self.statements = statements
    }

    /// Tries removals, and returns why some would not come back as they are, by their place. Rows that are
    /// refused already are left out.
    ///
    /// - Throws: a conflict where rows do not come back and the chunk has to be tried again without them;
    ///   `configuration` where that is so with every row of the run.
    func refusals(
        of changes: [RowChange], besides refused: [Int: RowRefusal]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var places = changes.indices.filter {
            changes[$0].verdict == .delete && refused[$0] == nil
        }
        guard !places.isEmpty else { return [:] }
        let triggers = try insertTriggers()
        let triesEach = !triggers.isEmpty || lookup.layout.rowsMayBreakRules
        let comparing = !triggers.isEmpty || !isTried
        if !triggers.isEmpty {
            isTried = false
        } else if isTried && !triesEach {
            return [:]
        } else if !isolation.isOn && !triesEach {
            places = [places[0]]
        }
        if isolation.isOn {
            return try alone(changes, places, triggers, untilOneIsBack: !triesEach)
        }
        try together(places.map { changes[$0] }, triggers, comparing: comparing)
        isTried = triggers.isEmpty
        return [:]
    }

    /// The triggers of others that an INSERT runs. In SQLite there are none: the insert refuses them.
    private func insertTriggers() throws(SQLFailure) -> [String] {
        try insertion.ensureNoOthersWrite()
        return try Catalog(connection: connection).triggers(of: lookup.layout.table).filter {
            $0.event == "INSERT" && !lookup.layout.owns($0)
        }.map(\.name)
    }

    private func together(
        _ changes: [RowChange], _ triggers: [String], comparing: Bool
    ) throws(SQLFailure) {
        try connection.run("SAVEPOINT pushsweep_trial")
        var removed: [RowChange] = []
        for statement in statements.statements(for: changes) {
            removed += statement.changes
            do {
                let found = try isolation.watching { () throws(SQLFailure) in
                    try remove(statement)
                }
                if found == statement.changes.count { continue }
            } catch {
                isolation.note(error, isAboutRow: true)
                throw error
            }
            isolation.noteMiss()
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "rows of \(lookup.layout.table) changed after they were judged")
        }
        let differing = try insertion.insertBack(removed.map(image), comparing: comparing)
        try connection.run("ROLLBACK TO SAVEPOINT pushsweep_trial")
        try connection.run("RELEASE SAVEPOINT pushsweep_trial")
        if !differing.isEmpty, lookup.dialect.engine == .sqlite {
            // By itself a row may come back there, without the registration that a trigger gave it.
            isolation.isolate()
            throw RowInsertion.difference
        }
        let names = differing.map { lookup.name(of: removed[$0].row) }
        try note(names, sound: changes.count - names.count, triggers)
        if !names.isEmpty { throw RowInsertion.difference }
    }

    /// Tries rows one by one, all of them or until one comes back.
    private func alone(
        _ changes: [RowChange], _ places: [Int], _ triggers: [String], untilOneIsBack: Bool
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var refused: [Int: RowRefusal] = [:]
        for place in places {
            switch try trial(of: changes[place]) {
            case .stays: continue
            case .comesBack:
                try note([], sound: 1, triggers)
                isTried = triggers.isEmpty
            case .isRefused(let refusal):
                refused[place] = .altered
                // A rule that the row broke before is no fault of the table.
                if [.dangling, .check].contains(refusal) { continue }
                try note([lookup.name(of: changes[place].row)], sound: 0, triggers)
            }
            if untilOneIsBack && isTried { break }
        }
        return refused
    }

    /// What becomes of one row that is removed and inserted again.
    private enum Outcome {
        /// It cannot even be removed.
        case stays
        case comesBack
        case isRefused(RowRefusal)
    }

    private func trial(of change: RowChange) throws(SQLFailure) -> Outcome {
        try connection.run("SAVEPOINT pushsweep_trial")
        var outcome = Outcome.stays
        do throws(SQLFailure) {
            var isRemoved = true
            for statement in statements.statements(for: [change]) {
                if try remove(statement) != 1 { isRemoved = false }
            }
            if isRemoved {
                outcome =
                    try insertion.insertAlone(image(change)).map(Outcome.isRefused)
                    ?? .comesBack
            }
        } catch {
            // The removal itself meets the same failure, and judges it.
            guard connection.isInTransaction, RowRefusal(error) != nil || error.mayBeAboutRow else {
                throw error
            }
        }
        try connection.run("ROLLBACK TO SAVEPOINT pushsweep_trial")
        try connection.run("RELEASE SAVEPOINT pushsweep_trial")
        return outcome
    }

    private func remove(_ statement: ChangeStatements.Statement) throws(SQLFailure) -> Int {
        statement.isJoin
            ? try connection.executeJoin(statement.sql, statement.values)
            : try connection.execute(statement.sql, statement.values)
    }

    /// The row as an undo reads it from the ledger.
    private func image(_ change: RowChange) -> RowContent {
        RowImageReader.content(RowImage.object(lookup.imaged, change.row.values))
            ?? RowContent(lookup.imaged, change.row.values)
    }

    /// Records which rows would come back.
    ///
    /// - Throws: `configuration` where none of the run would.
    private func note(
        _ names: [ExactText], sound: Int, _ triggers: [String]
    ) throws(SQLFailure) {
        guard isolation.noteReread(spoiled: names, as: .altered, sound: sound) else { return }
        throw SQLFailure(
            kind: .configuration, code: 0,
            message:
                "a removed row of \(lookup.layout.table) would not come back as it was: inserted again on "
                + "trial, every row differs"
                + (triggers.isEmpty
                    ? "" : " (trigger \(Set(triggers).sorted().joined(separator: ", ")))")
                + "; nothing of this chunk was removed; let the trigger do nothing for this program, or set "
                + "policy.action to mark", longest: 480)
    }
}

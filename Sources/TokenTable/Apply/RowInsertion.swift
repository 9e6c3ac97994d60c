import Database
import Encodings

// A removed row is restored exactly as in its image, or not at all. The insert is strict, so that
// values are not shortened silently. The inserted rows are read again, because a trigger may have
// written other values. A strict insert may refuse a value that the table held (the error value of
// an ENUM). Such a row is inserted once more without strictness, and stays if it reads back the
// same. A row that differs is removed again and counts as refused. Generated columns are not inserted,
// but compared: the table as it is now may compute another value than the image has.

/// Inserts removed rows again, as in their images.
struct RowInsertion {
    /// Reads whole rows, to compare them with the images.
    let lookup: RowLookup
    let isolation: RowIsolation

    private var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }
    private var dialect: SQLDialect { lookup.dialect }

    /// The most bytes of values in one statement, far below the 1 MiB that every server accepts.
    private static let mostBytes = 256 * 1_024
    /// Row counts of the statements; a batch is split into these lengths.
    private static let lengths = [100, 10, 1]
    /// The most values in one statement; every server accepts them.
    private static let mostValues = 30_000

    /// Inserts rows and returns why the table did not accept some of them unchanged, by their place.
    ///
    /// - Throws: any failure except that of a row that does not fit; that too while the chunk is
    ///   not yet processed row by row.
    func insert(
        _ rows: [RowContent]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var refused: [Int: RowRefusal] = [:]
        let known = Set((layout.columns + layout.generated).map(ExactText.init))
        var alike: [[ExactText]: [Int]] = [:]
        for (index, row) in rows.enumerated() {
            guard row.columns.allSatisfy({ known.contains(ExactText($0)) }),
                let name = name(of: row)
            else {
                refused[index] = .value
                continue
            }
            if let refusal = isolation.refusal(of: name) {
                refused[index] = refusal
                continue
            }
            alike[row.columns.map(ExactText.init), default: []].append(index)
        }
        for (_, indexes) in alike.sorted(by: { $0.value[0] < $1.value[0] }) {
            if isolation.isOn {
                for index in indexes { refused[index] = try insertAlone(rows[index]) }
            } else {
                for batch in batches(indexes, rows) {
                    try insertTogether(batch.map { rows[$0] })
                }
            }
        }
        return refused
    }

    /// Inserts rows with one statement. Any refusal requests another try row by row.
    private func insertTogether(
        _ rows: [RowContent]
    ) throws(SQLFailure) {
        do {
            try isolation.watching { () throws(SQLFailure) in
                try execute(rows)
            }
        } catch {
            isolation.note(error)
            throw error
        }
        if try !differing(rows).isEmpty {
            isolation.isolate()
            throw Self.difference
        }
    }

    /// Thrown for a chunk that has to be processed again.
    static let difference = SQLFailure(
        kind: .conflict, code: 0, message: "an inserted row differs from its image")

    /// Inserts rows that were just removed, and returns the places of those that are not as they were.
    /// All of them have the same columns.
    func insertBack(_ rows: [RowContent]) throws(SQLFailure) -> [Int] {
        var differing: [Int] = []
        for batch in batches(Array(rows.indices), rows) {
            let some = batch.map { rows[$0] }
            do {
                try isolation.watching { () throws(SQLFailure) in try execute(some) }
            } catch {
                isolation.note(error, isAboutRow: true)
                throw error
            }
            differing += try self.differing(some).map { batch[$0] }
        }
        return differing
    }

    /// Inserts one row behind a savepoint. Returns why the table does not accept it unchanged; then it is not
    /// in the table.
    func insertAlone(
        _ row: RowContent
    ) throws(SQLFailure) -> RowRefusal? {
        try connection.run("SAVEPOINT pushsweep_row")
        var refusal = try refusal(of: row)
        if refusal == .value, dialect.engine == .mariaDB {
            try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
            try connection.run("SET SESSION sql_mode = '\(MariaDBConnection.lenientMode)'")
            // Restores strictness for later statements, whatever the outcome.
            defer {
                try? connection.run("SET SESSION sql_mode = '\(MariaDBConnection.strictMode)'")
            }
            refusal = try self.refusal(of: row)
        }
        if refusal != nil { try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row") }
        try connection.run("RELEASE SAVEPOINT pushsweep_row")
        return refusal
    }

    /// The reason why the table does not accept a row unchanged; nil where it did.
    private func refusal(
        of row: RowContent
    ) throws(SQLFailure) -> RowRefusal? {
        do throws(SQLFailure) {
            try execute([row])
            if connection.hasBrokenKeys { return .dangling }
            if try differing([row]).isEmpty { return nil }
            try removeRegistration(of: row)
            return try differing([row]).isEmpty ? nil : .altered
        } catch {
            if isolation.isSignal(error) { return .trigger }
            guard let refusal = RowRefusal(error) else { throw error }
            guard connection.isInTransaction else {
                if let name = name(of: row) { isolation.remember(refusal, of: name) }
                throw error
            }
            return refusal
        }
    }

    private func execute(
        _ rows: [RowContent]
    ) throws(SQLFailure) {
        let generated = Set(layout.generated.map(ExactText.init))
        let columns = rows[0].columns.filter { !generated.contains(ExactText($0)) }
        let row = "(\(placeholders(columns.count)))"
        let names = columns.map(dialect.quoted).joined(separator: ", ")
        _ = try connection.execute(
            "INSERT INTO \(layout.table.sql(dialect)) (\(names)) VALUES "
                + repeatElement(row, count: rows.count).joined(separator: ", "),
            rows.flatMap { row in columns.map { row[$0] ?? .null } })
    }

    /// Takes the time from a row that had none. In SQLite the trigger that writes a registration cannot
    /// tell an undo from the application.
    private func removeRegistration(of row: RowContent) throws(SQLFailure) {
        guard dialect.engine == .sqlite, let registration = layout.registration,
            let value = row[registration.name], registration.registration(value) == nil,
            let key = key(row)
        else { return }
        let condition = layout.key.map { "\(dialect.quoted($0.name)) IS ?" }
        _ = try connection.execute(
            "UPDATE \(layout.table.sql(dialect)) SET \(dialect.quoted(registration.name)) = ? WHERE "
                + condition.joined(separator: " AND "), [value] + key)
    }

    /// The places of those rows that the table has otherwise than their images.
    private func differing(
        _ rows: [RowContent]
    ) throws(SQLFailure) -> [Int] {
        // They are this transaction's own, so nobody else can change them.
        let found = try lookup.rows(keys: rows.compactMap(key), locking: false).rows
        return rows.indices.filter { index in
            guard let name = name(of: rows[index]), let values = found[name] else { return true }
            return !RowContent(lookup.columns, values).agrees(with: rows[index])
        }
    }

    private func key(_ row: RowContent) -> [SQLValue]? {
        let values = layout.key.compactMap { row[$0.name] }
        return values.count == layout.key.count ? values : nil
    }

    private func name(of row: RowContent) -> ExactText? { key(row).map(RowImage.key) }

    private func batches(_ indexes: [Int], _ rows: [RowContent]) -> [[Int]] {
        let width = indexes.first.map { rows[$0].columns.count } ?? 1
        let most = dialect.changesRowsInBatches ? max(1, Self.mostValues / max(width, 1)) : 1
        let lengths = Self.lengths.filter { $0 <= most }
        var batches: [[Int]] = []
        var rest = indexes[...]
        while !rest.isEmpty {
            var bytes = 0
            let fitting = rest.prefix { index in
                bytes += rows[index].bytes
                return bytes <= Self.mostBytes
            }
            let length = lengths.first { $0 <= fitting.count } ?? 1
            batches.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        return batches
    }
}

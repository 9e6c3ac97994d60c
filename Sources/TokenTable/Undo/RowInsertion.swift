import Database

// A removed row comes back as its image has it, or not at all. The insert is strict, so that no value is
// shortened in silence; the inserted rows are read again, since a trigger may have written something
// else. A value that a strict insert refuses although the table held it (the error value of an ENUM) is
// inserted once more without strictness, and stays if it reads back the same. Whatever then differs is
// taken out again, and the row counts as refused.

/// Inserts removed rows again, as their images have them.
struct RowInsertion {
    /// Reads whole rows, to compare what was inserted.
    let lookup: RowLookup
    let isolation: RowIsolation

    private var layout: TableLayout { lookup.layout }
    private var dialect: SQLDialect { lookup.dialect }

    /// Bytes of values in one statement, far below the 1 MiB that every server takes.
    private static let mostBytes = 256 * 1_024
    /// Lengths of the statements; a number of rows is paid out in these coins.
    private static let lengths = [100, 10, 1]
    /// Values that one statement takes on every server.
    private static let mostValues = 30_000

    /// Inserts rows, and gives back those that the table did not take as they are, by their place.
    ///
    /// - Throws: any failure but that of a row that does not fit; that too where the chunk is not yet done
    ///   row by row.
    func insert(
        _ rows: [RowContent], _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Int: UndoObstacle] {
        var refused: [Int: UndoObstacle] = [:]
        let known = Set(layout.columns)
        var alike: [[String]: [Int]] = [:]
        for (index, row) in rows.enumerated() {
            guard row.columns.allSatisfy(known.contains), let name = name(of: row) else {
                refused[index] = .refused
                continue
            }
            if let refusal = isolation.refusal(of: name) {
                refused[index] = UndoObstacle(refusal)
                continue
            }
            alike[row.columns, default: []].append(index)
        }
        for (_, indexes) in alike.sorted(by: { $0.value[0] < $1.value[0] }) {
            if isolation.isOn {
                for index in indexes { refused[index] = try insertAlone(rows[index], connection) }
            } else {
                for batch in batches(indexes, rows) {
                    try insertTogether(batch.map { rows[$0] }, connection)
                }
            }
        }
        return refused
    }

    /// One statement. Whatever is wrong with it asks for another try row by row.
    private func insertTogether(
        _ rows: [RowContent], _ connection: any SQLConnection
    ) throws(SQLFailure) {
        do {
            try isolation.watching(connection) { () throws(SQLFailure) in
                try execute(rows, connection)
            }
        } catch {
            isolation.note(error)
            throw error
        }
        if try differs(rows, connection) {
            isolation.isolate()
            throw SQLFailure(
                kind: .conflict, code: 0, message: "an inserted row differs from its image")
        }
    }

    private func insertAlone(
        _ row: RowContent, _ connection: any SQLConnection
    ) throws(SQLFailure) -> UndoObstacle? {
        try connection.run("SAVEPOINT pushsweep_row")
        var refusal = try refusal(of: row, connection)
        if refusal == .value, dialect.engine == .mariaDB {
            try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
            try connection.run("SET SESSION sql_mode = '\(MariaDBConnection.lenientMode)'")
            // However it ends, what follows is strict again.
            defer {
                try? connection.run("SET SESSION sql_mode = '\(MariaDBConnection.strictMode)'")
            }
            refusal = try self.refusal(of: row, connection)
        }
        if refusal != nil { try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row") }
        try connection.run("RELEASE SAVEPOINT pushsweep_row")
        return refusal.map(UndoObstacle.init)
    }

    /// Why the table does not take a row as it is; nil where it did.
    private func refusal(
        of row: RowContent, _ connection: any SQLConnection
    ) throws(SQLFailure) -> RowRefusal? {
        do throws(SQLFailure) {
            try execute([row], connection)
            if connection.hasBrokenKeys { return .dangling }
            return try differs([row], connection) ? .inexact : nil
        } catch {
            if isolation.isSignal(error, connection) { return .trigger }
            guard let refusal = RowRefusal(error) else { throw error }
            guard connection.isInTransaction else {
                if let name = name(of: row) { isolation.remember(refusal, of: name) }
                throw error
            }
            return refusal
        }
    }

    private func execute(
        _ rows: [RowContent], _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let columns = rows[0].columns
        let row = "(\(placeholders(columns.count)))"
        let names = columns.map(dialect.quoted).joined(separator: ", ")
        _ = try connection.execute(
            "INSERT INTO \(layout.table.sql(dialect)) (\(names)) VALUES "
                + repeatElement(row, count: rows.count).joined(separator: ", "),
            rows.flatMap(\.values))
    }

    /// Whether one of the rows does not stand in the table as it was inserted.
    private func differs(
        _ rows: [RowContent], _ connection: any SQLConnection
    ) throws(SQLFailure) -> Bool {
        let found = try lookup.rows(keys: rows.compactMap(key), connection, locking: true).rows
        return rows.contains { row in
            guard let name = name(of: row), let values = found[name] else { return true }
            return !RowContent(lookup.columns, values).agrees(with: row)
        }
    }

    private func key(_ row: RowContent) -> [SQLValue]? {
        let values = layout.key.compactMap { row[$0.name] }
        return values.count == layout.key.count ? values : nil
    }

    private func name(of row: RowContent) -> String? { key(row).map(RowImage.key) }

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

extension UndoObstacle {
    /// What keeps a row from coming back.
    init(_ refusal: RowRefusal) { self = refusal == .taken ? .taken : .refused }
}

/// Inserts removed rows again, as their images have them.
struct RowInsertion {
    let layout: TableLayout
    let dialect: SQLDialect

    /// Bytes of values in one statement, far below the 1 MiB that every server takes.
    private static let mostBytes = 256 * 1_024
    /// Lengths of the statements; a number of rows is paid out in these coins.
    private static let lengths = [100, 10, 1]
    /// Values that one statement takes on every server.
    private static let mostValues = 30_000

    /// Inserts rows, and gives back those that the table did not take, by their place.
    ///
    /// - Throws: any failure but that of a row that does not fit.
    func insert(
        _ rows: [RowContent], _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Int: UndoObstacle] {
        var refused: [Int: UndoObstacle] = [:]
        let known = Set(layout.columns)
        var alike: [[String]: [Int]] = [:]
        for (index, row) in rows.enumerated() {
            guard row.columns.allSatisfy(known.contains) else {
                refused[index] = .refused
                continue
            }
            alike[row.columns, default: []].append(index)
        }
        for (columns, indexes) in alike.sorted(by: { $0.value[0] < $1.value[0] }) {
            for batch in batches(indexes, rows, width: columns.count) {
                try insert(batch, of: rows, columns, connection, &refused)
            }
        }
        return refused
    }

    /// One statement; where the table refuses it, one for each row.
    private func insert(
        _ batch: [Int], of rows: [RowContent], _ columns: [String],
        _ connection: any SQLConnection, _ refused: inout [Int: UndoObstacle]
    ) throws(SQLFailure) {
        let row = "(\(placeholders(columns.count)))"
        let names = columns.map(dialect.quoted).joined(separator: ", ")
        do {
            _ = try connection.execute(
                "INSERT INTO \(layout.table.sql(dialect)) (\(names)) VALUES "
                    + repeatElement(row, count: batch.count).joined(separator: ", "),
                batch.flatMap { rows[$0].values })
        } catch {
            guard let obstacle = error.rowObstacle else { throw error }
            if batch.count == 1 {
                refused[batch[0]] = obstacle
            } else {
                for index in batch { try insert([index], of: rows, columns, connection, &refused) }
            }
        }
    }

    private func batches(_ indexes: [Int], _ rows: [RowContent], width: Int) -> [[Int]] {
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

extension SQLFailure {
    /// What keeps one row from being inserted, where the failure is about that row alone.
    fileprivate var rowObstacle: UndoObstacle? {
        switch code {
        case 1_062: .taken
        // SQLITE_CONSTRAINT of any kind.
        case 19:
            message.contains("UNIQUE") || message.contains("PRIMARY KEY") ? .taken : .refused
        case 1_216, 1_452,  // foreign key
            3_819, 4_025,  // check
            1_048, 1_264, 1_292, 1_364, 1_366, 1_406,  // a value or its absence does not fit
            1_644:  // refused by a trigger
            .refused
        default: nil
        }
    }
}

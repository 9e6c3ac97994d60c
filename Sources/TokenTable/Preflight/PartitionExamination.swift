import Database
import TokenHygiene

// If no row has a partition's values, every signal about it becomes unknown without an error: the
// feed is read, and its evidence is lost. A word for a number column is detected without reading
// rows. A value with a different spelling is detected only in the rows.

extension TokenTable {
    /// Findings that forbid looking up the rows of some partitions.
    func partitionFindings(_ layout: TableLayout, _ partitions: [Partition]) -> [StoreFinding] {
        var findings: [StoreFinding] = []
        for partition in partitions {
            do {
                _ = try layout.partitionCondition(partition, connection.dialect)
            } catch {
                let finding = StoreFinding(error)
                if !findings.contains(finding) { findings.append(finding) }
            }
        }
        return findings
    }

    /// Warns about every app and environment that no row has. Each is checked by itself, because an
    /// app without sandbox rows is normal. Reads until the first row with the value, so it reads
    /// the whole table only where there is a warning.
    func absentValues(
        _ layout: TableLayout, _ partitions: [Partition]
    ) throws(StoreFailure) -> [StoreFinding] {
        var findings: [StoreFinding] = []
        if let app = layout.app {
            for word in Set(partitions.map(\.app)).sorted() {
                findings += try absence(of: word, in: app, "apps[].value", layout)
            }
        }
        if let environment = layout.environment {
            for word in Set(partitions.map(\.environment)).sorted() {
                findings += try absence(of: word, in: environment, "environment.values", layout)
            }
        }
        return findings
    }

    private func absence(
        of word: String, in column: PartitionColumn, _ setting: String,
        _ layout: TableLayout
    ) throws(StoreFailure) -> [StoreFinding] {
        let dialect = connection.dialect
        let name = dialect.quoted(column.name)
        let value = try column.value(for: word)
        var sql = "SELECT 1 FROM \(layout.table.sql(dialect)) WHERE \(name) = ?"
        var values = [value]
        // Rows are judged by equality of characters, whatever the collation is.
        if !column.isExact {
            switch dialect.engine {
            case .mariaDB: sql += " AND CONVERT(\(name) USING utf8mb4) COLLATE utf8mb4_bin = ?"
            case .sqlite: sql += " AND \(name) = ? COLLATE BINARY"
            }
            values.append(value)
        }
        let rows = try retries.retrying("looking for rows of \(layout.table) with `\(word)`") {
            () throws(SQLFailure) in
            try connection.query("\(sql) LIMIT 1", values)
        }
        guard rows.count == 0 else { return [] }
        return [
            StoreFinding(
                .warning,
                "\(layout.table): no row has `\(value.text ?? value.integer.map(String.init) ?? "")` in "
                    + "column \(column.name), so every token of `\(word)` will be unknown; compare "
                    + "\(setting) with the table")
        ]
    }
}

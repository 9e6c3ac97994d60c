import TokenHygiene

/// Runs the statements of a chunk and makes sure that each changed exactly the rows it was meant to.
struct ChangeWriter {
    let statements: ChangeStatements
    let layout: TableLayout

    /// Makes the changes.
    ///
    /// - Throws: a conflict where rows are not as they were when judged.
    func write(_ changes: [RowChange], _ connection: any SQLConnection) throws(SQLFailure) {
        for statement in statements.statements(for: changes) {
            let found = try connection.execute(statement.sql, statement.values)
            if found == statement.changes.count { continue }
            // Spider answers 0 for statements it hands on, so 0 says nothing: look.
            if found == 0, try isDone(statement, connection) { continue }
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "\(statement.changes.count - found) of \(statement.changes.count) rows of "
                    + "\(layout.table) changed after they were judged")
        }
    }

    private func isDone(
        _ statement: ChangeStatements.Statement, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Bool {
        let reread = statements.rereading(statement.changes)
        let rows = try connection.query(reread.sql, reread.values)
        if statement.changes.first?.verdict == .delete { return rows.count == 0 }
        let times = Set(statement.changes.map(\.time))
        return rows.count == statement.changes.count
            && (0..<rows.count).allSatisfy { row in
                layout.mark?.mark(rows[row, 0]).map(times.contains) ?? false
            }
    }
}

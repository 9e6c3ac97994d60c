import TokenHygiene

/// Runs the statements of a chunk and makes sure that each changed exactly the rows it was meant to.
struct ChangeWriter {
    let statements: ChangeStatements
    let layout: TableLayout

    /// Makes the changes.
    ///
    /// - Throws: a conflict where rows are not as they were when judged.
    func write(_ changes: [RowChange], _ connection: any SQLConnection) throws(SQLFailure) {
        try write(statements.statements(for: changes), connection)
    }

    /// Runs statements.
    ///
    /// - Throws: a conflict where rows are not as they were when judged.
    func write(
        _ statements: [ChangeStatements.Statement], _ connection: any SQLConnection
    ) throws(SQLFailure) {
        for statement in statements {
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
        let marks = (0..<rows.count).map { rows[$0, 0] }
        switch statement.effect {
        case .removed: return marks.isEmpty
        case .holding(let value):
            return marks.count == statement.changes.count
                && marks.allSatisfy { $0.asImaged == value.asImaged }
        case .marked:
            let times = Set(statement.changes.map(\.time))
            return marks.count == statement.changes.count
                && marks.allSatisfy { layout.mark?.mark($0).map(times.contains) ?? false }
        }
    }
}

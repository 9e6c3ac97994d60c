import Foundation

/// The statements that programs run on SQLite, in their general form, as `StatementLog` has them of a server; and those
/// of which SQLite's authorizer says that they write one table. It takes the library of sqlite-log.c.
package final class SQLiteStatementLog {
    /// Nil without a compiler.
    package static var library: String? { PreloadedLibrary.sqliteLog.path }

    private let folder: TemporaryFolder
    private let table: String

    private var file: String { folder.file("statements") }

    /// A log of what is run, and of what writes a table.
    package init(writing table: String) throws {
        folder = try TemporaryFolder()
        self.table = table
        _ = try folder.write("statements", "")
    }

    /// The variables of a program whose statements are logged.
    package var environment: [String: String] {
        [
            "LD_PRELOAD": Self.library ?? "", "SQLITE_LOG": file, "SQLITE_LOG_TABLE": table,
        ]
    }

    /// What was run, in the order of execution.
    package func run() throws -> [StatementLog.Entry] {
        var connections: [Substring: Int] = [:]
        return try lines("R").map { connection, statement in
            let thread = connections[connection, default: connections.count]
            connections[connection] = thread
            return StatementLog.Entry(thread: thread, form: StatementLog.form(of: statement))
        }
    }

    /// The forms of the statements that write the table, by SQLite's own account.
    package func writing() throws -> Set<String> {
        Set(try lines("W").map { StatementLog.form(of: $0.statement) })
    }

    private func lines(
        _ kind: Substring
    ) throws -> [(connection: Substring, statement: String)] {
        // Tokens stand in statements as they were bound, which may be no UTF-8.
        let content = FileManager.default.contents(atPath: file) ?? Data()
        return String(decoding: content, as: UTF8.self).split(separator: "\n").compactMap { line in
            let parts = line.split(separator: "\t", maxSplits: 2)
            return parts.count == 3 && parts[1] == kind ? (parts[0], String(parts[2])) : nil
        }
    }
}

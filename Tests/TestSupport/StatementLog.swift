import Database
import Foundation

/// The statements that a private server receives, by its general log, in their general form: values are
/// `?`, and lists of any length look the same.
package final class StatementLog {
    /// One statement as the server received it.
    package struct Entry: Hashable, Sendable {
        /// The connection.
        package let thread: Int
        /// The statement in its general form.
        package let form: String
    }

    private let server: PrivateServer
    private let control: any SQLConnection
    private let own: Int

    /// Where the databases of a test belong.
    package var address: MariaDBServer { server.server }

    /// Starts a server that logs into a table.
    package init() throws {
        server = try PrivateServer(["--log-output=TABLE"])
        control = try server.server.connection()
        own = try control.query("SELECT CONNECTION_ID()").scalar?.count ?? 0
    }

    /// The statements that a body makes other connections send, in the order of their execution.
    package func record(_ body: () throws -> Void) throws -> [Entry] {
        try control.run("TRUNCATE mysql.general_log")
        try control.run("SET GLOBAL general_log = 1")
        try body()
        try control.run("SET GLOBAL general_log = 0")
        let rows = try control.query(
            "SELECT thread_id, CAST(argument AS CHAR) FROM mysql.general_log WHERE "
                + "command_type IN ('Query', 'Execute') AND thread_id <> ?", [.integer(Int64(own))])
        return (0..<rows.count).map { row in
            Entry(
                thread: rows[row, 0].count ?? 0, form: Self.form(of: rows[row, 1].text ?? ""))
        }
    }

    /// The general form of a statement.
    package static func form(of statement: String) -> String {
        var text = statement
        for (pattern, replacement) in patterns {
            var before: String
            repeat {
                before = text
                text = pattern.stringByReplacingMatches(
                    in: text, range: NSRange(text.startIndex..., in: text),
                    withTemplate: replacement)
            } while text != before
        }
        return text
    }

    /// Parentheses, with what may stand in them.
    private static let group = #"\((?:[^()]|\([^()]*\))*\)"#

    private static let patterns: [(NSRegularExpression, String)] = [
        // Values: texts, bytes, times, and numbers and NULL where values stand.
        (#"(?:TIMESTAMP|[xX])?'(?:[^'\\]|''|\\.)*'"#, "?"),
        (
            #"(?<=[=<>,] |[=<>]|LIMIT |THEN |WHEN |AND |BETWEEN |IN \(|VALUES \(|, \(|\(\()-?\d+(?=[,) ]|$)"#,
            "?"
        ),
        (#"(?<=, |\()NULL(?=[,)])"#, "?"),
        // Lists.
        (#"\?(?:, (?:\?|\.\.\.))+"#, "?, ..."),
        (#"(\#(group))(?:, (?:\1|\.\.\.))+"#, "$1, ..."),
        (#"(\#(group))(?: OR (?:\1|\.\.\.))+"#, "$1 OR ..."),
        (#"(`\w+` BETWEEN \? AND \?)(?: OR (?:\1|\.\.\.))+"#, "$1 OR ..."),
    ].compactMap { pattern, replacement in
        // The test of forms would miss a pattern that cannot be read.
        (try? NSRegularExpression(pattern: pattern)).map { ($0, replacement) }
    }
}

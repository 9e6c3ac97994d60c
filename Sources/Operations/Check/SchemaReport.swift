import Database

/// The statements of `pushsweep schema`: one JSON object for scripts. Fields may be added, never
/// renamed.
package struct SchemaReport: PrintedLines, Codable, Hashable, Sendable {
    /// Whether the statements were executed.
    package let executed: Bool
    /// The statements in order, without closing semicolons.
    package let statements: [String]
    /// The exit code.
    package var exit: Int32 = 0

    /// Makes the report of a script.
    package init(_ script: SchemaScript, executed: Bool) {
        self.executed = executed
        statements = script.statements
    }

    /// The statements as text, which a database client can also read.
    package var lines: [String] {
        statements.isEmpty
            ? ["nothing is missing"]
            : SchemaScript(statements: statements).text.split(
                separator: "\n", omittingEmptySubsequences: false
            ).map(String.init)
    }
}

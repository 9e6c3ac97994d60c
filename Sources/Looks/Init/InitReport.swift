import Operations
import TokenTable

/// The first look at a database: one JSON object for scripts. Fields may be added, never renamed.
package struct InitReport: PrintedLines, Codable, Hashable, Sendable {
    /// A column with values like Apple's tokens.
    package struct Candidate: Codable, Hashable, Sendable {
        package let table: String
        package let column: String
        package let form: String
        package let count: Int
        package let filled: Int
        /// What speaks for the column and what against it; empty where a person named the column.
        package let reasons: [String]
        package let doubts: [String]

        /// A line of a list.
        var line: String {
            "  \(table).\(column): \(count) of \(filled) values read are \(form)"
                + (reasons.isEmpty ? "" : "; for it: \(reasons.joined(separator: ", "))")
                + (doubts.isEmpty ? "" : "; against it: \(doubts.joined(separator: ", "))")
        }
    }

    /// A part of the mapping with its reason, or a question without a value.
    package struct Part: Codable, Hashable, Sendable {
        package let part: String
        package let column: String?
        package let value: String?
        package let reason: String
        /// The option that answers a question, as words of a shell; nil for none.
        package let answer: String?
        /// The statement that has to run before `setting` is right, without its semicolon; nil for none.
        package let statement: String?
        /// The value as YAML that answers a question; nil for none.
        package let setting: String?
    }

    /// What the table has now.
    package struct Counts: Codable, Hashable, Sendable {
        package var rows = 0
        package var living = 0
        package var dead = 0
        /// Rows of other platforms, where a column tells them apart.
        package var otherPlatforms = 0
        package var malformed = 0
        package var empty = 0
        /// Rows beyond the first with the same token; nil where an index is missing to count them.
        package var duplicates: Int?
        /// Living rows by the age of their registration.
        package var registered: [NamedCount] = []
    }

    package var database = ""
    /// The tables that were looked at.
    package var tables = 0
    /// Tables that were not looked at: no right to read them, a name of `unnameable`, or too many tables.
    package var unread: [String] = []
    /// Tables, and columns as `table.column`, with names that settings cannot have.
    package var unnameable: [String] = []
    package var candidates: [Candidate] = []
    /// The table; nil where none was chosen.
    package var table: String?
    /// Why this one was taken of several columns, and why not the others; nil where it is the only one.
    package var choice: String?
    package var parts: [Part] = []
    /// Statements that have to run before the settings are right, without closing semicolons.
    package var statements: [String] = []
    package var counts: Counts?
    /// Why the rows were not counted; nil where they were.
    package var uncounted: String?
    /// The settings file; empty where no table was chosen.
    package var settings = ""
    /// The file that was written; nil for none.
    package var file: String?
    /// The file of the report on the table; nil for none.
    package var audit: String?
    /// The commands that come next.
    package var next: [String] = []
    package var exit: Int32 = 0

    /// Tables that were not looked at for another reason than their name.
    var hidden: [String] { unread.filter { !unnameable.contains(exactly: $0) } }

    /// The number of questions in the settings file.
    var questions: Int { settings.ranges(of: "# ? ").count }

    package static var form: PrintedForm { .copied }

    package var lines: [String] {
        var lines = ["\(tables.counting("table")) of \(database); nothing is written there"]
        if !hidden.isEmpty {
            lines.append(
                "not looked at, for want of a right: "
                    + hidden.prefix(20).joined(separator: ", ") + (hidden.count > 20 ? ", ..." : "")
            )
        }
        if !unnameable.isEmpty { lines.append(Self.leftOut(unnameable)) }
        lines.append(
            candidates.isEmpty
                ? "no column has values like Apple's tokens"
                : "columns with values like Apple's tokens:")
        lines += candidates.prefix(10).map(\.line)
        if let choice { lines.append(choice) }
        guard table != nil else { return lines }
        lines += [""] + countLines
        if let audit { lines.append("report on these rows: \(audit)") }
        if !statements.isEmpty {
            lines += ["", "before the settings below are right, as an administrator:"]
            lines += statements.map { "  \($0);" }
        }
        if let file {
            lines += ["", "settings: written to \(file)"]
        } else {
            lines += ["", "settings, for /etc/pushsweep/pushsweep.yaml:", ""]
            lines += settings.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
                .map(String.init)
        }
        lines.append("")
        if questions > 0 {
            lines.append(
                "\(questions.counting("question")), marked with ? in the settings, for you to decide"
            )
        }
        return lines + ["next:"] + next.map { "  \($0)" }
    }

    /// What is left out for its name, as a clause.
    static func leftOut(_ names: [String]) -> String {
        "left out, for a name that settings cannot have (longer than 64 characters, or with an outer blank, an "
            + "unprintable character or, of a table, a dot): "
            + names.prefix(20).map { "`\($0)`" }.joined(separator: ", ")
            + (names.count > 20 ? ", ..." : "")
    }

    private var countLines: [String] {
        guard let counts else {
            return ["\(table ?? "") was not counted: \(uncounted ?? "")"]
        }
        var lines = [
            "\(table ?? "") now: \(counts.rows.counting("row")), \(counts.living) living, "
                + "\(counts.dead) dead, \(counts.otherPlatforms) of other platforms, "
                + "\(counts.malformed) malformed, \(counts.empty) empty, "
                + (counts.duplicates.map { "\($0) with a token that another row has" }
                    ?? "those with the same token not counted")
        ]
        let ages = counts.registered.filter { $0.count > 0 }
        if !ages.isEmpty {
            lines.append(
                "  living, by registration: "
                    + ages.map { "\($0.name) \($0.count)" }.joined(separator: ", "))
        }
        return lines
    }
}

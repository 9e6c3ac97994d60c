import Database
import TokenTable

/// The mapping of a table as its rows, types and names show it, and what they leave open.
package struct MappingProposal: Sendable {
    /// One part of the mapping with its reason, or a question.
    package struct Line: Hashable, Sendable {
        /// What the line is about. `table`: the table itself, or a column that has no part.
        package enum Part: String, Hashable, Sendable {
            case table, key, token, app, environment, platform, user
            case registeredAt = "registered-at"
            case invalidatedAt = "invalidated-at"
            case living
            case reason
            case ignoredColumns = "ignore-columns"
        }

        package let part: Part
        /// The column that it names; nil for none.
        package let column: String?
        /// The value as YAML, without the name of the part; nil where a person has to decide, and the
        /// reason is the question.
        package let value: String?
        /// Why, in a clause.
        package let reason: String
        /// The option of `init` that answers a question, as words of a shell; nil for none.
        package var answer: String?
        /// The statement that has to run before the setting of a question is right, without its semicolon; nil
        /// for none.
        package var statement: String?
        /// The value as YAML that a person may take as the answer of a question; nil for none.
        package var setting: String?
        /// Whether a question is asked for the sake of completeness, and nothing speaks for the column.
        package var isUnlikely = false
    }

    /// The table.
    package let table: CatalogTable
    /// The mapping, with what the look is sure of.
    package internal(set) var mapping: TableMapping
    /// The parts in the order of a settings file, with their reasons, and the questions.
    package internal(set) var lines: [Line] = []
    /// Statements for an administrator that have to run before the mapping is right.
    package internal(set) var statements: [String] = []
    /// The values of the app's column in rows of Apple's devices, the most frequent first.
    package internal(set) var apps: [String] = []
    /// The topic, where all rows name one.
    package internal(set) var topic: String?
    /// The environments that rows of Apple's devices have; empty without a column.
    package internal(set) var environments: Set<String> = []
    /// The rows of the sample.
    package internal(set) var rows = 0

    /// What a person has to decide.
    package var questions: [Line] { lines.filter { $0.value == nil } }

    /// The line about a part that names a column.
    package func line(_ part: Line.Part) -> Line? {
        lines.first { $0.part == part && $0.value != nil }
    }
}

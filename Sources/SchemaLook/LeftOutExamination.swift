import Database
import TokenTable

// Rows with tokens of Apple's form that the mapping leaves out are named, because no signal reaches them.

extension TokenTable {
    /// The rows of another platform with Apple's tokens from which on they are named: a few are errors.
    private static let fewest = 3

    /// What rows the platform, the environment and the app of the settings leave out although their tokens have
    /// Apple's form.
    static func leftOut(
        _ look: LookedTable, _ own: TokenCandidate, _ layout: TableLayout
    ) -> [ColumnQuestion] {
        let tokens = look.values(layout.token.name)
        var apple = tokens.indices.filter { own.isApple(tokens[$0]) == true }
        var questions: [ColumnQuestion] = []
        if let platform = layout.platform, let column = look.catalog.column(platform.column.name) {
            let isTaken = { LookedTable.isWord($0, platform.word, of: column) }
            let rows = LeftOutRows(apple, by: column, of: look, taking: isTaken)
            if rows.total >= fewest, let words = rows.words(in: column.name) {
                questions.append(
                    question(
                        column.name,
                        "\(words) of \(layout.table) and a token of Apple's form, among \(apple.count) rows "
                            + "read with such a token, and no signal reaches them; where they are Apple's too, "
                            + "correct the rows, or add a generated column that is 1 for all of Apple's words "
                            + "and name it under store.active-users.platform"))
            }
            let words = look.words(column)
            apple = apple.filter { words[$0].map(isTaken) == true }
        }
        for (mapped, isTaken) in [
            (layout.environment, { isEnvironment($0, layout.environment) }),
            (layout.app, { _ in true }),
        ] as [(PartitionColumn?, (String) -> Bool)] {
            guard let mapped, let column = look.catalog.column(mapped.name) else { continue }
            let rows = LeftOutRows(apple, by: column, of: look, taking: isTaken)
            guard let words = rows.words(in: column.name) else { continue }
            questions.append(
                question(
                    column.name,
                    "\(words) of \(layout.table), of \(apple.count) rows of Apple's devices read: no app takes "
                        + "\(rows.total == 1 ? "it" : "them"), and no signal reaches "
                        + "\(rows.total == 1 ? "it" : "them"); correct the rows"))
        }
        return questions
    }

    private static func isEnvironment(_ word: String, _ column: PartitionColumn?) -> Bool {
        ["production", "sandbox"].contains {
            (column?.values[$0] ?? $0).utf8.elementsEqual(word.utf8)
        }
    }
}

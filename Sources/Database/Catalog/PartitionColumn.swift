/// A column that says which partition a row belongs to.
package struct PartitionColumn: Hashable, Sendable {
    /// The name, in the database's own case.
    package let name: String
    /// Whether it holds whole numbers.
    package let isInteger: Bool
    /// Whether equality in SQL is equality of characters; else rows are compared once more.
    package let isExact: Bool
    /// What the column holds for a word of the settings, where it differs.
    let values: [String: String]

    /// The value the column holds for an app or environment of the settings.
    package func value(for word: String) throws(StoreFailure) -> SQLValue {
        let text = values[word] ?? word
        guard isInteger else { return .text(text) }
        // Compared with a word, a number column converts the word to 0 and matches every 0.
        guard let number = Int64(text) else {
            throw StoreFailure(
                .configuration,
                "choosing the rows of `\(word)`: column \(name) holds whole numbers, and "
                    + "`\(text.prefix(40))` is none; give the number this column uses "
                    + "(apps.value, or values under environment)")
        }
        return .integer(number)
    }
}

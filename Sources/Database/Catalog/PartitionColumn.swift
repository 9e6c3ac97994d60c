/// A column with the app or the environment of a row.
package struct PartitionColumn: Hashable, Sendable {
    /// The name as the database spells it.
    package let name: String
    /// Whether it has an integer type.
    package let isInteger: Bool
    /// Whether equality in SQL is equality of characters; if not, rows are compared again after
    /// reading.
    package let isExact: Bool
    /// The column's value for a word of the settings, where they differ.
    let values: [String: String]

    /// The column's value for an app or environment of the settings. Throws `configuration` for a
    /// word where the column holds numbers.
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

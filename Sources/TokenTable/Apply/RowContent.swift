import Database

/// Columns of a row with their values: a whole row, or only its mark and reason.
struct RowContent: Hashable, Sendable {
    private(set) var columns: [String]
    private(set) var values: [SQLValue]

    /// Values without a column are dropped.
    init(_ columns: [String], _ values: some Sequence<SQLValue>) {
        self.columns = columns
        self.values = Array(values.prefix(columns.count))
    }

    /// The value of a column; nil where the content does not include the column.
    subscript(column: String) -> SQLValue? {
        columns.firstIndex(of: column).map { values[$0] }
    }

    /// Whether every column of `part` has the same value here.
    func agrees(with part: RowContent) -> Bool {
        zip(part.columns, part.values).allSatisfy { column, value in
            self[column]?.asImaged == value.asImaged
        }
    }

    /// This content with the values of `part` in place of its own.
    func replacing(by part: RowContent) -> RowContent {
        var replaced = self
        for (column, value) in zip(part.columns, part.values) {
            if let index = columns.firstIndex(of: column) {
                replaced.values[index] = value
            } else {
                replaced.columns.append(column)
                replaced.values.append(value)
            }
        }
        return replaced
    }

    /// The number of bytes in its texts and byte strings.
    var bytes: Int {
        values.reduce(0) { sum, value in
            switch value {
            case .text(let text): sum + text.utf8.count
            case .bytes(let bytes), .rawText(let bytes): sum + bytes.count
            default: sum
            }
        }
    }
}

extension SQLValue {
    /// The value as read back from an image, where dates are text.
    var asImaged: SQLValue {
        if case .wallClock(let clock) = self { .text(clock.text(fraction: 6)) } else { self }
    }
}

import Database

/// Columns of a row with their values: a whole row, or only its mark and reason.
struct RowContent: Hashable, Sendable {
    private(set) var columns: [String]
    private(set) var values: [SQLValue]

    /// Values beyond the columns are left out.
    init(_ columns: [String], _ values: some Sequence<SQLValue>) {
        self.columns = columns
        self.values = Array(values.prefix(columns.count))
    }

    /// The value of a column; nil where the content does not speak of it.
    subscript(column: String) -> SQLValue? {
        columns.firstIndex(of: column).map { values[$0] }
    }

    /// Whether every column spoken of by `part` has the same value here.
    func agrees(with part: RowContent) -> Bool {
        zip(part.columns, part.values).allSatisfy { column, value in
            self[column]?.asImaged == value.asImaged
        }
    }

    /// The same with the values of another content in place of its own.
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

    /// Bytes of its texts and byte strings.
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
    /// The value as it comes back from an image: dates are text there.
    var asImaged: SQLValue {
        if case .wallClock(let clock) = self { .text(clock.text(fraction: 6)) } else { self }
    }
}

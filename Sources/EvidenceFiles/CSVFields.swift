/// The fields of one CSV record (RFC 4180): separated by one character, with double quotes around
/// fields that contain it, and two double quotes for one inside.
enum CSVFields {
    /// The separators that files use.
    static let separators: [UInt8] = [
        UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t"), UInt8(ascii: "|"),
    ]

    /// The separator that the first record has most of; the comma where it has none.
    static func separator(in first: [UInt8]) -> UInt8 {
        separators.max { one, other in
            first.count { $0 == one } < first.count { $0 == other }
        }.flatMap { first.contains($0) ? $0 : nil } ?? UInt8(ascii: ",")
    }

    /// The fields of a record; nil where a quoted field does not end or has text after it.
    static func fields(of record: [UInt8], separator: UInt8) -> [[UInt8]]? {
        let quote = UInt8(ascii: "\"")
        var fields: [[UInt8]] = []
        var position = 0
        while true {
            var field: [UInt8] = []
            if position < record.count, record[position] == quote {
                position += 1
                while true {
                    guard position < record.count else { return nil }
                    let byte = record[position]
                    position += 1
                    if byte != quote {
                        field.append(byte)
                    } else if position < record.count, record[position] == quote {
                        field.append(quote)
                        position += 1
                    } else {
                        break
                    }
                }
                guard position == record.count || record[position] == separator else { return nil }
            } else {
                while position < record.count, record[position] != separator {
                    field.append(record[position])
                    position += 1
                }
            }
            fields.append(field)
            guard position < record.count else { return fields }
            position += 1
        }
    }
}

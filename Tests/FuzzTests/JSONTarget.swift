import Encodings

extension FuzzTarget {
    /// A JSON text of another program, such as a document in a column.
    static let json = FuzzTarget(name: "json", mutations: 2_000, longest: 4_096) { input in
        guard let value = JSONValue(document: input) else { return }
        let line = try JSONLine.bytes(value)
        let again = try JSONValue(document: Array(line)).map(JSONLine.bytes)
        try promise(again == line, "what was read is not read again: \(line.count) bytes")
    }
}

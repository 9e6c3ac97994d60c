/// Reads a page of metrics strictly by the definition of the text format (Prometheus documentation,
/// "Exposition formats"). Any deviation is an error.
package struct MetricsPage {
    /// The help texts by name.
    package private(set) var help: [String: String] = [:]
    /// The types by name.
    package private(set) var types: [String: String] = [:]
    /// The values by name and labels.
    package private(set) var values: [Key: Double] = [:]

    /// The key of one value.
    package struct Key: Hashable {
        /// The name of the metric.
        package let name: String
        /// The labels of the value.
        package let labels: [String: String]
    }

    /// Reads a page.
    ///
    /// - Throws: `TestFailure` that names the first line that is wrong.
    package init(_ text: String) throws {
        guard text.hasSuffix("\n") else { throw TestFailure("the page does not end with a line") }
        for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("# ") {
                let words = line.split(separator: " ", maxSplits: 3).map(String.init)
                guard words.count == 4 else { throw TestFailure("\(line)") }
                switch words[1] {
                case "HELP" where help[words[2]] == nil: help[words[2]] = words[3]
                case "TYPE" where types[words[2]] == nil: types[words[2]] = words[3]
                default: throw TestFailure("\(line)")
                }
            } else {
                var rest = Substring(line)
                let key = try Self.key(&rest)
                guard rest.first == " ", let value = Double(rest.dropFirst()),
                    types[key.name] != nil,
                    help[key.name] != nil, values[key] == nil
                else { throw TestFailure("\(line)") }
                values[key] = value
            }
        }
    }

    /// The value of a metric with exactly these labels; nil when there is none.
    package subscript(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        values[Key(name: name, labels: labels)]
    }

    private static func word(_ rest: inout Substring) throws -> String {
        let word = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        guard let first = word.first, !first.isNumber else { throw TestFailure("no name: \(rest)") }
        rest = rest.dropFirst(word.count)
        return String(word)
    }

    private static func key(_ rest: inout Substring) throws -> Key {
        let name = try word(&rest)
        var labels: [String: String] = [:]
        guard rest.first == "{" else { return Key(name: name, labels: labels) }
        repeat {
            rest = rest.dropFirst()
            let label = try word(&rest)
            guard rest.hasPrefix("=\""), labels[label] == nil else { throw TestFailure("\(rest)") }
            rest = rest.dropFirst(2)
            labels[label] = try quoted(&rest)
        } while rest.first == ","
        guard rest.first == "}" else { throw TestFailure("\(rest)") }
        rest = rest.dropFirst()
        return Key(name: name, labels: labels)
    }

    private static func quoted(_ rest: inout Substring) throws -> String {
        var value = ""
        while let character = rest.popFirst() {
            switch character {
            case "\"": return value
            case "\\":
                switch rest.popFirst() {
                case "n": value += "\n"
                case "\\": value += "\\"
                case "\"": value += "\""
                default: throw TestFailure("an escape that is none: \(rest)")
                }
            default: value.append(character)
            }
        }
        throw TestFailure("a value without an end")
    }
}

// Tools print JSON over many lines, often an object around the list of what a log holds. One object on each
// line is read, so jq has to take the list apart. Which of its commands leads to reports is tried: the
// elements of each list in the outermost value, then the strings in them that hold JSON themselves.

import Encodings
import TokenHygiene

extension FileBeginning {
    /// The most elements of a list that are tried.
    private static let mostElements = 200

    /// A filter of jq, and lines as it prints them; strings without their quotes where it is `isRaw`.
    private typealias Spread = (filter: String, isRaw: Bool, lines: [[UInt8]])

    /// The command of jq that makes of this JSON lines of which one, read by a layout, calls a token dead;
    /// nil where none is known.
    package func jqCommand(for layout: ReportLayout, _ reader: ReportReader) -> String? {
        bytes.withUnsafeBytes { json in
            let lists = Self.lists(in: json)
            let found = (lists + lists.flatMap(Self.strings)).first { spread in
                var trial = FileBeginning()
                for line in spread.lines { trial.take(line + [UInt8(ascii: "\n")]) }
                return trial.hasEvidence(by: layout, reader)
            }
            return found.map { "jq \($0.isRaw ? "-r" : "-c") \($0.filter.shellWord)" }
        }
    }

    /// The outermost list, or those in the members of the outermost object.
    private static func lists(in json: UnsafeRawBufferPointer) -> [Spread] {
        var scanner = JSONScanner(json)
        if scanner.peek() == UInt8(ascii: "[") { return [(".[]", false, elements(scanner))] }
        var found: [Spread] = []
        guard scanner.take("{") else { return [] }
        repeat {
            guard let key = scanner.text(), scanner.take(":") else { break }
            if scanner.peek() == UInt8(ascii: "[") {
                found.append((JSONPath(key: key.array).jq(1) + "[]", false, elements(scanner)))
            }
            guard scanner.skipValue() != nil else { break }
        } while scanner.take(",")
        return found
    }

    /// The elements of a list, each on one line; of one that is cut off those before its end.
    private static func elements(_ list: JSONScanner) -> [[UInt8]] {
        var (scanner, found) = (list, [[UInt8]]())
        guard scanner.take("[") else { return [] }
        repeat {
            guard let element = scanner.skipValue() else { break }
            // A line break is white space there: strings have none.
            found.append(element.map { $0 < UInt8(ascii: " ") ? UInt8(ascii: " ") : $0 })
        } while scanner.take(",") && found.count < mostElements
        return found
    }

    /// The strings with JSON in the members of the elements, by the name of the member.
    private static func strings(in list: Spread) -> [Spread] {
        var found: [(key: [UInt8], lines: [[UInt8]])] = []
        for element in list.lines {
            element.withUnsafeBytes { json in
                var scanner = JSONScanner(json)
                guard scanner.take("{") else { return }
                repeat {
                    guard let key = scanner.text(), scanner.take(":") else { return }
                    var inside = scanner
                    if let text = inside.string(), text.withUnsafeBytes(JSONFields.isJSON) {
                        let place =
                            found.firstIndex { $0.key == key.array } ?? found.endIndex
                        if place == found.endIndex { found.append((key.array, [])) }
                        found[place].lines.append(text)
                    }
                    guard scanner.skipValue() != nil else { return }
                } while scanner.take(",")
            }
        }
        return found.map { key, lines in (list.filter + JSONPath(key: key).jq(1), true, lines) }
    }
}

// A trigger may mention a column in many ways, and only an assignment writes it. On a server that is
// `SET NEW.column = ...`, in SQLite `UPDATE table SET ..., column = ...`. Both are lists after SET,
// so the words of a trigger are read one by one, and a column counts at the beginning of an entry.

extension TableReach.Trigger {
    /// Whether an update of `cause` makes this trigger assign a column of its table.
    package func writes(
        _ column: String, whenUpdating cause: String, of table: TableName,
        _ engine: SQLDialect.Engine
    ) -> Bool {
        guard event == "UPDATE" else { return false }
        let words = Self.words(body)
        let target =
            engine == .mariaDB ? ["new", ".", column.lowercased()] : [column.lowercased()]
        if engine == .sqlite, !Self.isCalled(words, forUpdateOf: cause.lowercased()) {
            return false
        }
        var depth = 0
        var isList = false
        var updated: [String] = []
        for (index, word) in words.enumerated() {
            switch word {
            case "(": depth += 1
            case ")": depth -= 1
            case ";": (depth, isList) = (0, false)
            case "update": updated = []
            case "set":
                // A server's trigger cannot assign NEW in another statement.
                isList = engine == .mariaDB || updated.contains(table.name.lowercased())
                depth = 0
            default: if !isList { updated.append(word) }
            }
            guard isList, word == "set" || word == "," && depth == 0 else { continue }
            let entry = words[(index + 1)...]
            if entry.starts(with: target),
                ["=", ":"].contains(entry.dropFirst(target.count).first ?? "")
            {
                return true
            }
        }
        return false
    }

    /// Whether SQLite calls the trigger for an update of a column: it names that one, or none.
    private static func isCalled(_ words: [String], forUpdateOf column: String) -> Bool {
        guard let event = words.firstIndex(of: "update"), words.dropFirst(event + 1).first == "of"
        else { return true }
        return words[event...].prefix { $0 != "on" }.contains(column)
    }

    /// The words of a text in lower case, each sign by itself, names without their quotes.
    private static func words(_ sql: String) -> [String] {
        var words: [String] = []
        var word = ""
        var closing: Character?
        for character in Catalog.uncommented(sql) + " " {
            if let end = closing {
                if character == end {
                    words.append(end == "'" ? "''" : word.lowercased())
                    (word, closing) = ("", nil)
                } else {
                    word.append(character)
                }
            } else if character.isLetter || character.isNumber || "_$@".contains(character) {
                word.append(character)
            } else {
                if !word.isEmpty { words.append(word.lowercased()) }
                word = ""
                closing = Catalog.quotes[character]
                if closing == nil, !character.isWhitespace { words.append(String(character)) }
            }
        }
        return words
    }
}

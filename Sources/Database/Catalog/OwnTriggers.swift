// Whose a trigger is. Ours are those of docs/registrations.md: people copy them, write another time into them and
// list the columns of their own table, and their name stays. They do nothing when this program changes a row, and
// that shows in their text, since all of them have one form:
//
//   server           the whole body is in IF @pushsweep IS NULL ... END IF, which our sessions do not enter
//   SQLite, UPDATE   OF the column of the token alone, which no mark names
//   SQLite, INSERT   one UPDATE of its own table, by the key of the row that came
//
// A trigger of our name in another form is somebody else's. So is every one of another name: what it does is never
// read from its statements, only what it can do, from its event and its time. A server hides the statements from
// accounts without the right TRIGGER; there the name is believed, and what a change left is read again behind it.

extension TableReach.Trigger {
    /// Whether it is one of docs/registrations.md, for a table with these columns of the token and the key: it does
    /// nothing when this program changes a row.
    package func isOwn(token: String, key: [String] = [], of table: TableName) -> Bool {
        guard name.hasPrefix("pushsweep_registered") else { return false }
        if body.isEmpty { return true }
        // A name or a text in quotes is no word of the language.
        let words = Catalog.words(body).map { $0.isQuoted ? "'\($0.text)" : $0.text }[...]
        // SQLite shows the whole statement, a server what runs.
        guard words.first == "create" else { return Self.sparesUs(words) }
        let plain = Catalog.words(body).map(\.text)[...]
        return switch event {
        case "UPDATE": Self.isOfToken(plain, token.lowercased())
        case "INSERT":
            Self.writesOwnRow(plain, key.map { $0.lowercased() }, table.name.lowercased())
        default: false
        }
    }

    /// Whether an update of a row lets it write some columns of the row, as far as their names stand in its
    /// statements; hidden statements may name any. It may still do so seldom, or never.
    package func mayWrite(_ columns: [String]) -> Bool {
        guard event == "UPDATE", mayWriteTable else { return false }
        let names = Set(columns.map { $0.lowercased() })
        return body.isEmpty || Catalog.words(body).contains { names.contains($0.text) }
    }

    /// Whether all statements of a server's trigger are in one IF @pushsweep IS NULL, without an ELSE.
    private static func sparesUs(_ all: ArraySlice<String>) -> Bool {
        var words = all
        while words.last == ";" { words.removeLast() }
        if words.first == "begin" {
            guard words.last == "end" else { return false }
            words = words.dropFirst().dropLast()
            let handler = ["declare", "exit", "handler", "for", "1054", "begin", "end", ";"]
            if words.starts(with: handler) { words = words.dropFirst(handler.count) }
            while words.last == ";" { words.removeLast() }
        }
        guard words.starts(with: ["if", "@pushsweep", "is", "null"]), words.count > 6,
            ["and", "then"].contains(words[words.startIndex + 4])
        else { return false }
        let condition = words.prefix { $0 != "then" }
        if !Set(["or", "xor", "|"]).isDisjoint(with: outermost(condition)) { return false }
        var depth = 0
        for place in words.indices {
            let before = place > words.startIndex ? words[place - 1] : ";"
            switch words[place] {
            case "if" where before == "end": depth -= 1
            case "if" where [";", "then", "else", "begin"].contains(before): depth += 1
            case "else", "elseif": if depth == 1 { return false }
            default: break
            }
            if depth == 0, place < words.endIndex - 1 { return false }
        }
        return depth == 0
    }

    /// The words outside parentheses.
    private static func outermost(_ words: ArraySlice<String>) -> [String] {
        var depth = 0
        return words.filter {
            depth += $0 == "(" ? 1 : $0 == ")" ? -1 : 0
            return depth == 0
        }
    }

    private static func isOfToken(_ words: ArraySlice<String>, _ token: String) -> Bool {
        words.indices.contains { words[$0...].starts(with: ["update", "of", token, "on"]) }
    }

    private static func writesOwnRow(
        _ words: ArraySlice<String>, _ key: [String], _ table: String
    ) -> Bool {
        guard let begin = words.firstIndex(of: "begin"),
            words[(begin + 1)...].starts(with: ["update", table, "set"]),
            words.count(where: { $0 == ";" }) == 1, words.suffix(2) == [";", "end"],
            let place = words.lastIndex(of: "where")
        else { return false }
        let terms = words[(place + 1)...].dropLast(2).split(separator: "and")
        let named = terms.compactMap { term -> String? in
            guard let column = term.first, ["is", "="].contains(term.dropFirst().first ?? ""),
                Array(term.dropFirst(2)) == ["new", ".", column]
            else { return nil }
            return column
        }
        return !key.isEmpty && named.count == terms.count && Set(key).isSubset(of: named)
    }
}

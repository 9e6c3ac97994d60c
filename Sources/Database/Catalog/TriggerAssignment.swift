// A trigger that assigns the time of the registration decides what counts as one. A registration is an update
// that writes the token; a trigger that assigns the time at any update of the row takes a mark for one too.
//
// A trigger may mention a column in many ways, and only an assignment writes it. On a server that is
// `SET NEW.column = ...`, in SQLite `UPDATE table SET ..., column = ...`. Both are lists after SET, so the
// words of a trigger are read one by one, and a column counts at the beginning of an entry. Within parentheses
// SET begins no list: it is a column there, or a part of CHARACTER SET. Whether the entry is reached is read
// from the conditions around it, as far as two questions go: does it compare the old token with the new one,
// and does it spare this program, whose sessions set `@pushsweep`? What cannot be read counts as an assignment
// at any update. Nothing is believed for good: a run reads the time again after its own statement.

/// When a trigger assigns a column.
package enum TriggerAssignment: Int, Hashable, Sendable, Comparable {
    case never
    /// Where an update writes the token, or gives it another value.
    case withToken
    /// At any update but those of this program.
    case withoutUs
    /// At any update, those of this program too.
    case always

    package static func < (one: TriggerAssignment, other: TriggerAssignment) -> Bool {
        one.rawValue < other.rawValue
    }
}

extension TableReach.Trigger {
    /// When an update of a table makes this trigger give one of some columns another value. `token` is the
    /// column of the tokens, `changed` those that an update by this program names.
    package func assignment(
        of columns: [String], token: String, changed: [String], in table: TableName,
        _ engine: SQLDialect.Engine
    ) -> TriggerAssignment {
        assignment(
            of: columns, token: token, changed: changed, in: table, engine, countsKeeping: false)
    }

    private func assignment(
        of columns: [String], token: String, changed: [String], in table: TableName,
        _ engine: SQLDialect.Engine, countsKeeping: Bool
    ) -> TriggerAssignment {
        guard event == "UPDATE" else { return .never }
        let reading = TriggerReading(
            words: Catalog.words(body).map {
                // A sign in quotes is a text.
                $0.isQuoted && ["(", ")", ",", ";"].contains($0.text) ? "''" : $0.text
            },
            token: token.lowercased(), changed: Set(changed.map { $0.lowercased() }),
            table: table.name.lowercased(), engine: engine, countsKeeping: countsKeeping)
        return columns.map { reading.assignment(of: $0.lowercased()) }.max() ?? .never
    }

    /// Whether an update of `cause` may make this trigger assign a column of its table, be it the value that
    /// the column had: then what the update wrote is lost.
    package func writes(
        _ column: String, whenUpdating cause: String, of table: TableName,
        _ engine: SQLDialect.Engine
    ) -> Bool {
        assignment(
            of: [column], token: cause, changed: [cause], in: table, engine, countsKeeping: true)
            != .never
    }
}

/// The words of a trigger of a table, in lower case.
private struct TriggerReading {
    let words: [String]
    let token: String
    let changed: Set<String>
    let table: String
    let engine: SQLDialect.Engine
    /// Whether an assignment of the value that the column had counts.
    let countsKeeping: Bool

    /// A condition around a statement, and whether the statement is in its ELSE.
    private struct Guard {
        var condition: ArraySlice<String>
        var isElse = false
    }

    func assignment(of column: String) -> TriggerAssignment {
        var called = TriggerAssignment.always
        if engine == .sqlite {
            called = self.called
            if called == .never { return .never }
        }
        let target = engine == .mariaDB ? ["new", ".", column] : [column]
        var guards: [Guard] = []
        var (depth, isList, isSpared) = (0, false, false)
        var updated: [String] = []
        var found = TriggerAssignment.never
        for (index, word) in words.enumerated() {
            switch word {
            case "(": depth += 1
            case ")": depth -= 1
            case ";": (depth, isList) = (0, false)
            // What an upsert sets is of the table behind INTO.
            case "update" where index == 0 || words[index - 1] != "do": updated = []
            case "insert": updated = []
            case "set" where depth == 0:
                // A server's trigger cannot assign NEW in another statement.
                isList = engine == .mariaDB || updated.contains(table)
            case "leave": isSpared = isSpared || leavesUs(guards)
            default: if !isList { updated.append(word) }
            }
            if engine == .mariaDB { step(index, &guards) }
            guard isList, depth == 0, word == "set" || word == "," else { continue }
            let entry = words[(index + 1)...]
            // SQLite sets several columns at once, whose values are not told apart here.
            if engine == .sqlite, entry.first == "(",
                entry.prefix(while: { $0 != ")" }).contains(column)
            {
                found = max(found, when(guards, []))
            }
            guard entry.starts(with: target),
                ["=", ":"].contains(entry.dropFirst(target.count).first ?? "")
            else { continue }
            let value = entry.dropFirst(target.count).prefix { $0 != ";" }
            if !countsKeeping, isItself(value, column) { continue }
            found = max(found, isSpared ? .withoutUs : when(guards, value))
        }
        return min(found, called)
    }

    // MARK: Conditions

    /// Follows IF, ELSEIF, ELSE and END IF of a server. The function IF has no THEN.
    private func step(_ index: Int, _ guards: inout [Guard]) {
        switch words[index] {
        case "if" where index > 0 && words[index - 1] == "end":
            _ = guards.popLast()
        case "if", "elseif":
            let rest = words[(index + 1)...]
            guard let end = rest.firstIndex(where: { $0 == "then" || $0 == ";" }),
                rest[end] == "then"
            else { return }
            if words[index] == "elseif" { _ = guards.popLast() }
            guards.append(Guard(condition: rest[..<end]))
        case "else":
            // Also of CASE in an expression, where no condition is open.
            if !guards.isEmpty { guards[guards.count - 1].isElse = true }
        default: break
        }
    }

    /// Whether sessions of this program leave the trigger here.
    private func leavesUs(_ guards: [Guard]) -> Bool {
        guards.contains {
            !$0.isElse && Self.has(["@pushsweep", "is", "not", "null"], in: $0.condition)
        }
    }

    private func when(_ guards: [Guard], _ value: ArraySlice<String>) -> TriggerAssignment {
        let open = guards.filter { !$0.isElse }.map(\.condition)
        if open.contains(where: sparesUs) { return .withoutUs }
        let isConditional = value.contains { ["if", "case", "iif", "nullif"].contains($0) }
        if isConditional, sparesUs(value) { return .withoutUs }
        return open.contains(where: comparesToken) || isConditional && comparesToken(value)
            ? .withToken : .always
    }

    private func sparesUs(_ condition: ArraySlice<String>) -> Bool {
        Self.has(["@pushsweep", "is", "null"], in: condition)
            || Self.has(["isnull", "(", "@pushsweep"], in: condition)
            || Self.has(["@pushsweep", "<", "=", ">", "null"], in: condition)
    }

    /// Whether a condition holds only where the token differs: it compares it, not for being the same, and
    /// names no column that this program changes.
    private func comparesToken(_ condition: ArraySlice<String>) -> Bool {
        func names(_ column: String) -> Bool {
            Self.has(["old", ".", column], in: condition)
                || Self.has(["new", ".", column], in: condition)
        }
        guard Self.has(["old", ".", token], in: condition),
            Self.has(["new", ".", token], in: condition),
            !changed.contains(where: names)
        else { return false }
        return condition.contains("not") || Self.has(["<", ">"], in: condition)
            || Self.has(["!", "="], in: condition) || condition.contains("distinct")
    }

    /// An assignment that keeps the time.
    private func isItself(_ value: ArraySlice<String>, _ column: String) -> Bool {
        Array(value.drop { $0 == ":" || $0 == "=" }) == ["old", ".", column]
    }

    // MARK: SQLite

    /// When SQLite calls the trigger, by the columns that it names and its WHEN.
    private var called: TriggerAssignment {
        guard let event = words.firstIndex(of: "update") else { return .always }
        var named: ArraySlice<String>?
        if words.dropFirst(event + 1).first == "of" {
            named = words[(event + 2)...].prefix { $0 != "on" }
        }
        let head = words.prefix { $0 != "begin" }
        let condition = head.firstIndex(of: "when").map { head[($0 + 1)...] }
        if let named, !named.contains(where: changed.contains) {
            return named.contains(token) ? .withToken : .never
        }
        return condition.map(comparesToken) == true ? .withToken : .always
    }

    private static func has(_ sequence: [String], in words: ArraySlice<String>) -> Bool {
        words.indices.contains { words[$0...].starts(with: sequence) }
    }
}

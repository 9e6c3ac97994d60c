// Many tables have no time for a mark but a column such as `active`, which the app itself reads and
// writes. Then a mark is the value `dead` in that column. The column alone says whether a row is
// living: the app may set it living again or dead without this program. Every other value than
// `dead`, NULL included, is living, because only `dead` certainly says the opposite.

import Findings

/// A column of two values that says whether a row's token is used.
package struct LivingColumn: Hashable, Sendable {
    /// The name as the database spells it.
    package let name: String
    /// The value of a living row, as the driver reads it.
    package let living: SQLValue
    /// The value that a mark sets, as the driver reads it.
    package let dead: SQLValue
    /// Whether the column has the type BIT, which is read as bytes and compared as a number.
    let isBits: Bool
    /// Whether upper and lower case of `dead` are one word: its letters are those of ASCII, and the
    /// column's collation takes the cases for equal. Other letters have no folding that every
    /// engine and this program share, so such a word counts as it is written.
    package let ignoresCase: Bool
    /// Further values that the settings name, which are those of living rows.
    package var others: [SQLValue] = []

    /// Whether a stored value is none, NULL or an empty text, or one that the settings name.
    package func isKnown(_ value: SQLValue) -> Bool {
        if let text = value.text, text.utf8.allSatisfy({ $0 == UInt8(ascii: " ") }) { return true }
        return value == .null || isDead(value)
            || ([living] + others).contains { folded(value) == folded($0) }
    }

    /// Whether a stored value is the one that the settings name for living rows.
    package func isLiving(_ value: SQLValue) -> Bool { folded(value) == folded(living) }

    /// Whether a stored value is that of a dead row.
    package func isDead(_ value: SQLValue) -> Bool { folded(value) == folded(dead) }

    /// A stored value in the form in which a WHERE compares it with the column.
    package func compared(_ value: SQLValue) -> SQLValue {
        guard isBits, case .bytes(let bytes) = value, bytes.count <= 8 else { return value }
        return .integer(
            Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
    }

    private func folded(_ value: SQLValue) -> SQLValue {
        switch value {
        case .bytes: compared(value)
        case .real(let number): Int64(exactly: number).map(SQLValue.integer) ?? value
        case .text(let text) where ignoresCase && text.utf8.allSatisfy({ $0 < 128 }):
            .text(text.string.lowercased())
        default: value
        }
    }
}

extension ColumnResolver {
    /// The column of living rows; nil where the settings name none.
    ///
    /// - Throws: `configuration` where the column is missing or cannot hold both values.
    package func living(_ mapped: LivingMapping) throws(StoreFailure) -> LivingColumn? {
        guard let name = mapped.column else { return nil }
        let column = try required(name, setting: "living.column")
        guard let living = mapped.living, let dead = mapped.dead else {
            throw refusal(
                "column \(column.name) needs its two values; give living and dead under "
                    + "\(group).living")
        }
        if column.isGenerated || column.movesItself {
            throw refusal(
                "the database itself sets column \(column.name), so no mark can be set in it; name "
                    + "another under \(group).living.column")
        }
        var result = LivingColumn(
            name: column.name, living: try value(living, of: column, setting: "living"),
            dead: try value(dead, of: column, setting: "dead"), isBits: column.type == "bit",
            ignoresCase: column.ignoresCase && dead.utf8.allSatisfy { $0 < 128 })
        if result.isDead(result.living) {
            throw refusal(
                "living `\(living)` and dead `\(dead)` are the same value of column \(column.name), so "
                    + "no mark would show; give the two values that its rows hold under "
                    + "\(group).living")
        }
        for word in mapped.others ?? [] {
            let other = try value(word, of: column, setting: "others")
            guard !result.isDead(other) else {
                throw refusal(
                    "`\(word)` is the value of dead rows of column \(column.name) and stands among others; "
                        + "correct \(group).living.others")
            }
            result.others.append(other)
        }
        return result
    }

    /// A word of the settings as a value of the column.
    private func value(
        _ word: String, of column: CatalogColumn, setting: String
    ) throws(StoreFailure) -> SQLValue {
        let isFlag = ["bool", "boolean"].contains(column.type)
        // SQLite keeps words too in a column that is not declared to hold numbers.
        let isFree =
            dialect.engine == .sqlite && !column.isText && !column.isInteger && !isFlag
        if column.isInteger || column.type == "bit" || isFlag || isFree {
            let number = ["true": 1, "false": 0][word.lowercased()] ?? Int64(word)
            if let number, column.holds(number) {
                guard dialect.engine == .mariaDB else {
                    return column.isReal ? .real(Double(number)) : .integer(number)
                }
                return column.type == "bit" ? .bytes(column.bits(number)) : .integer(number)
            }
            guard isFree, number == nil else {
                throw refusal(
                    "column \(column.name) (\(column.declared)) cannot hold `\(word.prefix(40))`; "
                        + "correct \(group).living.\(setting)")
            }
            return .text(word)
        }
        if column.type == "enum" {
            guard column.declaration.quotedMembers.contains(exactly: word) else {
                throw refusal(
                    "column \(column.name) is \(column.declaration), which has no "
                        + "`\(word.prefix(40))`; correct \(group).living.\(setting)")
            }
            return .text(word)
        }
        guard column.isText else {
            throw refusal(
                "column \(column.name) (\(column.declared)) holds neither whole numbers nor words; "
                    + "correct \(group).living.column")
        }
        guard word.unicodeScalars.count <= column.length ?? .max else {
            throw refusal(
                "column \(column.name) (\(column.declared)) has no room for `\(word.prefix(40))`; "
                    + "correct \(group).living.\(setting)")
        }
        return .text(word)
    }

    /// Refuses a column of two values where a time is expected, and says what to write instead.
    package func refuseFlag(as mapped: TimeMapping, setting: String) throws(StoreFailure) {
        guard let column = try optional(mapped.column, setting: setting),
            column.isFlag(numbersToo: mapped.type == nil)
        else { return }
        let values =
            column.isText || column.type == "enum" ? "living: Y, dead: N" : "living: 1, dead: 0"
        throw refusal(
            "column \(column.name) (\(column.declared)) holds two values and not the time of a mark; "
                + "in place of \(group).\(setting) write living: {column: \(column.name), \(values)} "
                + "under \(group), with the values that its rows hold")
    }
}

extension CatalogColumn {
    /// The type as declared, as far as it is known.
    fileprivate var declared: String { declaration.isEmpty ? type : declaration }

    /// Whether the collation takes upper and lower case of ASCII for equal. To a Turkish one I and i are
    /// different letters.
    fileprivate var ignoresCase: Bool {
        guard let collation, collation.contains("_ci") else { return false }
        return !collation.contains("turkish") && !collation.contains("_tr_")
    }

    /// Whether SQLite stores whole numbers in it as floating point numbers.
    fileprivate var isReal: Bool { ["real", "floa", "doub"].contains { type.contains($0) } }

    /// Whether an integer column has room for a number.
    fileprivate func holds(_ number: Int64) -> Bool {
        switch type {
        case "bit": number >= 0 && (bitCount >= 63 || number < 1 << Int64(bitCount))
        case "tinyint":
            declaration.contains("unsigned")
                ? (0...255).contains(number) : (-128...127).contains(number)
        default: true
        }
    }

    /// The number of bits in a BIT column, read from its declaration.
    private var bitCount: Int { Int(declaration.filter(\.isNumber)) ?? 1 }

    /// A number as the bytes of a BIT column.
    fileprivate func bits(_ number: Int64) -> [UInt8] {
        (0..<(bitCount + 7) / 8).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }

    /// Whether the column holds two values by its type or, where `numbersToo`, a number with a name
    /// that asks a question.
    fileprivate func isFlag(numbersToo: Bool) -> Bool {
        if ["bit", "bool", "boolean", "enum"].contains(type) { return true }
        if declaration.lowercased().hasPrefix("tinyint(1)") { return true }
        if isText && (length == 1 || declaration.hasSuffix("(1)")) { return true }
        let name = name.lowercased()
        return numbersToo && isInteger
            && (name.hasPrefix("is_")
                || ["active", "enabled", "valid", "living", "alive", "disabled", "invalid"]
                    .contains(name))
    }
}

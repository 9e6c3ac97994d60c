// A column of the application is written only if a person named it. So a look takes no column as the mark by
// itself: marks go beside the table, and each column that the application may read as its mark is a question
// with what its rows have and the line of settings that answers it. The look cannot know which one that is:
// `push_ok` may be the mark or a person's wish, and one `revoked_at` is about a token, the other about a
// session. It only sorts the questions:
//
//   name      says used or unused, or speaks of pushes      the likeliest first
//   values    yes and no, words of states                   then these
//   other     any other two values, any time that most      each once, at the end
//             rows lack, and who, why or which key, where
//             the name says unused and most rows have none
//
// Which of two values means unused follows from the words, then from the name, then from the numbers: in a
// table that is used most rows are.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

/// A column that the application may read as its mark.
struct MarkCandidate {
    /// The part that it would be.
    enum Part { case living, time }

    let column: CatalogColumn
    let part: Part
    /// What the rows of Apple's devices have in it.
    let facts: String
    /// The value of the part in settings; nil where it cannot be the mark as it is, or a word is not known.
    var setting: String?
    /// The option of `init` that takes it; nil where none does.
    var answer: String?
    /// Why there is no setting, or what speaks against it, as a clause with its punctuation; perhaps empty.
    var doubt = ""
    /// The greater the likelier; below `leastLikely` nothing but its two values speaks for it.
    var likelihood = 0

    static let leastLikely = 3
    /// What follows from leaving out the mark, as a clause.
    static let consequence =
        ": where your sender reads it, rows that it leaves out count as living, and marks do not reach it"
}

/// Looks for the columns that may be the mark.
struct MarkSearch {
    /// The most words of a column of states, and the most bytes of one.
    private static let mostStates = 8
    private static let mostNamedStates = 24
    private static let longestWord = 32

    let table: LookedTable
    /// The rows of Apple's devices, by their place in the sample.
    let apple: [Int]

    /// The candidates among some columns, the likeliest first.
    func candidates(among columns: [CatalogColumn]) -> [MarkCandidate] {
        columns.filter {
            !table.catalog.primaryKey.contains($0.name) && !table.catalog.isUnique([$0.name])
        }
        .compactMap { time($0) ?? flag($0) ?? varying($0) }
        // Equal ones keep the order of the table.
        .enumerated().sorted {
            ($1.element.likelihood, $0.offset) < ($0.element.likelihood, $1.offset)
        }.map(\.element)
    }

    // MARK: Values

    /// The words of a column in the rows of Apple's devices, the most frequent first, and the rows without
    /// one.
    private struct Values {
        var words: [(word: String, count: Int)] = []
        var empty = 0
        /// Whether values are bytes, which no mark can be.
        var areBytes = false

        var list: String {
            words.map { "`\($0.word)` (\($0.count))" }.joined(separator: ", ")
                + (empty > 0 ? (words.isEmpty ? "" : ", ") + "nothing (\(empty))" : "")
        }
    }

    /// The values of a column; nil where it has more than states have, or values that are no words.
    private func values(_ column: CatalogColumn) -> Values? {
        let all = table.values(column.name)
        guard all.count == table.rows.count else { return nil }
        var counts: [ExactText: Int] = [:]
        var values = Values()
        for row in apple {
            var word = LookedTable.word(all[row], of: column)
            if case .bytes(let bytes) = all[row], bytes.count == 1,
                word == nil || table.dialect.engine == .sqlite
            {
                word = "0x\(Hex.text(bytes))"
                values.areBytes = true
            }
            guard let word else {
                guard TokenSample.isBlank(all[row]) else { return nil }
                values.empty += 1
                continue
            }
            guard word.utf8.count <= Self.longestWord else { return nil }
            counts[ExactText(word), default: 0] += 1
            let most =
                ColumnWords(column.name).endsAsState ? Self.mostNamedStates : Self.mostStates
            if counts.count > most { return nil }
        }
        values.words = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { (word: $0.key.string, count: $0.value) }
        return values
    }

    // MARK: Flags and states

    private func flag(_ column: CatalogColumn) -> MarkCandidate? {
        guard TimeLook(column, of: table) == nil, let values = values(column) else { return nil }
        let name = ColumnWords(column.name)
        let words = values.words.map(\.word)
        // A key or an address that many rows share is nothing to print.
        let isPlain = words.allSatisfy { $0.utf8.count <= 2 || ValueWords.isFlagOrState($0) }
        guard isPlain || !name.isOfSecret && !name.isOfPerson else { return nil }
        let isState = name.endsAsState || words.contains(where: ValueWords.isState)
        let isTyped = column.holdsTwoValues
        let isPair = words.count == 2 || words.count == 1 && values.empty > 0
        let isConstant =
            words.count <= 1 && !isPair
            && (isTyped
                || words.allSatisfy(ValueWords.isFlagOrState)
                    && (name.polarity != nil || name.endsAsState)
                || words.contains(where: ValueWords.isState))
        let isOfStates = words.count > 2 && (isState || column.type == "enum")
        guard isPair || isConstant || isOfStates, !apple.isEmpty else { return nil }

        let (living, dead) = meaning(of: words, in: column, values.empty, name)
        var candidate = MarkCandidate(
            column: column, part: .living,
            facts: words.isEmpty
                ? "column \(column.name) has nothing in any of \(apple.count) rows of Apple's devices"
                : "column \(column.name) has \(values.list) in rows of Apple's devices")
        candidate.likelihood =
            name.markScore
            + (words.contains(where: ValueWords.isState) ? 3 : 0)
            + (isTyped || words.count == 2 && words.allSatisfy { ValueWords.flag($0) != nil }
                ? 1 : 0)
        candidate.doubt =
            name.isChoice
            ? "; its name is that of a person's choice, which a mark would overwrite" : ""
        if words.count == 1, values.empty > 0, living == words[0] {
            candidate.doubt +=
                "; rows with nothing in it would count as living, whatever the application means by that"
        }
        guard !values.areBytes else {
            candidate.doubt += "; its values are bytes, and no mark can be written as bytes"
            return candidate
        }
        let others = words.filter { word in
            ![living, dead].contains { $0?.isExactly(word) == true }
        }
        complete(&candidate, living, dead, others: others)
        return candidate
    }

    /// Fills in the setting of two words, unless the column cannot hold them or one is not known.
    private func complete(
        _ candidate: inout MarkCandidate, _ living: String?, _ dead: String?, others: [String]
    ) {
        let name = candidate.column.name
        let odd = (others + [living, dead].compactMap { $0 }).filter {
            PlainText.hasControlCharacter($0)
        }
        guard odd.isEmpty else {
            candidate.doubt +=
                "; no setting and no option can have the control character in \(MappingSearch.list(odd)), so "
                + "it cannot be the mark as it is"
            return
        }
        guard let living, let dead else {
            let (used, unused) = (living ?? "WORD", dead ?? "WORD")
            candidate.answer = LookAnswers.option(
                .flag(column: name, living: used, dead: unused))
            if candidate.answer == nil {
                candidate.setting = MappingSearch.flag(name, used, unused, others: others)
            }
            candidate.doubt +=
                "; name the word of \(dead == nil ? "unused" : "used") rows in place of WORD"
            return
        }
        do throws(StoreFailure) {
            _ = try ColumnResolver(
                table: table.catalog, dialect: table.dialect, group: "store.active-users"
            ).living(LivingMapping(column: name, living: living, dead: dead))
            candidate.setting = MappingSearch.flag(name, living, dead, others: others)
            candidate.answer = LookAnswers.option(.flag(column: name, living: living, dead: dead))
            if !others.isEmpty {
                candidate.doubt +=
                    "; rows with \(MappingSearch.list(others)) would count as living, for only one word is dead"
            }
        } catch {
            candidate.doubt +=
                candidate.column.isGenerated || candidate.column.movesItself
                ? "; the database itself sets it, so the mark can only be a column behind it"
                : "; its type \(candidate.column.declaration) cannot be written as a mark"
        }
    }

    /// The words of used and unused rows, as far as words, name and numbers tell.
    private func meaning(
        of words: [String], in column: CatalogColumn, _ empty: Int, _ name: ColumnWords
    ) -> (living: String?, dead: String?) {
        let members = column.members
        guard let first = words.first else {
            let (yes, no) = members.count == 2 ? (members[0], members[1]) : ("1", "0")
            return name.polarity == false ? (no, yes) : (yes, no)
        }
        let isNamedDead = name.polarity == false
        if words.count == 1 {
            let other =
                Self.opposite(first)
                ?? members.first { !$0.isExactly(first) && members.count == 2 }
            let isDead: Bool
            if ValueWords.isLiving(first) || ValueWords.isDead(first) {
                isDead = ValueWords.isDead(first)
            } else if let flag = ValueWords.flag(first), let polarity = name.polarity {
                isDead = flag != polarity
            } else {
                isDead = empty > apple.count / 2
            }
            return isDead ? (other, first) : (first, other)
        }
        if words.count == 2, let one = ValueWords.flag(words[0]),
            let other = ValueWords.flag(words[1]),
            one != other, name.polarity != nil
        {
            return one == !isNamedDead ? (words[0], words[1]) : (words[1], words[0])
        }
        let dead =
            ValueWords.deadest(words) ?? (words.count == 2 ? nil : ValueWords.deadest(members))
        func isSame(_ word: String, _ other: String?) -> Bool { other?.isExactly(word) == true }
        let living =
            words.first { !isSame($0, dead) && ValueWords.isLiving($0) }
            ?? words.first { !isSame($0, dead) }
        guard words.count == 2 else { return (living, dead) }
        return (living, dead ?? words.first { !isSame($0, living) })
    }

    /// The other word of a pair of yes and no.
    private static func opposite(_ word: String) -> String? {
        MappingSearch.opposite(word)
            ?? [
                "Yes": "No", "No": "Yes", "YES": "NO", "NO": "YES", "True": "False",
                "False": "True",
                "TRUE": "FALSE", "FALSE": "TRUE", "on": "off", "off": "on", "J": "N", "j": "n",
                "ja": "nein", "nein": "ja", "A": "D", "D": "A",
            ][word]
    }

    /// A column that is empty, or 0, in rows that are used, and has a value of its own in each that is not: who
    /// removed it, why, or its own key. No setting can name it.
    private func varying(_ column: CatalogColumn) -> MarkCandidate? {
        let name = ColumnWords(column.name)
        let words = table.words(column)
        guard name.polarity == false, !apple.isEmpty, words.count == table.rows.count else {
            return nil
        }
        let values = apple.compactMap { words[$0] }.filter { !$0.isExactly("0") }
        let kinds = Set(values.map(ExactText.init)).count
        guard kinds > 1, values.count * 2 <= apple.count else { return nil }
        var candidate = MarkCandidate(
            column: column, part: .living,
            facts:
                "column \(column.name) has \(kinds) values in \(values.count) of \(apple.count) rows of "
                + "Apple's devices and nothing, or 0, in the others")
        candidate.likelihood = name.markScore
        candidate.doubt =
            "; a mark has one value, so it can only be a column that is computed from it"
        return candidate
    }

    // MARK: Times

    /// A column of times that most rows lack.
    private func time(_ column: CatalogColumn) -> MarkCandidate? {
        let values = table.values(column.name)
        guard values.count == table.rows.count, !apple.isEmpty else { return nil }
        let none = TimePlaceholders(apple.map { values[$0] })
        let empty = apple.count { none.contains(values[$0]) }
        let name = ColumnWords(column.name)
        let look = TimeLook(column, of: table, without: none)
        let isClock = ["datetime", "timestamp"].contains(column.type)
        let isEmptyTime =
            empty == apple.count
            && (isClock || name.namesMarkTime || name.endsAsTime && name.polarity == false)
        guard look != nil || isEmptyTime, empty * 2 >= apple.count else { return nil }
        // A time that is to come says until when, and not since when.
        let ahead = look?.known.count { $0 > table.now.advanced(by: Self.day) } ?? 0
        guard ahead * 2 <= look?.known.count ?? 0 else { return nil }
        var candidate = MarkCandidate(
            column: column, part: .time,
            facts:
                "column \(column.name) has a time in \(apple.count - empty) of \(apple.count) rows of "
                + "Apple's devices and nothing in \(empty)")
        candidate.likelihood = name.markScore + (name.namesMarkTime ? 2 : 0)
        let isNoneRead = apple.allSatisfy {
            !none.contains(values[$0]) || none.isReadAsNone(values[$0], in: column, table.dialect)
        }
        if column.isGenerated || column.movesItself {
            candidate.doubt =
                "; the database itself sets it, so the mark can only be a column behind it"
        } else if !column.isNullable || !isNoneRead {
            candidate.doubt =
                "; rows without a time have no NULL in it, so it cannot be the mark as it is"
        } else if let look, look.mapped == nil {
            candidate.doubt = "; its times have a form in which no mark can be written"
        } else if look == nil, !isClock, column.isInteger || table.dialect.engine != .sqlite {
            candidate.doubt =
                "; no row has a time, so its type is unknown: name it with epoch-seconds or another type"
        } else {
            candidate.setting = MappingSearch.time(column.name, look?.mapped ?? nil)
            candidate.answer = LookAnswers.option(.time(column.name))
        }
        return candidate
    }

    private static let day: Int64 = 86_400_000
}

extension CatalogColumn {
    /// Whether the type is one of columns of two values.
    fileprivate var holdsTwoValues: Bool {
        if ["bool", "boolean"].contains(type) || members.count == 2 { return true }
        let declared = declaration.lowercased()
        return type == "bit" && ["bit", "bit(1)"].contains(declared)
            || declared.hasPrefix("tinyint(1)") || isText && length == 1
    }

    /// The members of an ENUM; empty for other types.
    fileprivate var members: [String] { type == "enum" ? declaration.quotedMembers : [] }
}

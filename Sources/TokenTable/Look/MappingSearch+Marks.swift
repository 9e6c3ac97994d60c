import APNsProtocol
import Database
import Encodings

// What says that a row is not used any more.

extension MappingSearch {
    // MARK: Mark

    /// A column of two values that says whether a row is used.
    private struct Flag {
        let column: CatalogColumn
        let living: String
        let dead: String
        /// Words that are neither.
        let others: [String]
    }

    mutating func findMark() {
        if takeMark() { return }
        let flags = free.filter {
            (ColumnWords($0.name).saysLiving != nil || ColumnWords($0.name).isPreference)
                && isWritable($0)
        }
        let times = free.filter { ColumnWords($0.name).namesMarkTime && isWritable($0) }
        if isOfPeople {
            guard let column = (flags + times).first else { return }
            return ask(
                .living, about: column.name,
                "column \(column.name) may say whether the person is active, not the device; name it under "
                    + "living only if a dead token means that")
        }
        // A word for yes before a word for no, both before a time.
        let order =
            flags.filter { ColumnWords($0.name).saysLiving == true }
            + flags.filter { ColumnWords($0.name).saysLiving == false }
        var open: [(CatalogColumn, String)] = []
        for column in flags where ColumnWords(column.name).isPreference {
            guard let found = words(column, atMost: 8) else { continue }
            open.append(
                (
                    column,
                    "column \(column.name) has \(Self.list(found.map(\.word))), and its name is that of a "
                        + "person's choice; name it under living only if it means that the token is used"
                ))
        }
        for column in order {
            guard words(column, atMost: 8) != nil else { continue }
            switch flag(column) {
            case .success(let flag): return add(flag)
            case .failure(let doubt): open.append((column, doubt.description))
            }
        }
        for column in times where addMarkTime(column) { return }
        for (column, question) in open { ask(.living, about: column.name, question) }
    }

    /// Whether the rows are more than devices.
    var isOfPeople: Bool {
        ColumnWords(table.catalog.name.name).isOfPeople
            || table.columns.contains { ColumnWords($0.name).isOfLogin }
    }

    private func isWritable(_ column: CatalogColumn) -> Bool {
        !column.isGenerated && !column.movesItself
    }

    private mutating func add(_ flag: Flag) {
        let name = flag.column.name
        proposal.mapping.living = LivingMapping(
            column: name, living: flag.living, dead: flag.dead)
        let others =
            flag.others.isEmpty
            ? ""
            : "; rows with \(Self.list(flag.others)) count as living, for only one word is dead"
        add(
            .living, name,
            Self.flag(name, flag.living, flag.dead),
            "the mark: most rows of Apple's devices have `\(flag.living)`\(others)")
    }

    private func flag(_ column: CatalogColumn) -> Result<Flag, Refusal> {
        guard let found = words(column, atMost: 8),
            let saysLiving = ColumnWords(column.name).saysLiving
        else { return .failure(Refusal("column \(column.name) has no values that tell")) }
        let words = found.map(\.word)
        let flags = words.compactMap(ValueWords.flag)
        if flags.count == words.count, words.count <= 2, let first = words.first {
            return pair(column, first, isLiving: flags[0] == saysLiving, count: found[0].count)
        }
        // Words: the most frequent one means a row that is used.
        let dead = ValueWords.deadest(words.dropFirst()) ?? declaredDead(column)
        guard ValueWords.isLiving(words[0]), let dead else {
            return .failure(
                Refusal(
                    "column \(column.name) has \(Self.list(words.prefix(8))); name the words of "
                        + "used and unused rows under living, where it is the mark"))
        }
        return .success(
            Flag(
                column: column, living: words[0], dead: dead,
                others: words.dropFirst().filter { $0 != dead }))
    }

    /// The two values of a flag, whose most frequent one is `word`.
    private func pair(
        _ column: CatalogColumn, _ word: String, isLiving: Bool, count: Int
    ) -> Result<Flag, Refusal> {
        // A status of numbers says nothing.
        guard let other = MappingSearch.opposite(word), !ColumnWords(column.name).isState else {
            return .failure(
                Refusal(
                    "column \(column.name) has `\(word)`; name its two values under living, "
                        + "where it is the mark"))
        }
        guard isLiving else {
            return .failure(
                Refusal(
                    "column \(column.name) has `\(word)` in \(count) of \(apple.count) rows of "
                        + "Apple's devices, which its name calls unused; name it under living if that "
                        + "is so"))
        }
        return .success(Flag(column: column, living: word, dead: other, others: []))
    }

    /// The word for an unused row among the members of an ENUM.
    private func declaredDead(_ column: CatalogColumn) -> String? {
        guard column.type == "enum" else { return nil }
        return ValueWords.deadest(column.declaration.quotedMembers)
    }

    /// Takes a column of times as the mark where most rows have none.
    private mutating func addMarkTime(_ column: CatalogColumn) -> Bool {
        let values = table.values(column.name)
        let empty = apple.count { TokenSample.isBlank(values[$0]) || values[$0].integer == 0 }
        guard empty * 2 >= apple.count, column.isNullable || empty == apple.count else {
            return false
        }
        let look = TimeLook(column, of: table)
        let isClock = ["datetime", "timestamp"].contains(column.type)
        let isFuture = look?.known.contains { $0 > table.now.advanced(by: Self.day) } == true
        let mayBeTime =
            isClock || dialect.engine == .sqlite && !column.isInteger && empty == apple.count
        guard !isFuture, look != nil || mayBeTime else { return false }
        var type: TimeColumnType?
        if let look {
            guard case .usable(let found) = look.form else {
                ask(
                    .invalidatedAt, about: column.name,
                    "column \(column.name) has times of marks in a form that cannot be written, so marks "
                        + "go to pushsweep_invalid")
                return false
            }
            type = found
        }
        proposal.mapping.invalidatedAt = TimeMapping(column: .named(column.name), type: type)
        add(
            .invalidatedAt, column.name, Self.time(column.name, type),
            "the mark: \(empty) of \(apple.count) rows of Apple's devices have none")
        return true
    }

    /// The value of `living` in settings.
    static func flag(_ column: String, _ living: String, _ dead: String) -> String {
        "{column: \(column.yamlScalar), living: \(living.yamlScalar), "
            + "dead: \(dead.yamlScalar)}"
    }

    /// The value of a time in settings.
    static func time(_ column: String, _ type: TimeColumnType?) -> String {
        guard let type else { return column.yamlScalar }
        return "{column: \(column.yamlScalar), type: \(type.rawValue)}"
    }
}

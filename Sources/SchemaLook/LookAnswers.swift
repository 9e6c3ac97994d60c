import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

// What a look cannot decide it asks, and a person answers on the command line of the next look. An answered
// part is taken as answered, because a person named it; but first the rows have to have what the answer says,
// since a mistyped word would leave out all rows, or mark with a word that no sender reads.

/// The parts of a mapping that a person has named; nil: the look finds or asks.
package struct LookAnswers: Hashable, Sendable {
    /// The time of the registration.
    package enum Registration: Hashable, Sendable {
        /// The column of this name.
        case column(String)
        /// The table has none.
        case absent
    }

    /// What says that a row is not used any more.
    package enum Mark: Hashable, Sendable {
        /// A column of two values.
        case flag(column: String, living: String, dead: String)
        /// A column of times.
        case time(String)
        /// No column of the table: marks go to `pushsweep_invalid`.
        case beside
    }

    /// Which rows are those of Apple's devices.
    package enum Platform: Hashable, Sendable {
        /// Those with this word in the column.
        case rows(column: String, word: String)
        /// All.
        case absent
    }

    package var table: TableName?
    /// The column of the tokens.
    package var token: String?
    package var registeredAt: Registration?
    package var mark: Mark?
    package var platform: Platform?

    /// Answers nothing.
    package init() {}

    /// The columns of a table that have a part by an answer.
    func columns(of table: CatalogTable) -> Set<String> {
        var names: [String] = []
        if case .column(let name) = registeredAt { names.append(name) }
        if case .rows(let name, _) = platform { names.append(name) }
        switch mark {
        case .flag(let name, _, _), .time(let name): names.append(name)
        case .beside, nil: break
        }
        return Set(names.compactMap { table.column($0)?.name })
    }

    /// The reason of a line that a person decided.
    static let reason = "as answered"
}

// How the answers are written on a command line.

extension LookAnswers {
    /// Reads `TABLE.COLUMN` or `SCHEMA.TABLE.COLUMN` as the place of the tokens.
    package mutating func setToken(_ text: String) throws(Refusal) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard (2...3).contains(parts.count), parts.allSatisfy({ !$0.isEmpty }) else {
            throw Refusal(
                "is TABLE.COLUMN, or SCHEMA.TABLE.COLUMN, and `\(text)` is neither; a name with a dot "
                    + "in it cannot stand in settings")
        }
        do {
            table = try TableName(
                parts.dropLast().joined(separator: "."), setting: "the table's name")
        } catch {
            throw Refusal("has a table's name that none can have: \(error.sentence)")
        }
        token = parts[parts.count - 1]
    }

    /// Reads `COLUMN` or `none` as the time of the registration.
    package mutating func setRegistration(_ text: String) throws(Refusal) {
        guard !text.isEmpty else { throw Refusal("is a column or none, and it is empty") }
        registeredAt = text == "none" ? .absent : .column(text)
    }

    /// Reads `COLUMN=LIVING/DEAD`, `COLUMN` or `none` as the mark.
    package mutating func setMark(_ text: String) throws(Refusal) {
        let form = "is COLUMN=LIVING/DEAD for two values, COLUMN for a time, or none"
        guard !text.isEmpty else { throw Refusal("\(form), and it is empty") }
        if text == "none" { return mark = .beside }
        guard let (column, words) = Self.parts(text, at: "=") else { return mark = .time(text) }
        guard let (living, dead) = Self.parts(words, at: "/"), !column.isEmpty, !living.isEmpty,
            !dead.isEmpty, !dead.utf8.contains(UInt8(ascii: "/"))
        else { throw Refusal("\(form), and `\(text)` is none of them") }
        guard !living.utf8.elementsEqual(dead.utf8) else {
            throw Refusal("has `\(living)` twice; give the value of used and that of unused rows")
        }
        mark = .flag(column: column, living: living, dead: dead)
    }

    /// Reads `COLUMN=WORD` or `none` as what tells Apple's rows.
    package mutating func setPlatform(_ text: String) throws(Refusal) {
        if text == "none" { return platform = .absent }
        guard let (column, word) = Self.parts(text, at: "="), !column.isEmpty, !word.isEmpty else {
            throw Refusal("is COLUMN=WORD or none, and `\(text)` is neither")
        }
        platform = .rows(column: column, word: word)
    }

    /// The option that answers so, as words of a shell; nil where no command line can say it.
    static func option(_ mark: Mark) -> String? {
        let text =
            switch mark {
            case .flag(let column, let living, let dead): "\(column)=\(living)/\(dead)"
            case .time(let column): column
            case .beside: "none"
            }
        return option("--mark", text) { answers throws(Refusal) in
            try answers.setMark(text)
            return answers.mark == mark
        }
    }

    static func option(_ registration: Registration) -> String? {
        let text =
            switch registration {
            case .column(let name): name
            case .absent: "none"
            }
        return option("--registered-at", text) { answers throws(Refusal) in
            try answers.setRegistration(text)
            return answers.registeredAt == registration
        }
    }

    static func option(_ platform: Platform) -> String? {
        let text =
            switch platform {
            case .rows(let column, let word): "\(column)=\(word)"
            case .absent: "none"
            }
        return option("--platform", text) { answers throws(Refusal) in
            try answers.setPlatform(text)
            return answers.platform == platform
        }
    }

    /// An option, where its own reader finds in it what is meant.
    private static func option(
        _ name: String, _ text: String, reads: (inout LookAnswers) throws(Refusal) -> Bool
    ) -> String? {
        var answers = LookAnswers()
        // Such a character cannot be in settings either, and a terminal shows another one.
        guard !PlainText.hasControlCharacter(text), (try? reads(&answers)) == true else {
            return nil
        }
        return text.asValue(of: name)
    }

    /// What stands before and after the first of a sign of ASCII; nil without it.
    private static func parts(_ text: String, at sign: Unicode.Scalar) -> (String, String)? {
        let scalars = text.unicodeScalars
        guard let place = scalars.firstIndex(of: sign) else { return nil }
        return (
            String(scalars[..<place]), String(scalars[scalars.index(after: place)...])
        )
    }
}

// Whether the table has what the answers name.

extension LookAnswers {
    /// Refuses an answer that the table contradicts. `hasRow` says whether a row that was not sampled has a
    /// word in a column.
    ///
    /// - Throws: `configuration` with what is there; any failure of `hasRow`.
    func ensureFit(
        _ table: LookedTable,
        hasRow: (CatalogColumn, String) throws(StoreFailure) -> Bool
    ) throws(StoreFailure) {
        if case .column(let name) = registeredAt {
            let column = try Self.column(name, "--registered-at", of: table)
            guard let look = TimeLook(column, of: table) else {
                throw Self.refusal(
                    "--registered-at", table,
                    "column \(column.name) has no times in the \(table.rows.count) rows read")
            }
            if case .unread(let words) = look.form {
                throw Self.refusal(
                    "--registered-at", table,
                    "column \(column.name) has \(words); let the application write a DATETIME, or "
                        + "seconds since 1970")
            }
        }
        if case .rows(let name, let word) = platform {
            let column = try Self.column(name, "--platform", of: table)
            try Self.ensure(word, in: column, "--platform", of: table, hasRow)
        }
        switch mark {
        case .flag(let name, let living, let dead):
            try Self.ensureFlag(name, living, dead, of: table, hasRow)
        case .time(let name): try Self.ensureTime(name, of: table)
        case .beside, nil: break
        }
    }

    private static func ensureFlag(
        _ name: String, _ living: String, _ dead: String, of table: LookedTable,
        _ hasRow: (CatalogColumn, String) throws(StoreFailure) -> Bool
    ) throws(StoreFailure) {
        let column = try column(name, "--mark", of: table)
        // What the settings would refuse, in the words of the settings.
        _ = try ColumnResolver(
            table: table.catalog, dialect: table.dialect, group: "store.active-users"
        ).living(LivingMapping(column: column.name, living: living, dead: dead))
        // Of one of the two no row may know yet. Any word beside them makes that one a mistake.
        let read = Set(table.words(column).compactMap { $0 })
        let isWhole = read.allSatisfy { word in
            [living, dead].contains { LookedTable.isWord(word, $0, of: column) }
        }
        if isWhole { return }
        try ensure(living, in: column, "--mark", of: table, hasRow)
        try ensure(dead, in: column, "--mark", of: table, hasRow)
    }

    private static func ensureTime(_ name: String, of table: LookedTable) throws(StoreFailure) {
        let column = try column(name, "--mark", of: table)
        let words = Set(table.words(column).compactMap { $0 })
        let look = TimeLook(column, of: table)
        let isClock = ["datetime", "timestamp"].contains(column.type)
        guard look != nil || isClock || words.isEmpty else {
            throw refusal(
                "--mark", table,
                "column \(column.name) has no times but \(MappingSearch.list(words.sorted().prefix(8))); "
                    + "for a column of two values write "
                    + (option(.flag(column: column.name, living: "LIVING", dead: "DEAD"))
                        ?? "living into the settings"))
        }
        if let look, look.mapped == nil {
            throw refusal(
                "--mark", table,
                "column \(column.name) has times in a form in which none can be written; write --mark none "
                    + "for marks in pushsweep_invalid")
        }
        if column.isGenerated || column.movesItself {
            throw refusal(
                "--mark", table,
                "the database itself sets column \(column.name), so no mark can be set in it")
        }
        if look == nil, !isClock, column.isInteger || table.dialect.engine != .sqlite {
            throw refusal(
                "--mark", table,
                "column \(column.name) (\(column.declaration)) has no time in any row read, so its unit is "
                    + "unknown; write invalidated-at with its type into the settings")
        }
    }

    private static func column(
        _ name: String, _ option: String, of table: LookedTable
    ) throws(StoreFailure) -> CatalogColumn {
        guard let column = table.catalog.column(name) else {
            throw refusal(
                option, table,
                "there is no column \(name.prefix(64)) that the account may see, only "
                    + table.catalog.columns.prefix(40).map(\.name).joined(separator: ", "))
        }
        guard table.columns.contains(where: { $0.name == column.name }) else {
            throw refusal(option, table, "the account may not read column \(column.name)")
        }
        return column
    }

    private static func ensure(
        _ word: String, in column: CatalogColumn, _ option: String, of table: LookedTable,
        _ hasRow: (CatalogColumn, String) throws(StoreFailure) -> Bool
    ) throws(StoreFailure) {
        var counts: [ExactText: Int] = [:]
        for word in table.words(column).compactMap({ $0 }) {
            counts[ExactText(word), default: 0] += 1
        }
        let isThere = counts.keys.contains { LookedTable.isWord($0.string, word, of: column) }
        if isThere { return }
        guard try !hasRow(column, word) else { return }
        let found = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        throw refusal(
            option, table,
            "no row has `\(word.prefix(64))` in column \(column.name); "
                + (found.isEmpty
                    ? "it has no words in the rows read"
                    : "the rows read have "
                        + found.prefix(8).map { "`\($0.key.string.prefix(64))` (\($0.value))" }
                        .joined(separator: ", ") + (found.count > 8 ? ", ..." : "")))
    }

    private static func refusal(
        _ option: String, _ table: LookedTable, _ reason: String
    ) -> StoreFailure {
        StoreFailure(
            .configuration, "taking \(option) for \(table.catalog.name): \(reason)")
    }
}

// An answer in place of a search.

extension MappingSearch {
    /// Takes the platform that a person named; false where nobody did.
    mutating func takePlatform() -> Bool {
        switch answers.platform {
        case nil: return false
        case .absent: return true
        case .rows(let name, let word):
            guard let column = table.catalog.column(name) else { return false }
            let words = table.words(column)
            apple = apple.filter {
                words[$0].map { LookedTable.isWord($0, word, of: column) } == true
            }
            proposal.mapping.platform = PlatformMapping(column: column.name, value: word)
            add(
                .platform, column.name,
                "{column: \(column.name.yamlScalar), value: \(word.yamlScalar)}",
                LookAnswers.reason)
            return true
        }
    }

    /// Takes the registration that a person named; false where nobody did.
    mutating func takeRegistration() -> Bool {
        switch answers.registeredAt {
        case nil: return false
        case .absent:
            proposal.mapping.registeredAt.column = .absent
            add(
                .registeredAt, nil, "none",
                "\(LookAnswers.reason): a device that registers again can be marked by an older signal"
            )
            return true
        case .column(let name):
            guard let column = table.catalog.column(name), let look = TimeLook(column, of: table)
            else { return false }
            addAnswered(look)
            return true
        }
    }

    /// Takes the mark that a person named; false where nobody did.
    mutating func takeMark() -> Bool {
        switch answers.mark {
        case nil: return false
        case .beside:
            proposal.mapping.invalidatedAt.column = .absent
            add(
                .invalidatedAt, nil, "none",
                "\(LookAnswers.reason): \(MarksBeside.sentence)")
        case .flag(let name, let living, let dead):
            guard let column = table.catalog.column(name) else { return false }
            let words = table.words(column)
            let others = Set(apple.compactMap { words[$0] }).filter { read in
                ![living, dead].contains { LookedTable.isWord(read, $0, of: column) }
            }.sorted()
            proposal.mapping.living = LivingMapping(
                column: column.name, living: living, dead: dead, others: others)
            let gone = apple.count {
                words[$0].map { LookedTable.isWord($0, dead, of: column) } == true
            }
            add(
                .living, column.name, Self.flag(column.name, living, dead, others: others),
                "\(LookAnswers.reason): \(gone) of \(apple.count) rows of Apple's devices have `\(dead)`"
                    + (others.isEmpty ? "" : ", and rows with the others count as living")
                    + (gone * 2 > apple.count
                        ? "; those are most, so a run refuses them until living and dead are exchanged, or "
                            + "mostly-dead: true is written there" : ""))
        case .time(let name):
            guard let column = table.catalog.column(name) else { return false }
            let type = TimeLook(column, of: table)?.mapped ?? nil
            proposal.mapping.invalidatedAt = TimeMapping(column: .named(column.name), type: type)
            let values = table.values(column.name)
            let empty = apple.count { TokenSample.isBlank(values[$0]) }
            add(
                .invalidatedAt, column.name, Self.time(column.name, type),
                "\(LookAnswers.reason): \(empty) of \(apple.count) rows of Apple's devices have none"
            )
        }
        return true
    }
}

import Database
import Encodings
import TokenTable

// What a mapping leaves out is told, with the number of rows: tokens in another form, rows of another word of
// the platform with a token of Apple's form, rows that belong to no app.

/// Rows that a mapping leaves out although their tokens have Apple's form.
struct LeftOutRows {
    /// The rows by what they have in the column that leaves them out.
    let counts: [(kind: String, count: Int)]

    var total: Int { counts.reduce(0) { $0 + $1.count } }

    /// Counts rows by their values in a column, without those that are taken.
    init(
        _ rows: some Sequence<Int>, by column: CatalogColumn, of table: LookedTable,
        taking isTaken: (String) -> Bool
    ) {
        let values = table.values(column.name)
        var counts: [ExactText: Int] = [:]
        for row in rows where row < values.count {
            let word = LookedTable.word(values[row], of: column)
            if let word, isTaken(word) { continue }
            counts[ExactText(Self.kind(values[row], word)), default: 0] += 1
        }
        self.counts = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { (kind: $0.key.string, count: $0.value) }
    }

    private static func kind(_ value: SQLValue, _ word: String?) -> String {
        if value == .null { return "NULL" }
        guard let word else { return value.text?.isEmpty == true ? "an empty text" : "no word" }
        return "`\(word.prefix(40))`"
    }

    /// Such as "12 rows have `web` and 7 have NULL in platform"; nil for none.
    func words(in column: String) -> String? {
        guard let first = counts.first else { return nil }
        let rows = first.count == 1 ? "row has" : "rows have"
        let more = counts.dropFirst().prefix(4).map {
            "\($0.count) \($0.count == 1 ? "has" : "have") \($0.kind)"
        }
        let rest = counts.count > 5 ? ", and others more" : ""
        return (["\(first.count) \(rows) \(first.kind)"] + more).joined(separator: ", ")
            + "\(rest) in \(column)"
    }
}

extension MappingSearch {
    /// Tells what tokens of Apple's rows are in another form than most.
    mutating func tellOtherForms() {
        let values = table.values(token.column.name)
        var rows = Array(values.indices)
        if let name = proposal.mapping.platform.column, let word = proposal.mapping.platform.value,
            let column = table.catalog.column(name)
        {
            let words = table.words(column)
            rows = rows.filter {
                words[$0].map { LookedTable.isWord($0, word, of: column) } == true
            }
        }
        var counts: [TokenForm: Int] = [:]
        for row in rows {
            if let form = TokenForm(values[row], of: token.column), form != token.form {
                counts[form, default: 0] += 1
            }
        }
        for (form, count) in counts.sorted(by: {
            ($1.value, $0.key.words) < ($0.value, $1.key.words)
        }) {
            switch form {
            case .spelled(.several):
                let fact = "\(count) of \(token.filled) values have \(form.words)"
                let cure = "no signal finds those; \(UnfindableSpelling.oneRowEach)"
                guard count * 100 >= token.filled else {
                    explain(.token, "\(fact): \(cure)")
                    continue
                }
                ask(.token, about: token.column.name, "\(fact), and \(cure)")
            case .spelled(let spelling) where token.form.isSearchable:
                let isRewritten = spelling != .base64 || dialect.engine == .mariaDB
                explain(
                    .token,
                    "\(count) are \(form.words), which no search finds"
                        + (isRewritten ? "; `check` says how to rewrite them" : ""))
            default: explain(.token, "\(count) are \(form.words), which no signal finds")
            }
        }
    }

    /// Tells what rows of Apple's tokens no app takes.
    mutating func tellLeftOut() {
        tellPlatform()
        if case .named(let name) = proposal.mapping.environment,
            let column = table.catalog.column(name)
        {
            let usual = ["production", "sandbox"]
            let words = usual.map { proposal.mapping.environmentValues[$0] ?? $0 }
            tell(
                .environment, column,
                LeftOutRows(apple, by: column, of: table) { words.contains(exactly: $0) })
        }
        if case .named(let name) = proposal.mapping.app, let column = table.catalog.column(name) {
            let apps = proposal.apps
            tell(
                .app, column,
                LeftOutRows(apple, by: column, of: table) { apps.contains(exactly: $0) })
        }
    }

    private mutating func tell(
        _ part: MappingProposal.Line.Part, _ column: CatalogColumn, _ rows: LeftOutRows
    ) {
        guard let words = rows.words(in: column.name) else { return }
        explain(part, "\(words): no app takes \(rows.total == 1 ? "it" : "them")")
    }

    private mutating func tellPlatform() {
        guard let name = proposal.mapping.platform.column,
            let column = table.catalog.column(name)
        else { return }
        let values = table.values(token.column.name)
        let mine = values.indices.filter { token.isApple(values[$0]) == true }
        let taken = takenPlatforms
        let rows = LeftOutRows(mine, by: column, of: table) { taken.contains(exactly: $0) }
        guard let words = rows.words(in: column.name) else { return }
        let fact = "\(words) and a token of Apple's form"
        guard rows.total > 2, rows.total * 100 >= apple.count, answers.platform == nil else {
            return explain(
                .platform, "\(fact): no signal reaches \(rows.total == 1 ? "it" : "them")")
        }
        ask(
            .platform, about: column.name,
            "\(fact), and no signal reaches them: where they are of Apple's devices, correct the rows, or "
                + "add a generated column that is 1 for all of Apple's words and name it under platform"
        )
    }

    /// The words of the platform that are taken or asked about already.
    private var takenPlatforms: [String] {
        platforms + [proposal.mapping.platform.value].compactMap { $0 }
    }
}

import APNsProtocol
import Database
import Encodings
import Findings

// What the values of two columns say about the settings. A run reads them too, with the rights that it has,
// and refuses what the rows contradict: under a wrong mapping every device would be judged wrongly.

/// The times of registrations in a sample of rows.
struct RegistrationSample {
    /// The times from which on most of them say what the column is.
    static let enough = 20

    private let column: TimeColumn
    private let now: EpochMilliseconds
    private let total: Int
    private var unreadable = 0
    private var milliseconds = 0
    private var known = 0
    /// Times later than five minutes after the present, and later than a day.
    private var ahead = 0
    private var farAhead = 0
    /// The latest of the times that can be read; nil without one.
    private(set) var newest: EpochMilliseconds?
    private var newestAhead: EpochMilliseconds?

    init(_ column: TimeColumn, _ values: [SQLValue], now: EpochMilliseconds) {
        (self.column, self.now, total) = (column, now, values.count)
        for value in values { add(value) }
    }

    private mutating func add(_ value: SQLValue) {
        if column.isUnreadable(value) {
            unreadable += 1
        } else if let time = column.registration(value) {
            known += 1
            newest = max(newest ?? time, time)
            // A date counts as the end of its day.
            let isDay = column.isEndOfDay(time) && time < now.advanced(by: 2 * 86_400_000)
            if isDay { return }
            if time > now.advanced(by: 5 * 60_000) {
                ahead += 1
                newestAhead = max(newestAhead ?? time, time)
            }
            if time > now.advanced(by: 86_400_000) { farAhead += 1 }
        }
        if column.storage == .epochSeconds, let number = value.integer,
            number >= TimeColumn.leastMilliseconds
        {
            milliseconds += 1
        }
    }

    func findings(of table: TableName) -> [Finding] {
        form(of: table) + future(of: table) + missing(of: table)
    }

    /// A warning where most rows have no time.
    private func missing(of table: TableName) -> [Finding] {
        let without = total - known - unreadable
        guard known > 0, total >= Self.enough, without * 2 > total else { return [] }
        return [
            .warning(
                "no-registration-time",
                "column \(column.name) of \(table): \(without) of \(total) rows sampled have no time, and any "
                    + "signal marks such a row, however old it is; write the time whenever a device registers, "
                    + "or name under store.active-users.registered-at the column that most rows have"
            )
        ]
    }

    private func form(of table: TableName) -> [Finding] {
        let odd = milliseconds > 0 ? milliseconds : unreadable
        guard odd > 0 else { return [] }
        let isSeconds = column.storage == .epochMilliseconds
        let (what, cure) =
            milliseconds > 0
            ? ("milliseconds, not the seconds declared", "declare type epoch-milliseconds")
            : isSeconds
                ? ("seconds, not the milliseconds declared", "declare type epoch-seconds")
                : ("no times", "declare the column's type")
        let found =
            "column \(column.name) of \(table): \(odd) of \(total) values sampled are \(what); "
        // A wrong unit affects most values; a few odd values are errors in their rows.
        return [
            odd * 2 >= total
                ? .failure(
                    .configuration, found + "\(cure), or correct the rows",
                    rule: "unreadable-values")
                : .warning(
                    "unreadable-values",
                    found + "signals about their rows are counted as refused and change nothing; "
                        + "correct the rows")
        ]
    }

    private func future(of table: TableName) -> [Finding] {
        guard ahead > 0, let newest = newestAhead else { return [] }
        // A few rows may have the times of tests.
        let isFuture = known >= Self.enough && farAhead * 4 >= known * 3
        let found =
            "column \(column.name) of \(table): \(isFuture ? farAhead : ahead) of \(known) times "
            + "sampled are in the future"
        if isFuture {
            return [
                .failure(
                    .configuration,
                    found
                        + ", so it is not the time of a registration, and no signal would ever be later; "
                        + "name another column under store.active-users.registered-at, or `none`",
                    isAboutRows: true, rule: "unreadable-values")
            ]
        }
        let zone = ZoneOffset(ahead: newest.distance(from: now))
        let isZone = zone != nil && column.storage.isClock
        return [
            .warning(
                "unreadable-values",
                found + ", and signals about their rows are ignored until then; "
                    + (isZone
                        ? "where the application writes local time, name its zone (store.active-users."
                            + "registered-at.zone, such as \(zone ?? .utc)), else " : "")
                    + "look for a wrong clock")
        ]
    }
}

extension TimeColumn {
    /// Whether a time is in the last second of a day of the column's own clock, as that of a column made
    /// from a date.
    fileprivate func isEndOfDay(_ time: EpochMilliseconds) -> Bool {
        let offset: Int
        switch storage {
        case .wallClock(_, let own), .text(let own): offset = own
        case .epochSeconds, .epochMilliseconds: return false
        }
        let day: Int64 = 86_400_000
        let shifted = time.rawValue.addingReportingOverflow(Int64(offset) * 1_000).partialValue
        return (shifted % day + day) % day >= day - 1_000
    }
}

extension TimeColumn.Storage {
    /// Whether the values have no zone of their own.
    fileprivate var isClock: Bool {
        switch self {
        case .wallClock, .text: true
        case .epochSeconds, .epochMilliseconds: false
        }
    }
}

/// The values of a column of two in a sample of rows. What they say does not depend on names: with living and
/// dead exchanged each report finds its row dead already and is used up, and the application's own dead rows
/// count as living under any word but the one that the settings call dead.
struct LivingSample {
    /// The rows from which on most of them say what a value means.
    private static let enough = 8
    /// One in so many rows with a word that no setting names is no mistake in a row.
    private static let share = 100
    private static let fewest = 3

    private let column: LivingColumn
    private let dead: Int
    private let total: Int
    /// The rows by another value than those of the settings.
    private var others: [ExactText: Int] = [:]
    /// Rows that this program has marked itself.
    var own = 0
    /// Whether marks of this program tell by themselves that the two values are exchanged.
    var areExchanged = false

    init(_ column: LivingColumn, _ values: [SQLValue]) {
        self.column = column
        total = values.count
        dead = values.count(where: column.isDead)
        for value in values where !column.isKnown(value) {
            let compared = column.compared(value)
            let word = compared.text ?? compared.integer.map(String.init) ?? "bytes"
            others[ExactText(word), default: 0] += 1
        }
    }

    /// Whether most rows are dead, by whatever mark.
    var isMostlyDead: Bool { dead * 2 > total }

    func findings(of table: TableName, _ words: LivingMapping) -> [Finding] {
        exchange(table, words) + unknown(table, words)
    }

    private func exchange(_ table: TableName, _ words: LivingMapping) -> [Finding] {
        // Marks of this program would not be there if no report had found its row living.
        guard !areExchanged, isMostlyDead, (dead - own) * 2 > total, !words.mostlyDead else {
            return []
        }
        let sentence =
            "column \(column.name) of \(table): \(dead) of \(total) rows sampled have "
            + "`\(words.dead ?? "")`, the value for tokens that are not used, and a report about those is "
            + "used up without a change: living and dead are exchanged, or most rows are dead; exchange "
            + "the two under store.active-users.living, or write mostly-dead: true there"
        guard total >= Self.enough else { return [.warning("mark-column-in-doubt", sentence)] }
        return [
            .failure(
                .configuration, sentence, isAboutRows: true, rule: "mark-column-in-doubt")
        ]
    }

    private func unknown(_ table: TableName, _ words: LivingMapping) -> [Finding] {
        guard !others.isEmpty else { return [] }
        let count = others.values.reduce(0, +)
        let list = others.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(8)
            .map { "`\($0.key.string.prefix(64))` (\($0.value))" }.joined(separator: ", ")
        let sentence =
            "column \(column.name) of \(table): \(count) of \(total) rows sampled have \(list), which "
            + "\(others.count == 1 ? "is" : "are") neither living `\(words.living ?? "")` nor dead "
            + "`\(words.dead ?? "")` and would count as living; name under "
            + "store.active-users.living.dead the value of tokens that are not used, and under others "
            + "each further value of tokens that are"
        guard count >= Self.fewest, count * Self.share >= total else {
            return [.warning("mark-column-in-doubt", sentence)]
        }
        return [
            .failure(
                .configuration, sentence, isAboutRows: true, rule: "mark-column-in-doubt")
        ]
    }
}

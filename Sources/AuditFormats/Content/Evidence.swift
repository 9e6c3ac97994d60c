// Evidence comes by day and source: 400 days from six sources are 2,400 entries. For people they are
// drawn together twice: into spans of days, as few as a chart or a table can show, and into outcomes.
// Both have the same sum as the entries, because each entry goes into exactly one span. An entry whose
// day is no date counts at the end of the period, so that it is not lost.

import Encodings
import Looks

/// The outcomes of evidence, with their names for people.
struct EvidenceOutcome: Sendable {
    let name: String
    /// Of a column.
    let heading: String
    let count: @Sendable (EvidenceDay) -> Int

    /// The outcomes that some entries have; what was taken back is only named where there is any.
    static func all(of entries: [EvidenceDay]) -> [EvidenceOutcome] {
        entries.contains { $0.undone != nil } ? all : all.filter { $0.heading != "Undone" }
    }

    private static let all = [
        EvidenceOutcome(name: "became invalid", heading: "Became invalid") { $0.standing },
        EvidenceOutcome(name: "became invalid, undone since", heading: "Undone") {
            $0.applied - $0.standing
        },
        EvidenceOutcome(name: "already invalid", heading: "Already invalid", count: \.already),
        EvidenceOutcome(name: "kept, registered later", heading: "Kept", count: \.newer),
        EvidenceOutcome(name: "in no row", heading: "In no row", count: \.unknown),
        EvidenceOutcome(name: "refused by the table", heading: "Refused", count: \.refused),
    ]
}

extension EvidenceDay {
    /// Reports that made a row invalid and were not undone.
    var standing: Int { Swift.max(0, applied - Swift.max(0, undone ?? 0)) }

    /// All evidence of the entry.
    var total: Int {
        // Without an array: a page adds up 100,000 entries.
        applied.adding(already).adding(newer).adding(unknown).adding(refused)
    }
}

/// Evidence by spans of days and by source.
struct EvidenceSpans: Hashable, Sendable {
    /// One span.
    struct Span: Hashable, Sendable {
        /// Its first day, such as `2026-11-23`.
        var name: String
        /// Evidence by source, in the order of `sources`.
        var counts: [Int]
        /// Evidence of all sources.
        var total: Int { counts.total }
    }

    /// The sources, the one with most evidence first; the last may be `other sources`.
    let sources: [String]
    /// The spans from the oldest to the latest, also those without evidence.
    let spans: [Span]
    /// The number of days in a span.
    let days: Int

    /// Draws entries together into a few spans and sources.
    ///
    /// - Parameters:
    ///   - entries: entries in any order.
    ///   - since: the beginning of the period, RFC 3339.
    ///   - until: the end of the period, RFC 3339.
    ///   - limit: the largest number of spans, at least one.
    ///   - sources: the largest number of sources, at least two; the last of them is then
    ///     `other sources`.
    init(
        _ entries: [EvidenceDay], since: String, until: String, limit: Int, sources most: Int = 7
    ) {
        let entries = entries.filter { $0.total > 0 }
        let sources = Self.sources(entries, most)
        self.sources = sources
        let places = Dictionary(uniqueKeysWithValues: zip(sources, sources.indices))
        let end = Self.number(until) ?? 0
        let numbers = entries.map { Self.number($0.day) ?? end }
        guard var first = numbers.min(), var last = numbers.max() else {
            (days, spans) = (1, [])
            return
        }
        // A short period is shown whole. Of a long one only the days since the first evidence: ten
        // years without any would leave no room for the rest.
        if let since = Self.number(since), let until = Self.number(until),
            since <= first, until >= last, until - since < limit
        {
            (first, last) = (since, until)
        }
        let days = Self.step(for: last - first + 1, limit: limit)
        self.days = days
        var spans = (0...(last - first) / days).map { index in
            let name = RFC3339.text(Int64(first + index * days) * 86_400).prefix(10)
            return Span(name: String(name), counts: Array(repeating: 0, count: sources.count))
        }
        for (entry, day) in zip(entries, numbers) {
            let place = places[entry.source] ?? sources.count - 1
            let index = (day - first) / days
            spans[index].counts[place] = spans[index].counts[place].adding(entry.total)
        }
        self.spans = spans
    }

    /// `Evidence per day`, `per week`, or per a number of days.
    var title: String {
        switch days {
        case 1: "Evidence per day by source"
        case 7: "Evidence per week by source"
        default: "Evidence per \(days) days by source"
        }
    }

    /// The figures as a table: a row for each span with evidence.
    var table: FigureTable {
        FigureTable(
            title, [days == 1 ? "Day" : "From"] + sources + (sources.count > 1 ? ["Total"] : []),
            spans.filter { $0.total > 0 }.map { span in
                [.text(span.name)] + span.counts.map { .number($0) }
                    + (sources.count > 1 ? [.number(span.total)] : [])
            })
    }

    private static func sources(_ entries: [EvidenceDay], _ most: Int) -> [String] {
        var totals: [String: Int] = [:]
        for entry in entries {
            totals[entry.source, default: 0] = totals[entry.source, default: 0].adding(entry.total)
        }
        let sorted = totals.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let names = sorted.map(\.key)
        return names.count <= most ? names : names.prefix(most - 1) + ["other sources"]
    }

    /// Whole days, then weeks, then as many days as needed.
    private static func step(for days: Int, limit: Int) -> Int {
        if days <= limit { return 1 }
        return max(7, (days + limit - 1) / limit)
    }

    /// The number of a day from 1970-01-01; nil for a text that is no date of four digits.
    private static func number(_ text: String) -> Int? {
        let parts = text.prefix(10).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [4, 2, 2],
            parts.allSatisfy({ $0.utf8.allSatisfy(DecimalDigits.isDigit) }),
            let year = Int(parts[0]), let month = Int(parts[1]), let day = Int(parts[2]),
            (1...12).contains(month), (1...CivilDate.days(inMonth: month, of: year)).contains(day)
        else { return nil }
        return CivilDate(year: year, month: month, day: day).daysSince1970
    }
}

// A report has no bound: apps, findings, sources and the lengths of names come from settings and tables. The
// page has one: 300,000 bytes, so that mail and chat take it. So it is written with generous limits first
// and with tighter ones while it is too large. The tightest limits bound the page for any report,
// because each list and each text in it has a limit of its own.

/// What a page lists at most.
struct PageLimits: Hashable, Sendable {
    /// The size of a page in bytes that no report exceeds.
    static let bytes = 300_000

    /// Problems with their causes and next steps.
    var problems: Int
    /// Notes, findings that are well, gaps: each.
    var quiet: Int
    /// Rows of the table of all apps.
    var apps: Int
    /// Apps with tables of their own.
    var sections: Int
    /// Apps with charts of their own.
    var charts: Int
    /// Rows of any other table, and bars of a chart.
    var rows: Int
    /// Objects of one finding.
    var objects: Int
    /// Characters of a sentence.
    var sentence: Int
    /// Characters of a name.
    var name: Int

    /// From generous to tight.
    static let ladder = [
        PageLimits(
            problems: 60, quiet: 60, apps: 100, sections: 50, charts: 12, rows: 60, objects: 8,
            sentence: 600,
            name: 120),
        PageLimits(
            problems: 60, quiet: 60, apps: 100, sections: 40, charts: 4, rows: 30, objects: 6,
            sentence: 400,
            name: 80),
        PageLimits(
            problems: 40, quiet: 30, apps: 60, sections: 20, charts: 0, rows: 20, objects: 6,
            sentence: 300,
            name: 60),
        PageLimits(
            problems: 20, quiet: 10, apps: 30, sections: 6, charts: 0, rows: 12, objects: 4,
            sentence: 240,
            name: 40),
        PageLimits(
            problems: 10, quiet: 5, apps: 15, sections: 2, charts: 0, rows: 8, objects: 4,
            sentence: 160,
            name: 32),
    ]
}

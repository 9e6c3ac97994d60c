import Database
import TokenHygiene

extension TokenTable {
    /// The number of rows in the sample.
    private static let sampleSize = 1_000

    /// Reads some rows and checks whether their tokens and times have the form that the settings
    /// state. The key is selected too, so that the engine reads rows in their stored order and not
    /// the smallest tokens.
    func sample(_ layout: TableLayout, into report: inout StoreReport) throws(StoreFailure) {
        let dialect = connection.dialect
        var names = [layout.token.name]
        if let registration = layout.registration { names.append(registration.name) }
        names += layout.key.map(\.name)
        let list = names.map(dialect.quoted).joined(separator: ", ")
        let sql = "SELECT \(list) FROM \(layout.table.sql(dialect)) LIMIT \(Self.sampleSize)"
        let rows = try retries.retrying("sampling rows of \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(sql)
        }
        var sample = TokenSample()
        var misplaced = 0
        var unreadable = 0
        var milliseconds = 0
        for row in 0..<rows.count {
            sample.add(rows[row, 0])
            if layout.token.isMisplaced(rows[row, 0]) { misplaced += 1 }
            guard let registration = layout.registration else { continue }
            if registration.isUnreadable(rows[row, 1]) { unreadable += 1 }
            if registration.storage == .epochSeconds,
                let value = rows[row, 1].integer, value >= TimeColumn.leastMilliseconds
            {
                milliseconds += 1
            }
        }
        report.sample = sample
        report.findings += Self.findings(on: sample, misplaced: misplaced, layout)
        if let registration = layout.registration {
            report.findings += Self.findings(
                unreadable: unreadable, milliseconds: milliseconds, of: rows.count, registration,
                layout)
        }
    }

    private static func findings(
        on sample: TokenSample, misplaced: Int, _ layout: TableLayout
    ) -> [StoreFinding] {
        let column = "column \(layout.token.name) of \(layout.table)"
        let spelled = sample.total - sample.count(.blank, .placeholder)
        let hex = sample.count(.lowerHex, .upperHex, .mixedHex)
        let list = TokenSample.Spelling.allCases.compactMap { spelling in
            sample.counts[spelling].map { "\(spelling.rawValue): \($0)" }
        }.joined(separator: ", ")
        guard sample.total > 0 else {
            return [
                StoreFinding(
                    .warning,
                    "\(layout.table) has no rows; unless no device has registered yet, correct "
                        + "store.active-users.table or the database in store.url")
            ]
        }
        guard spelled > 0 else {
            return [StoreFinding(.ok, "\(column): no tokens among \(sample.total) rows sampled")]
        }
        let fitting =
            layout.token.encoding == .binary
            ? sample.count(.bytes) : hex - misplaced + sample.count(.grouped)
        if fitting * 2 < spelled {
            return [
                StoreFinding(
                    .failure(.configuration),
                    "\(column): encoding \(layout.token.encoding.rawValue) fits \(fitting) of "
                        + "\(spelled) tokens sampled (\(list)); correct the encoding under "
                        + "store.active-users.token, or convert the column")
            ]
        }
        let unfindable =
            spelled - (layout.token.encoding == .binary ? fitting : hex - misplaced)
            + (layout.token.tellsCaseApart ? sample.count(.mixedHex) : 0)
        let severity: StoreFinding.Severity = unfindable > 0 ? .warning : .ok
        let note = unfindable > 0 ? "; no signal finds \(unfindable) of them" : ""
        return [
            StoreFinding(
                severity, "\(column): of \(sample.total) rows sampled, stored as \(list)\(note)")
        ]
    }

    private static func findings(
        unreadable: Int, milliseconds: Int, of total: Int, _ registration: TimeColumn,
        _ layout: TableLayout
    ) -> [StoreFinding] {
        let column = "column \(registration.name) of \(layout.table)"
        let odd = milliseconds > 0 ? milliseconds : unreadable
        guard odd > 0 else { return [] }
        // A wrong unit affects most values; a few odd values are errors in their rows.
        let isMost = odd * 2 >= total
        let severity: StoreFinding.Severity = isMost ? .failure(.configuration) : .warning
        let isSeconds = registration.storage == .epochMilliseconds
        let what: String
        let type: String
        if milliseconds > 0 {
            (what, type) = (
                "milliseconds, not the seconds declared", "declare type epoch-milliseconds"
            )
        } else if isSeconds {
            (what, type) = ("seconds, not the milliseconds declared", "declare type epoch-seconds")
        } else {
            (what, type) = ("no times", "declare the column's type")
        }
        return [
            StoreFinding(
                severity,
                "\(column): \(odd) of \(total) values sampled are \(what); "
                    + (isMost
                        ? "\(type), or correct the rows"
                        : "signals about their rows are counted as refused and change nothing; correct "
                            + "the rows"))
        ]
    }
}

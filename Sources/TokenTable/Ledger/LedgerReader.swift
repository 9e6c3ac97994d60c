import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Reads the ledger: its entries, and the numbers of the transactions that wrote them.
struct LedgerReader {
    let connection: any SQLConnection

    /// Entries of one statement for those who read many.
    static let page = 5_000
    /// The most characters of an image that are read for a person; a longer one tells no details.
    private static let longestImage = 65_536

    // MARK: Entries

    private static let columns =
        "run, feed, part, seq, action, row_key, evidence_at, source, changed_at, token, state, "
        + "before_image IS NOT NULL, " + isCompanion("pushsweep_change")

    /// Whether an entry of a table is about the time beside a row that has an entry of its own: a device
    /// whose row has a column of two values takes two entries, and counts once. The plus keeps SQLite's search
    /// on the index over tokens, where the key would lead through all entries of the run; servers drop the
    /// plus and choose by their statistics.
    static func isCompanion(_ entry: String) -> String {
        "(\(entry).seq >= 0 AND \(entry).action IN ('side-mark', 'side-restore') "
            + "AND (\(entry).state IS NULL OR \(entry).action = 'side-restore') "
            + "AND EXISTS (SELECT 1 FROM pushsweep_change r WHERE r.token = \(entry).token "
            + "AND +r.run = \(entry).run AND +r.feed = \(entry).feed AND +r.part = \(entry).part "
            + "AND r.seq >= 0 AND r.action NOT IN ('side-mark', 'side-restore')))"
    }

    private func select(
        _ condition: String, _ values: [SQLValue], image: String = "NULL"
    ) throws(SQLFailure) -> [LedgerEntry] {
        let rows = try connection.query(
            "SELECT \(Self.columns), \(image) FROM pushsweep_change WHERE \(condition)", values)
        try rows.require(width: 14)
        let time = connection.dialect.ownTime("changed_at")
        return (0..<rows.count).map { row in
            LedgerEntry(
                place: rows.place(row, 0), sequence: rows[row, 3].integer ?? 0,
                action: rows.string(row, 4), storedKey: ExactText(rows.string(row, 5)),
                evidence: time.mark(rows[row, 6]) ?? EpochMilliseconds(0),
                source: rows.string(row, 7),
                changed: time.mark(rows[row, 8]) ?? EpochMilliseconds(0),
                token: rows.token(row, 9), state: rows[row, 10].text,
                hasImage: rows[row, 11].count == 1, isCompanion: rows[row, 12].count == 1,
                image: rows[row, 13].text)
        }
    }

    /// The changes of a place after a number, in order.
    func entries(
        of place: LedgerPlace, after sequence: Int64, through last: Int64 = .max, limit: Int = page
    ) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            "run = ? AND feed = ? AND part = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT \(limit)",
            place.values + [.integer(sequence), .integer(last)],
            image: "NULL")
    }

    /// The entries about a token, the latest first, with what is read of their images.
    func entries(about token: DeviceToken, limit: Int) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            "token = ? ORDER BY changed_at DESC, seq DESC LIMIT \(limit)", [.bytes(token.bytes)],
            image: "SUBSTR(before_image, 1, \(Self.longestImage))")
    }

    /// The keys of the rows of some tokens that a run has inserted.
    func inserted(
        by run: String, of tokens: [DeviceToken]
    ) throws(SQLFailure) -> Set<ExactText> {
        var keys: Set<ExactText> = []
        for some in tokens.map({ SQLValue.bytes($0.bytes) }).runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let rows = try connection.query(
                "SELECT row_key FROM pushsweep_change WHERE token IN (\(placeholders(padded.count))) AND +run = ? "
                    + "AND action = 'insert'", padded + [.text(run)])
            for row in 0..<rows.count { keys.insert(ExactText(rows.string(row, 0))) }
        }
        return keys
    }

    /// The first rows of a place that refused their change, with the reasons.
    func refusals(of place: LedgerPlace, limit: Int) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            "run = ? AND feed = ? AND part = ? AND seq < 0 ORDER BY seq DESC LIMIT \(limit)",
            place.values, image: "before_image")
    }

    /// The places in which a run has entries; `condition` is the end of the WHERE, where the ledger has
    /// the name `c`.
    func places(
        ofRun run: String, _ condition: BoundSQL = ("", [])
    ) throws(SQLFailure) -> [LedgerPlace] {
        let rows = try connection.query(
            "SELECT DISTINCT c.run, c.feed, c.part FROM pushsweep_change c WHERE c.run = ?"
                + condition.sql, [.text(run)] + condition.values)
        return (0..<rows.count).map { rows.place($0, 0) }
    }

    /// The number of changes of a run as devices count: entries that only accompany another are left out.
    func changes(ofRun run: String) throws(SQLFailure) -> Int {
        try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE run = ? AND seq >= 0 AND NOT "
                + Self.isCompanion("pushsweep_change"), [.text(run)]
        ).scalar?.count ?? 0
    }

    /// The number of entries of a run, or of one of its places.
    func count(ofRun run: String, in place: LedgerPlace? = nil) throws(SQLFailure) -> Int {
        try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE run = ? "
                + (place == nil ? "" : "AND feed = ? AND part = ? ") + "AND seq >= 0",
            place?.values ?? [.text(run)]
        ).scalar?.count ?? 0
    }

    /// The images of entries that have one; nil where they have more than `mostBytes` bytes.
    func images(
        of entries: [LedgerEntry], mostBytes: Int
    ) throws(SQLFailure) -> [LedgerEntry.ID: String]? {
        var images: [LedgerEntry.ID: String] = [:]
        var bytes = 0
        let wanted = Dictionary(grouping: entries.filter(\.hasImage), by: \.place)
        for (place, entries) in wanted {
            for run in entries.map(\.sequence).sorted().runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(run)
                let rows = try connection.query(
                    "SELECT seq, before_image FROM pushsweep_change WHERE run = ? AND feed = ? "
                        + "AND part = ? AND seq IN (\(placeholders(padded.count)))",
                    place.values + padded.map(SQLValue.integer), mostBytes: mostBytes - bytes)
                bytes += rows.bytes
                guard bytes <= mostBytes else { return nil }
                try SQLRows.require(rows.count, atLeast: run.count, of: "images of the ledger")
                for row in 0..<rows.count {
                    guard let sequence = rows[row, 0].integer else { continue }
                    images[LedgerEntry.ID(place: place, sequence: sequence)] = rows[row, 1].text
                }
            }
        }
        return images
    }

    // MARK: Numbers

    /// The last number taken; 0 before the first.
    func lastNumber() throws(SQLFailure) -> Int64 {
        try connection.query("SELECT last_seq FROM pushsweep_commit WHERE number = 0")
            .scalar?.integer ?? 0
    }

    /// The number of the first transaction that was committed at a time or later; the one after
    /// the last number where there is none yet.
    func number(at time: EpochMilliseconds) throws(SQLFailure) -> Int64 {
        let value = connection.dialect.ownTime("committed_at").value(time)
        // Read before the search, so that a number taken in between is not passed over.
        let last = try lastNumber()
        return try connection.query(
            "SELECT number FROM pushsweep_commit WHERE number > 0 AND committed_at >= ? "
                + "ORDER BY number LIMIT 1", [value]
        ).scalar?.integer ?? last &+ 1
    }

    /// The runs whose names begin so, at most two, each with its first number.
    func runs(beginning name: String) throws(SQLFailure) -> [(run: String, number: Int64)] {
        let rows = try connection.query(
            "SELECT run, MIN(number) FROM pushsweep_commit WHERE number > 0 AND run >= ? "
                + "AND run < ? GROUP BY run ORDER BY run LIMIT 2",
            [.text(name), .text(name + "\u{7F}")])
        return (0..<rows.count).map { (rows.string($0, 0), rows[$0, 1].integer ?? 0) }
    }

    /// The numbers after a number with their ranges of entries, in order. One statement, so one
    /// snapshot.
    func ranges(after number: Int64, limit: Int) throws(SQLFailure) -> [LedgerRange] {
        let rows = try connection.query(
            "SELECT number, run, feed, part, app, environment, source, first_seq, last_seq, "
                + "committed_at FROM pushsweep_commit WHERE number > ? ORDER BY number LIMIT \(limit)",
            [.integer(number)])
        try rows.require(width: 10)
        let time = connection.dialect.ownTime("committed_at")
        return (0..<rows.count).map { row in
            let first = rows[row, 7].integer ?? 0
            return LedgerRange(
                place: rows.place(row, 1), partition: rows.partition(row, 4),
                source: rows.string(row, 6), first: first,
                count: (rows[row, 8].integer ?? 0) &- first &+ 1, number: rows[row, 0].integer ?? 0,
                committed: time.mark(rows[row, 9]))
        }
    }
}

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
        "c.part, c.seq, c.action, c.row_key, c.evidence_at, c.source, c.changed_at, c.token, "
        + "c.state, CASE WHEN c.before_image IS NULL THEN 0 WHEN c.before_image LIKE '[%' THEN 2 ELSE 1 END, "
        + isCompanion("c")
    /// The parts of a run.
    private static let ofRun = "part IN (SELECT number FROM pushsweep_part WHERE run = ?)"

    /// Whether an entry of a table is about the time beside a row that has an entry of its own: a device
    /// whose row has a column of two values takes two entries, and counts once. The plus keeps SQLite's search
    /// on the index over tokens, where the key would lead through all entries of the run; servers drop the
    /// plus and choose by their statistics.
    static func isCompanion(_ entry: String) -> String {
        "(\(entry).seq >= 0 AND \(entry).action IN ('side-mark', 'side-restore') "
            + "AND (\(entry).state IS NULL OR \(entry).action = 'side-restore') "
            + "AND EXISTS (SELECT 1 FROM pushsweep_change r WHERE r.token = \(entry).token "
            + "AND +r.part = \(entry).part "
            + "AND r.seq >= 0 AND r.action NOT IN ('side-mark', 'side-restore')))"
    }

    /// The entries of a part, or of any, whose run is looked for then.
    private func select(
        of part: LedgerPart?, _ condition: String, _ values: [SQLValue], image: String = "NULL"
    ) throws(SQLFailure) -> [LedgerEntry] {
        let (run, join) =
            part == nil
            ? ("COALESCE(p.run, '')", " LEFT JOIN pushsweep_part AS p ON p.number = c.part")
            : ("''", "")
        let rows = try connection.query(
            "SELECT \(run), \(Self.columns), \(image) FROM pushsweep_change AS c\(join) WHERE \(condition)",
            values)
        try rows.require(width: 13)
        let time = connection.dialect.ownTime("changed_at")
        return (0..<rows.count).map { row in
            LedgerEntry(
                part: part ?? rows.part(row, 0), sequence: rows[row, 2].integer ?? 0,
                action: rows.string(row, 3), storedKey: ExactText(rows.string(row, 4)),
                evidence: time.mark(rows[row, 5]) ?? EpochMilliseconds(0),
                source: rows.string(row, 6),
                changed: time.mark(rows[row, 7]) ?? EpochMilliseconds(0),
                token: rows.token(row, 8), state: rows[row, 9].text,
                hasImage: rows[row, 10].count != 0, tellsMarkBeside: rows[row, 10].count == 2,
                isCompanion: rows[row, 11].count == 1,
                image: rows[row, 12].text)
        }
    }

    /// The changes of a part after a number, in order.
    func entries(
        of part: LedgerPart, after sequence: Int64, through last: Int64 = .max, limit: Int = page
    ) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            of: part, "c.part = ? AND c.seq > ? AND c.seq <= ? ORDER BY c.seq LIMIT \(limit)",
            [part.value, .integer(sequence), .integer(last)])
    }

    /// The entries about a token, the latest first, with what is read of their images.
    func entries(about token: DeviceToken, limit: Int) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            of: nil, "c.token = ? ORDER BY c.changed_at DESC, c.seq DESC LIMIT \(limit)",
            [.bytes(token.bytes)], image: "SUBSTR(c.before_image, 1, \(Self.longestImage))")
    }

    /// The keys of the rows of some tokens that a run has inserted.
    func inserted(
        by run: String, of tokens: [DeviceToken]
    ) throws(SQLFailure) -> Set<ExactText> {
        var keys: Set<ExactText> = []
        for some in tokens.map({ SQLValue.bytes($0.bytes) }).runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let rows = try connection.query(
                "SELECT row_key FROM pushsweep_change WHERE token IN (\(placeholders(padded.count))) AND +\(Self.ofRun) "
                    + "AND action = 'insert'", padded + [.text(run)])
            for row in 0..<rows.count { keys.insert(ExactText(rows.string(row, 0))) }
        }
        return keys
    }

    /// The first rows of a part that refused their change, with the reasons.
    func refusals(of part: LedgerPart, limit: Int) throws(SQLFailure) -> [LedgerEntry] {
        try select(
            of: part, "c.part = ? AND c.seq < 0 ORDER BY c.seq DESC LIMIT \(limit)", [part.value],
            image: "c.before_image")
    }

    /// The parts of a run; `condition` is the end of the WHERE, where the parts have the name `p`.
    func parts(
        ofRun run: String, _ condition: BoundSQL = ("", [])
    ) throws(SQLFailure) -> [LedgerPart] {
        let rows = try connection.query(
            "SELECT p.run, p.number FROM pushsweep_part p WHERE p.run = ?\(condition.sql) ORDER BY p.number",
            [.text(run)] + condition.values)
        return (0..<rows.count).map { rows.part($0, 0) }
    }

    /// The number of changes of a run as devices count: entries that only accompany another are left out.
    func changes(ofRun run: String) throws(SQLFailure) -> Int {
        try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE \(Self.ofRun) AND seq >= 0 AND NOT "
                + Self.isCompanion("pushsweep_change"), [.text(run)]
        ).scalar?.count ?? 0
    }

    /// The number of changes of a part.
    func count(of part: LedgerPart) throws(SQLFailure) -> Int {
        try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE part = ? AND seq >= 0", [part.value]
        ).scalar?.count ?? 0
    }

    /// The images of entries that have one; nil where they have more than `mostBytes` bytes.
    func images(
        of entries: [LedgerEntry], mostBytes: Int
    ) throws(SQLFailure) -> [LedgerEntry.ID: String]? {
        var images: [LedgerEntry.ID: String] = [:]
        var bytes = 0
        let wanted = Dictionary(grouping: entries.filter(\.hasImage), by: \.part)
        for (part, entries) in wanted {
            for run in Set(entries.map(\.sequence)).sorted().runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(run)
                let rows = try connection.query(
                    "SELECT seq, before_image FROM pushsweep_change WHERE part = ? "
                        + "AND seq IN (\(placeholders(padded.count)))",
                    [part.value] + padded.map(SQLValue.integer), mostBytes: mostBytes - bytes)
                bytes += rows.bytes
                guard bytes <= mostBytes else { return nil }
                try SQLRows.require(rows.count, atLeast: run.count, of: "images of the ledger")
                for row in 0..<rows.count {
                    guard let sequence = rows[row, 0].integer else { continue }
                    images[LedgerEntry.ID(part: part, sequence: sequence)] = rows[row, 1].text
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
            "SELECT number, run, part, app, environment, source, first_seq, last_seq, "
                + "committed_at FROM pushsweep_commit WHERE number > ? ORDER BY number LIMIT \(limit)",
            [.integer(number)])
        try rows.require(width: 9)
        let time = connection.dialect.ownTime("committed_at")
        return (0..<rows.count).map { row in
            let first = rows[row, 6].integer ?? 0
            return LedgerRange(
                part: rows.part(row, 1), partition: rows.partition(row, 3),
                source: rows.string(row, 5), first: first,
                count: (rows[row, 7].integer ?? 0) &- first &+ 1, number: rows[row, 0].integer ?? 0,
                committed: time.mark(rows[row, 8]))
        }
    }
}

import APNsProtocol
import Database
import TokenHygiene

/// What the ledger could not say about the past.
package struct PastDoubts: Hashable, Sendable {
    /// Changed rows that are no longer in the table, although the ledger has no removal of them.
    package var gone = 0
    /// Changes to columns or under a key that the settings name no more.
    package var foreign = 0
    /// Changes whose entry cannot be read.
    package var unreadable = 0
    /// Transactions that changed rows while the audit counted.
    package var during = 0
}

/// Reads the changes after a time, in the order of their commits.
struct PastReader {
    let layout: TableLayout
    let session: DatabaseSession
    /// The columns that are kept of removed rows.
    let columns: Set<String>

    private var connection: any SQLConnection { session.connection }

    private static let numbersPerPage = 256
    /// Entries of one statement. Images of removed rows may be long.
    private static let page = 200

    /// A purge dropped entries of this number while or before it was read.
    struct Incomplete: Error {
        let number: Int64
    }

    /// Enters the states before the changes after `time`.
    ///
    /// - Returns: false if `shouldStop` ended the reading early.
    /// - Throws: `Incomplete` where entries are missing; any failure of reading.
    func read(
        after time: EpochMilliseconds, into states: PastStates, _ doubts: inout PastDoubts,
        shouldStop: () -> Bool, report: (Int) -> Void
    ) throws -> Bool {
        let starts = ChangeStarts(session: session)
        var number = try starts.number(at: time.advanced(by: 1)) - 1
        let last = try starts.lastNumber()
        var count = 0
        while number < last {
            let ranges = try starts.ranges(after: number, limit: Self.numbersPerPage)
            guard !ranges.isEmpty else { throw Incomplete(number: number + 1) }
            for range in ranges {
                if shouldStop() { return false }
                guard try session.waitForThrottle(shouldStop: shouldStop) else { return false }
                guard range.number == number + 1 else { throw Incomplete(number: range.number) }
                let place = try place(of: range)
                guard try read(range, place, into: states, &doubts) == range.count else {
                    throw Incomplete(number: range.number)
                }
                count += Int(range.count)
                number = range.number
                report(count)
            }
        }
        return true
    }

    /// To which rows the entries of a number refer.
    private enum Place {
        /// To those of the table.
        case own
        /// To those of another table.
        case otherTable
        /// To columns or a key that are others now, or to rows of which no checkpoint is left.
        case unknown
    }

    private func place(of range: NumberedRange) throws(StoreFailure) -> Place {
        try session.retries.retrying("reading the checkpoint of feed \(range.feed)") {
            () throws(SQLFailure) in
            let found = try connection.query(
                "SELECT table_name, key_columns FROM pushsweep_feed WHERE feed = ? AND part = ?",
                [.text(range.feed), .integer(range.part)])
            guard found.count > 0 else { return .unknown }
            guard layout.isNamed(found[0, 0].text) else { return .otherTable }
            return (found[0, 1].text ?? layout.keyNames) == layout.keyNames ? .own : .unknown
        }
    }

    private func read(
        _ range: NumberedRange, _ place: Place, into states: PastStates,
        _ doubts: inout PastDoubts
    ) throws -> Int64 {
        let time = connection.dialect.ownTime("evidence_at")
        var (sequence, count) = (range.first - 1, Int64(0))
        while sequence < range.last {
            let start = sequence
            let rows = try session.retries.retrying("reading the change ledger") {
                () throws(SQLFailure) in
                try connection.query(
                    "SELECT seq, action, row_key, before_image, evidence_at, source "
                        + "FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? "
                        + "AND seq > ? AND seq <= ? ORDER BY seq LIMIT \(Self.page)",
                    [
                        .text(range.run), .text(range.feed), .integer(range.part),
                        .integer(start), .integer(range.last),
                    ])
            }
            for row in 0..<rows.count {
                sequence = rows[row, 0].integer ?? range.last
                count += 1
                guard place == .own else {
                    if place == .unknown { doubts.foreign += 1 }
                    continue
                }
                let entry = UndoEntry(
                    group: 0, sequence: sequence, action: rows[row, 1].text ?? "",
                    time: time.mark(rows[row, 4]) ?? EpochMilliseconds(0), changed: nil,
                    source: rows[row, 5].text ?? "", hasImage: rows[row, 3].text != nil)
                try enter(entry, rows[row, 2].text ?? "", rows[row, 3].text, range, states, &doubts)
            }
            if rows.count < Self.page { break }
        }
        return count
    }

    private func enter(
        _ entry: UndoEntry, _ key: String, _ image: String?, _ range: NumberedRange,
        _ states: PastStates, _ doubts: inout PastDoubts
    ) throws(StoreFailure) {
        let isTokenMark = entry.action.hasPrefix("side-")
        guard let change = ChangeImages(entry, image: image, layout) else {
            // The mark column may be another one now.
            if layout.markColumns.isEmpty && !isTokenMark {
                doubts.foreign += 1
            } else {
                doubts.unreadable += 1
            }
            return
        }
        let partition = Partition(app: range.app, environment: range.environment)
        let target = isTokenMark ? PastStates.mark(partition, key) : PastStates.row(key)
        let state = state(before: change, entry)
        try session.retries.retrying("keeping the states of the past") { () throws(SQLFailure) in
            try states.enter(state, of: target)
        }
    }

    private func state(before change: ChangeImages, _ entry: UndoEntry) -> PastState {
        guard let before = change.before else { return .absent }
        if entry.action.hasPrefix("side-") { return .whole(before) }
        guard entry.action == "delete" else { return .changed(before) }
        let kept = zip(before.columns, before.values).filter { columns.contains($0.0) }
        return .whole(RowContent(kept.map(\.0), kept.map(\.1)))
    }
}

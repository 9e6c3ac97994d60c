import APNsProtocol
import Database
import Encodings
import Foundation
import TokenHygiene

/// A chunk whose entries are in the ledger while its rows may be committed or not. It stands in the
/// checkpoint from the commit of the ledger to that of the checkpoint; see `ApartConnection`.
struct PendingChunk: Codable, Hashable {
    /// The run that wrote the entries.
    let run: String
    /// The number of the first entry.
    let first: Int
    /// The number of entries.
    let count: Int
    /// The token table and the columns of the key by which the entries name its rows. The checkpoint's own
    /// columns tell those with which the feed began; the settings may have changed since.
    let table, key: String
    /// The progress of the feed once the rows are committed; nil where the checkpoint is not that of
    /// a feed.
    let next: Next?

    /// A number of this announcement. Another run that settles the chunk announces the same entries.
    /// Nil in texts of older versions.
    let id: UInt32?

    /// The progress of a feed, as it is stored.
    struct Next: Codable, Hashable {
        /// The last token of the chunk, in hex digits.
        let position: String?
        let counts: OutcomeCounts
        let rowsChanged, rowsInvalidated, rowsRefused: Int
        let isApplied: Bool
    }

    /// Describes the entries of a range about rows of a table, and the progress that follows.
    init(_ range: LedgerRange, _ layout: TableLayout, _ next: FeedProgress?) {
        (run, first, count) = (range.run, range.first, range.count)
        (table, key) = (layout.nameInLedger, layout.keyNames)
        id = .random(in: 0 ... .max)
        self.next = next.map { next in
            Next(
                position: next.position?.hex, counts: next.counts, rowsChanged: next.rowsChanged,
                rowsInvalidated: next.rowsInvalidated,
                rowsRefused: next.rowsRefused, isApplied: next.isApplied)
        }
    }

    /// The progress that was announced.
    var progress: FeedProgress? {
        next.map { next in
            FeedProgress(
                position: next.position.flatMap { try? DeviceToken(spelling: $0) },
                counts: next.counts, rowsChanged: next.rowsChanged,
                rowsInvalidated: next.rowsInvalidated,
                rowsRefused: next.rowsRefused, isApplied: next.isApplied)
        }
    }

    /// Reads the text of the checkpoint; nil for any other text.
    init?(json: String) {
        guard let chunk = try? JSONDecoder().decode(Self.self, from: Data(json.utf8)) else {
            return nil
        }
        self = chunk
    }
}

/// A checkpoint with a pending chunk.
struct PendingCheckpoint {
    let checkpoint: FeedCheckpoint
    let partition: Partition
    /// The source of the feed.
    let source: String
    /// The table in which the feed began.
    let began: String
    /// The chunk; nil where its text cannot be read.
    let chunk: PendingChunk?
}

extension FeedCheckpoint {
    /// The checkpoint to which entries belong.
    init(_ range: LedgerRange, _ connection: any SQLConnection) {
        self.init(
            feed: range.feed, part: TokenRange(index: range.part, count: range.part + 1),
            connection: connection)
    }

    private var key: [SQLValue] { [.text(feed), .integer(Int64(part.index))] }

    /// Writes what the chunk is going to do, in the transaction that writes its entries.
    ///
    /// - Throws: a conflict where a chunk is pending already, because another run has begun one.
    func announce(_ chunk: PendingChunk) throws(SQLFailure) {
        let found = try connection.ledger.execute(
            "UPDATE pushsweep_feed SET pending = ?, changed_at = \(connection.dialect.now) "
                + "WHERE feed = ? AND part = ? AND pending IS NULL", [.text(chunk.jsonLine)] + key)
        guard found > 0 else {
            throw SQLFailure(kind: .conflict, code: 0, message: "another run has begun a chunk")
        }
    }

    /// Takes an announcement back; any where none is given.
    ///
    /// - Throws: a conflict where it is there no more, because another run has settled it.
    func withdraw(_ chunk: PendingChunk? = nil) throws(SQLFailure) {
        let found = try connection.ledger.execute(
            "UPDATE pushsweep_feed SET pending = NULL WHERE feed = ? AND part = ? AND pending "
                + (chunk == nil ? "IS NOT NULL" : "= ?"),
            key + (chunk.map { [.text($0.jsonLine)] } ?? []))
        guard found > 0 else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "another run has settled the chunk")
        }
    }

    /// Whether a chunk is pending.
    func hasPending() throws(SQLFailure) -> Bool {
        try connection.ledger.query(
            "SELECT 1 FROM pushsweep_feed WHERE feed = ? AND part = ? AND pending IS NOT NULL", key
        ).count > 0
    }

    /// The pending chunk, locked for this transaction; nil without one.
    func pending() throws(SQLFailure) -> PendingCheckpoint? {
        let rows = try connection.ledger.query(
            "SELECT app, environment, source, pending, table_name FROM pushsweep_feed "
                + "WHERE feed = ? AND part = ?\(connection.dialect.rowLock)", key)
        guard rows.count > 0, let text = rows[0, 3].text else { return nil }
        return PendingCheckpoint(
            checkpoint: self,
            partition: Partition(app: rows[0, 0].text ?? "", environment: rows[0, 1].text ?? ""),
            source: rows[0, 2].text ?? "", began: rows[0, 4].text ?? "",
            chunk: PendingChunk(json: text))
    }
}

import APNsProtocol
import Database
import Encodings
import FoundationEssentials
import Glibc
import TokenHygiene

/// The selection of changes to undo.
package enum UndoScope: Hashable, Sendable {
    /// The changes of one run, by its UUID.
    case run(String)
    /// The changes of every run that began at this time or later.
    case since(EpochMilliseconds)
    /// The changes to rows and marks of one token, by any run.
    case token(DeviceToken)

    /// The selection in words. A run that continues an unfinished undo finds it by them, so they
    /// stay in the database.
    var name: String {
        switch self {
        case .run(let run): "run \(run)"
        case .since(let time): "since \(time.rawValue)"
        case .token(let token): "token \(token.hex)"
        }
    }
}

/// The reason why a change was not undone.
package enum UndoObstacle: String, Hashable, Sendable, CaseIterable {
    /// The row has another mark or other values than the change left.
    case changed
    /// The device registered again after the signal.
    case registered
    /// The mark is a value of a column of two values, and the table has no registration time: the
    /// application may have set the row living and dead again since, which nothing shows.
    case undated
    /// The row does not exist any more.
    case gone
    /// A row with the key of the removed one exists.
    case present
    /// The token of the removed row is in another row, and may be in one only; or another unique value is in
    /// use.
    case taken
    /// The table refused the removed row: a foreign key, a check, a new column.
    case refused
    /// The row has another token than the one that was changed, or its key belongs to another row now; or the
    /// change was made to another table than the settings name now, or for another key, token or mark column.
    case foreign
    /// The ledger's entry cannot be read.
    case unreadable

    /// The middle of a sentence about a number of entries.
    package var words: String {
        switch self {
        case .changed: "changed since by another program"
        case .registered: "registered again"
        case .undated: "with no registration time that shows who set them dead or living last"
        case .gone: "no longer in the table"
        case .present: "in the table again under the same key"
        case .taken: "with a token or another unique value that is in use now"
        case .refused: "refused by the table"
        case .foreign: "about another token, table, column or key than is there now"
        case .unreadable: "unreadable in the ledger"
        }
    }
}

/// The progress of an undo in its run's record, the checkpoint that moves in the transaction of every
/// chunk. Every entry read that is about a device of its own is counted exactly once.
package struct UndoProgress: Codable, Hashable, Sendable {
    /// The selection in words.
    package internal(set) var selection: String
    /// The last processed row; nil before the first.
    package internal(set) var position: String?
    /// Ledger entries that were undone.
    package internal(set) var restored = 0
    /// In a dry run: entries whose row is in the state that the change left, where only trying shows whether
    /// the table takes it back; nil without any.
    package internal(set) var untried: Int?
    /// Entries whose row already had its earlier state.
    package internal(set) var already = 0
    /// Entries not undone, by `UndoObstacle`.
    package internal(set) var kept: [String: Int] = [:]
    /// Rows and marks changed: the number of entries that this undo wrote itself.
    package internal(set) var rowsChanged = 0
    /// Those of them that accompany the change of a row and are no device of their own; nil without any.
    var companions: Int?
    /// The number of rows inserted again.
    package internal(set) var inserted = 0
    /// The number of rows removed again, by the undo of an undo.
    package internal(set) var removed = 0
    /// When the first and the last token were noted that it leaves living, in milliseconds of the database's clock; nil
    /// where none was.
    private(set) var firstNote: Int64?
    private(set) var lastNote: Int64?
    /// The pass over rows that waited for others; nil in the first pass, which is over all.
    var again: Int?
    /// Whether every chosen entry was processed.
    package internal(set) var isDone = false

    /// The number of changed rows, each with the time beside it once.
    package var devicesChanged: Int { rowsChanged - (companions ?? 0) }
    /// The number of processed entries that count.
    package var entries: Int {
        restored + (untried ?? 0) + already + kept.values.reduce(0, +)
    }

    /// Enters that tokens were noted.
    mutating func noted(at time: EpochMilliseconds) {
        firstNote = firstNote ?? time.rawValue
        lastNote = time.rawValue
    }

    /// Counts entries as kept, or takes some of them back where `count` is below 0.
    mutating func keep(_ obstacle: UndoObstacle, _ count: Int = 1) {
        let sum = (kept[obstacle.rawValue] ?? 0) + count
        kept[obstacle.rawValue] = sum > 0 ? sum : nil
    }
}

/// The record of an undo's run in `pushsweep_run`. Until the undo is done it is also its checkpoint: it
/// changes in the transaction of every chunk and stores the progress.
struct UndoCheckpoint {
    let run: String
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }

    /// The progress as committed, or as locked for this transaction; nil before the first chunk.
    func read(locking: Bool) throws(SQLFailure) -> UndoProgress? {
        let rows = try connection.query(
            "SELECT counts FROM pushsweep_run WHERE id = ?" + (locking ? dialect.rowLock : ""),
            [.text(run)])
        guard let text = rows.scalar?.text else { return nil }
        return UndoProgress(json: text)
    }

    /// Inserts the run's record.
    func insert(_ record: RunRecord, _ progress: UndoProgress) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_run (id, kind, started, host, operator, counts) "
                + "VALUES (?, 'undo', ?, ?, ?, ?)",
            [
                .text(record.id), dialect.ownTime("started").value(record.started),
                .text(record.host), record.operator.map(SQLValue.text) ?? .null,
                .text(progress.json),
            ])
    }

    /// Moves the checkpoint, inside the transaction that changes the rows; `ended` closes the record.
    func update(
        _ progress: UndoProgress, ended: EpochMilliseconds?
    ) throws(SQLFailure) {
        let time = dialect.ownTime("ended")
        _ = try connection.execute(
            "UPDATE pushsweep_run SET counts = ?, ended = ? WHERE id = ?",
            [.text(progress.json), ended.map(time.value) ?? .null, .text(run)])
    }
}

extension UndoProgress {
    /// As it stands in the run's record.
    var json: String { jsonLine }

    init?(json: String) {
        guard let progress = try? JSONDecoder().decode(Self.self, from: Data(json.utf8)) else {
            return nil
        }
        self = progress
    }
}

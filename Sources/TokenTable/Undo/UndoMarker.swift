import APNsProtocol
import Database
import Encodings
import Foundation
import TokenHygiene

/// The record of an undo's run in `pushsweep_run`. Until the undo is done it is also its marker: it
/// changes in the transaction of every chunk and stores the progress.
struct UndoMarker {
    let run: String
    let dialect: SQLDialect

    /// The progress as committed, or as locked for this transaction; nil before the first chunk.
    func read(
        _ connection: any SQLConnection, locking: Bool
    ) throws(SQLFailure) -> UndoProgress? {
        let rows = try connection.query(
            "SELECT counts FROM pushsweep_run WHERE id = ?" + (locking ? dialect.rowLock : ""),
            [.text(run)])
        guard let text = rows.scalar?.text else { return nil }
        return UndoProgress(json: text)
    }

    /// Moves the marker, inside the transaction that changes the rows; `ended` closes the record.
    func update(
        _ progress: UndoProgress, ended: EpochMilliseconds?, _ connection: any SQLConnection
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

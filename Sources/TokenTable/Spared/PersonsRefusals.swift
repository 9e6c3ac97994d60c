import APNsProtocol
import Database
import FoundationEssentials
import TokenHygiene

/// When persons said no, by the database's clock, as far as the records of undos and the batches still have it. Evidence
/// that was heard before one of these and after another is judged apart, since a batch has one hearing, the earliest.
struct PersonsRefusals {
    let connection: any SQLConnection

    /// What the progress of an undo says of them.
    private struct Notes: Decodable {
        let firstNote: Int64?
        let lastNote: Int64?
    }

    /// The times, in no order: of each discard, and of the first and the last note of each undo.
    func times() throws(SQLFailure) -> [EpochMilliseconds] {
        let time = connection.dialect.ownTime("asked_at")
        let discarded = try connection.query(
            "SELECT DISTINCT asked_at FROM pushsweep_batch WHERE state IN ('discarded', 'discarding') AND "
                + "asked_at IS NOT NULL")
        let undos = try connection.query("SELECT counts FROM pushsweep_run WHERE kind = 'undo'")
        return (0..<discarded.count).compactMap { time.mark(discarded[$0, 0]) }
            + (0..<undos.count).flatMap { undo -> [EpochMilliseconds] in
                let notes = undos[undo, 0].text.flatMap {
                    try? JSONDecoder().decode(Notes.self, from: Data($0.utf8))
                }
                return Set([notes?.firstNote, notes?.lastNote].compactMap { $0 })
                    .map { EpochMilliseconds($0) }
            }
    }
}

extension [EpochMilliseconds] {
    /// The first of these times that is not before another one; nil for none.
    package func first(notBefore time: EpochMilliseconds) -> EpochMilliseconds? {
        filter { $0 >= time }.min()
    }
}

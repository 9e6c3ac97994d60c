import APNsProtocol
import GRDB
import TokenHygiene

/// An intake whose end the journal does not know.
package struct OpenIntake: Hashable, Sendable {
    /// The name of the intake.
    package let name: String
    /// The run that began it.
    package let run: String

    /// Names an intake of a run.
    package init(name: String, run: String) {
        self.name = name
        self.run = run
    }
}

// An intake moves reports from a table or a file into the journal. Its feeds are `taking` until their
// source has given the reports up, which only the source can tell.
extension EvidenceJournal {
    /// The intakes that a run left without an end.
    package func openIntakes() throws(JournalFailure) -> [OpenIntake] {
        try perform("looking for unfinished intakes") { db in
            try Row.fetchAll(
                db, sql: "SELECT DISTINCT intake, run FROM feed WHERE state = ? ORDER BY rowid",
                arguments: [FeedState.taking.rawValue]
            ).map { OpenIntake(name: try $0.value("intake"), run: try $0.value("run")) }
        }
    }

    /// Gives an open intake its final name, which is known only after its last byte.
    package func renameIntake(_ name: String, to final: String) throws(JournalFailure) {
        try perform("naming intake \(final)") { db in
            try db.execute(
                sql: "UPDATE feed SET intake = ? WHERE intake = ? AND state = ?",
                arguments: [final, name, FeedState.taking.rawValue])
        }
    }

    /// Makes the feeds of an intake pending: their source has given the reports up. Returns their
    /// names, oldest first.
    package func confirmIntake(
        _ intake: OpenIntake, at now: EpochMilliseconds
    ) throws(JournalFailure) -> [String] {
        try perform("confirming intake \(intake.name)") { db in
            var names: [String] = []
            try db.inTransaction(.immediate) {
                let which: StatementArguments = [
                    intake.name, intake.run, FeedState.taking.rawValue,
                ]
                names = try String.fetchAll(
                    db,
                    sql: "SELECT id FROM feed WHERE intake = ? AND run = ? AND state = ? "
                        + "ORDER BY opened, rowid", arguments: which)
                let change: StatementArguments = [
                    FeedState.pending.rawValue, CaptureEnd.file.rawValue, now.rawValue,
                ]
                try db.execute(
                    sql: "UPDATE feed SET state = ?, end = ?, closed = ? "
                        + "WHERE intake = ? AND run = ? AND state = ?", arguments: change + which)
                return .commit
            }
            return names
        }
    }

    /// Number of the feeds that an intake brought, and of those that a person discarded.
    package func feeds(
        ofIntake intake: String
    ) throws(JournalFailure) -> (all: Int, discarded: Int) {
        try perform("looking for intake \(intake)") { db in
            let states = try String.fetchAll(
                db, sql: "SELECT state FROM feed WHERE intake = ?", arguments: [intake])
            return (states.count, states.count { $0 == FeedState.discarded.rawValue })
        }
    }

    /// Removes the feeds of an intake that did not happen: their source still has the reports.
    package func dropIntake(_ intake: OpenIntake) throws(JournalFailure) {
        try perform("dropping intake \(intake.name)") { db in
            try db.inTransaction(.immediate) {
                let feeds = "SELECT id FROM feed WHERE intake = ? AND run = ? AND state = ?"
                let which: StatementArguments = [
                    intake.name, intake.run, FeedState.taking.rawValue,
                ]
                for table in ["quarantine", "chunk"] {
                    try db.execute(
                        sql: "DELETE FROM \(table) WHERE feed IN (\(feeds))", arguments: which)
                }
                try db.execute(
                    sql: "DELETE FROM feed WHERE intake = ? AND run = ? AND state = ?",
                    arguments: which)
                return .commit
            }
        }
        try giveRoomBack()
    }
}

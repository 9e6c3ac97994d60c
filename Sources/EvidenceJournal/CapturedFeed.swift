import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// The state of a captured feed. A feed is in exactly one state.
package enum FeedState: String, CaseIterable, Hashable, Sendable {
    /// The run that holds the lock is reading it.
    case reading
    /// Of version 0.3.0: it is not known whether the source of its bytes gave them up; see `openIntakes`.
    case taking
    /// Its bytes are durable, and the database has not all of its reports yet.
    case pending
    /// The database has all of its reports, and decides about them.
    case applied
    /// As pending; its batch in the database will be held. Version 0.3.0 had its holds here.
    case held
    /// A person discarded it in version 0.3.0. Its bytes are kept as long as those of an applied feed.
    case discarded
}

/// A captured feed and its state, as the journal stores it.
package struct CapturedFeed: Hashable, Sendable {
    /// A random UUID in lower case. Journal, database and reports use the same name.
    package let id: String
    /// The app and environment of its tokens.
    package let partition: Partition
    /// The origin of its bytes: a feedback list, or answers of APNs with one reason.
    package let kind: EvidenceSource
    /// `host:port` of the gateway, or the path of the file.
    package let source: String
    /// The time at which the run opened it.
    package let opened: EpochMilliseconds
    /// The time at which reading ended, by this host's clock, against which times are judged; that of the
    /// opening while it is read.
    package let read: EpochMilliseconds
    /// Number of bytes the journal has stored.
    package let bytes: Int
    /// How reading ended; nil while a run is reading.
    package let end: CaptureEnd?
    package let state: FeedState
    /// The reason for which it is held or was discarded; nil otherwise.
    package let cause: String?
    /// The guard's gate that holds it; nil when it is not held, or held for another reason.
    package let gate: GuardGate?
    /// The time at which `EvidenceJournal.close` last changed its state; nil before.
    package let closedAt: EpochMilliseconds?
    /// Whether its bytes were deleted at the end of the retention period.
    package let isPurged: Bool
}

extension CapturedFeed {
    /// Reads a row of the table `feed`.
    ///
    /// - Throws: `Refusal` when a value is invalid. A feed is never skipped for that.
    init(_ row: JournalRow) throws {
        id = try row.value("id")
        partition = Partition(
            app: try row.value("app"), environment: try row.value("environment"))
        kind = try row.word("kind")
        source = try row.value("source")
        opened = try row.value("opened")
        // A clock that was set back meanwhile makes no time implausible that was not.
        read = max(opened, try row.optional("closed") ?? opened)
        bytes = try row.value("bytes")
        end = try row.optionalWord("end")
        state = try row.word("state")
        cause = try row.optional("cause")
        gate = try row.optionalWord("gate")
        closedAt = try row.optional("settled")
        isPurged = try row.value("purged") as Int != 0
    }
}

/// Feeds of version 0.3.0 of which the journal does not know whether their source gave them up.
package struct OpenIntake: Hashable, Sendable {
    /// The name in `pushsweep_intake`.
    package let name: String
    /// The run that began it.
    package let run: String
}

// Version 0.3.0 took rows and files through the journal. Their feeds are `taking` where a run was killed before it
// knew whether the database had given them up.
extension EvidenceJournal {
    /// The intakes that a run of 0.3.0 left without an end.
    package func openIntakes() throws(JournalFailure) -> [OpenIntake] {
        try rows(
            "looking for unfinished intakes",
            "SELECT DISTINCT intake, run FROM feed WHERE state = \(FeedState.taking) ORDER BY rowid"
        ) { OpenIntake(name: try $0.value("intake"), run: try $0.value("run")) }
    }

    /// Makes the feeds of an intake pending: their source has given the reports up.
    package func confirmIntake(
        _ intake: OpenIntake, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try change(
            "confirming intake \(intake.name)",
            """
            UPDATE feed SET state = \(FeedState.pending), end = \(CaptureEnd.file),
            closed = \(now) WHERE \(intake.isOpen)
            """)
    }

    /// Removes the feeds of an intake that did not happen: their source still has the reports.
    package func dropIntake(_ intake: OpenIntake) throws(JournalFailure) {
        try remove("dropping intake \(intake.name)", intake.isOpen)
    }

    /// Removes feeds with all their bytes.
    func remove(_ doing: String, _ which: JournalSQL) throws(JournalFailure) {
        try perform(doing) { db in
            try db.transaction {
                for column: JournalSQL in ["quarantine WHERE feed", "chunk WHERE feed"] {
                    try db.change("DELETE FROM \(column) IN (SELECT id FROM feed WHERE \(which))")
                }
                try db.change("DELETE FROM feed WHERE \(which)")
            }
        }
        try giveRoomBack()
    }
}

extension OpenIntake {
    /// The condition of its feeds.
    fileprivate var isOpen: JournalSQL {
        "intake = \(name) AND run = \(run) AND state = \(FeedState.taking)"
    }
}

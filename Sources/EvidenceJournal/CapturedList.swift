import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// The state of a captured list. A list is in exactly one state.
package enum ListState: String, CaseIterable, Hashable, Sendable {
    /// The run that holds the lock is reading it.
    case reading
    /// Its bytes are durable, and the database has not all of its reports yet.
    case pending
    /// The database has all of its reports, and decides about them.
    case applied
    /// As pending; its batch in the database will be held.
    case held
}

/// A captured list and its state, as the journal stores it.
package struct CapturedList: Hashable, Sendable {
    /// A random UUID in lower case. Journal, database and reports use the same name.
    package let id: String
    /// The app and environment of its tokens.
    package let partition: Partition
    /// `host:port` of the gateway, or the path of the file.
    package let source: String
    /// The time at which the run opened it, by the database's clock.
    package let opened: EpochMilliseconds
    /// The time at which reading ended, by the database's clock, against which times are judged; that of the
    /// opening while it is read, and where the run was killed.
    package let read: EpochMilliseconds
    /// Number of bytes the journal has stored.
    package let bytes: Int
    /// How reading ended; nil while a run is reading.
    package let end: CaptureEnd?
    package let state: ListState
    /// The reason for which it is held; nil otherwise.
    package let cause: String?
    /// The time at which the database had all of its reports; nil before.
    package let appliedAt: EpochMilliseconds?
    /// Whether its bytes were deleted at the end of the retention period.
    package let isPurged: Bool
}

extension CapturedList {
    /// Reads a row of the table `feed`.
    ///
    /// - Throws: `Refusal` when a value is invalid. A list is never skipped for that.
    init(_ row: JournalRow) throws {
        id = try row.value("id")
        partition = Partition(
            app: try row.value("app"), environment: try row.value("environment"))
        source = try row.value("source")
        opened = try row.value("opened")
        // A clock that was set back meanwhile makes no time implausible that was not.
        read = max(opened, try row.optional("closed") ?? opened)
        bytes = try row.value("bytes")
        end = try row.optionalWord("end")
        state = try row.word("state")
        cause = try row.optional("cause")
        appliedAt = try row.optional("settled")
        isPurged = try row.value("purged") as Int != 0
    }
}

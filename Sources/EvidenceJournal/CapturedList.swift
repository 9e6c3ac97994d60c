import APNsProtocol
import FoundationEssentials
import Glibc
import TokenHygiene

/// The state of a captured list. A list is in exactly one state.
package enum ListState: String, CaseIterable, Hashable, Sendable {
    /// The run that holds the lock is reading it, or was killed, which the next run of the folder says.
    case reading
    /// Its bytes are durable, and the database has not all of its reports yet.
    case pending
    /// The database has all of its reports, and decides about them.
    case applied
    /// As pending; its batch in the database will be held.
    case held
}

/// A captured list and its state, as its file has them.
package struct CapturedList: Hashable, Sendable {
    /// A random UUID in lower case. State folder, database and reports use the same name.
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
    /// Number of bytes in its file.
    package let bytes: Int
    /// How reading ended; nil while a run is reading.
    package let end: CaptureEnd?
    package let state: ListState
    /// The reason for which it is held; nil otherwise.
    package let cause: String?
}

/// The head of the file of a list: what is known before its first byte.
struct ListHead: Codable {
    var form = ListForm.number
    let run: String
    let app: String
    let environment: String
    let source: String
    let opened: Int64
}

/// The end record of a list. All bytes are durable before it is written.
struct ListEndRecord: Codable {
    let end: String
    /// When reading ended; nil where the run was killed.
    let closed: Int64?
    let bytes: Int
    /// Why it is held; nil for other lists.
    let cause: String?
}

extension ListFile {
    /// Writes a record into the first section. It is durable when this returns.
    ///
    /// - Throws: `cannotCreate` for one that is too long; `inputOutput`.
    func put(record: some Encodable, at place: Int) throws(JournalFailure) {
        guard let bytes = try? JSONEncoder().encode(record),
            bytes.count <= ListForm.endPlace - ListForm.headLength
        else {
            throw JournalFailure(
                .cannotCreate,
                "writing \(folder.path)/\(name): the names of its app and source are too long; shorten them"
            )
        }
        try Array(bytes).withUnsafeBufferPointer { (bytes) throws(JournalFailure) in
            try put(UnsafeRawBufferPointer(bytes), at: place)
        }
        try sync()
    }

    /// The list as the file has it; nil for what a run left that was killed before the list began, or for a file without
    /// a whole head, which is damaged if it `hasBlocks`.
    ///
    /// - Throws: `otherBuild` for a file of another form; `inputOutput`.
    func captured() throws(JournalFailure) -> CapturedList? {
        guard let begun = try record(at: 0) else { return nil }
        let ended = try record(at: ListForm.endPlace)
        let record = ended.flatMap {
            try? JSONDecoder().decode(ListEndRecord.self, from: Data($0))
        }
        let end = (record?.end).flatMap(CaptureEnd.init(rawValue:))
        guard let head = try? JSONDecoder().decode(ListHead.self, from: Data(begun)),
            head.form == ListForm.number, (ended == nil) == (end == nil)
        else {
            throw JournalFailure(
                .otherBuild,
                "reading \(folder.path)/\(name): it has the form of another build; apply its list with that one, or "
                    + "move the file away, and with it what was read of the list")
        }
        let isApplied = name.hasPrefix(StateFolder.appliedPrefix)
        let opened = EpochMilliseconds(head.opened)
        let bytes = if let record { max(0, record.bytes) } else { try extent().bytes }
        return CapturedList(
            id: list, partition: Partition(app: head.app, environment: head.environment),
            source: head.source, opened: opened,
            // A clock that was set back meanwhile makes no time implausible that was not.
            read: max(opened, (record?.closed).map { EpochMilliseconds($0) } ?? opened),
            bytes: bytes, end: end,
            state: isApplied
                ? .applied : end == nil ? .reading : record?.cause == nil ? .pending : .held,
            cause: isApplied ? nil : record?.cause)
    }

    /// Number of the list's bytes in whole blocks, and the place behind them.
    ///
    /// - Throws: `inputOutput`.
    func extent() throws(JournalFailure) -> (bytes: Int, place: Int) {
        var count = 0
        do {
            let place = try blocks {
                count += $0.count
                return true
            }
            return (count, place)
        } catch {
            throw .wrapping(error, while: "reading \(folder.path)/\(name)")
        }
    }
}

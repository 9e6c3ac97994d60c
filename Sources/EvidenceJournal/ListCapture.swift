import APNsProtocol
import FoundationEssentials
import Glibc
import Synchronization
import TokenHygiene

/// A list that a run is reading. Bytes outlast the process once they have arrived, and a power cut once they are
/// appended. Two threads use it: that of the socket and the one that keeps.
package final class ListCapture: Sendable {
    private struct State {
        /// The place of the next block, and that up to which all is durable.
        var (place, durable) = (ListForm.section, ListForm.section)
        /// The place up to which room on the disk is taken.
        var reserved = ListForm.section
        /// Number of bytes written, and of those that were appended.
        var (written, appended) = (0, 0)
        /// The first failure, after which nothing is confirmed.
        var failure: JournalFailure?
        /// Whether bytes could not be written. What would come after a gap is not the list.
        var hasGap = false
    }

    /// The name of the list, a random UUID.
    package var id: String { file.list }
    private let file: ListFile
    private let state = Mutex(State())

    /// Makes the file of a list without bytes. It is durable when this returns.
    ///
    /// - Throws: `cannotCreate`, `inputOutput`; then there is no file.
    init(_ head: ListHead, in folder: PrivateFolder) throws(JournalFailure) {
        let name = StateFolder.listPrefix + UUID().uuidString.lowercased()
        file = try ListFile(name, in: folder, O_RDWR | O_CREAT | O_EXCL)
        do {
            try file.put(record: head, at: 0)
            try state.withLock { (state) throws(JournalFailure) in try reserve(&state) }
            try folder.sync()
        } catch {
            unlinkat(folder.descriptor, name, 0)
            throw error
        }
    }

    /// More than may be read and not yet synced, with heads of blocks.
    private static let room = 2 << 20

    private func reserve(_ state: inout State) throws(JournalFailure) {
        guard state.reserved < state.place + Self.room else { return }
        try file.reserve(2 * Self.room, behind: state.place)
        state.reserved = state.place + 2 * Self.room
    }

    /// Number of bytes that were appended.
    package var bytes: Int { state.withLock { $0.appended } }

    /// Writes bytes that begin at an offset of the list, in the order of the list, from one thread. The first write that
    /// fails ends the list, which `append` says.
    @Sendable package func arrive(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        state.withLock { write(bytes, at: offset, &$0) }
    }

    private func write(
        _ bytes: UnsafeRawBufferPointer, at offset: Int, _ state: inout State
    ) {
        var rest = bytes.dropFirst(max(0, state.written - offset))
        do throws(JournalFailure) {
            while !rest.isEmpty, !state.hasGap {
                let some = rest.prefix(ListForm.room(at: state.place))
                try file.put(.init(rebasing: some), at: state.place, durable: state.durable)
                state.place = ListForm.place(behind: state.place, some.count)
                state.written += some.count
                rest = rest.dropFirst(some.count)
            }
        } catch {
            (state.failure, state.hasGap) = (error, true)
        }
    }

    /// Adds the next bytes of the list, of which some may have arrived. They are durable when this returns.
    ///
    /// - Throws: `inputOutput`; then it is unknown whether these bytes are durable.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFailure) {
        guard !bytes.isEmpty else { return }
        let place = try state.withLock { (state) throws(JournalFailure) in
            write(bytes, at: state.appended, &state)
            if let failure = state.failure { throw failure }
            return state.place
        }
        do {
            try file.sync()
            try state.withLock { (state) throws(JournalFailure) in
                state.durable = place
                state.appended += bytes.count
                try reserve(&state)
            }
        } catch {
            // A later sync would say that all is well (fsync(2)). What arrives until the reading ends is still written.
            state.withLock { $0.failure = error }
            throw error
        }
    }

    /// Ends the capture. The list is pending then, or held for the given cause.
    ///
    /// - Throws: `inputOutput`; then the next run finds it as one of a killed run, or closed.
    package func close(
        _ end: CaptureEnd, at now: EpochMilliseconds, heldBecause cause: String? = nil
    ) throws(JournalFailure) {
        let state = state.withLock { $0 }
        if let failure = state.failure { throw failure }
        try file.end(end, at: now, bytes: state.written, behind: state.place, cause)
    }

    /// Removes the list. It is for a gateway that was never reached, so there are no bytes to keep.
    package func abandon() throws(JournalFailure) {
        precondition(bytes == 0, "a list with bytes is never abandoned")
        try discard()
    }

    /// Removes the list with all its bytes, for a source that still has them.
    package func discard() throws(JournalFailure) {
        guard unlinkat(file.folder.descriptor, file.name, 0) == 0 else {
            throw file.failure("removing")
        }
        try file.folder.sync()
    }
}

extension ListFile {
    /// Writes the end record, once all bytes are durable, of which the last block ends before a place.
    func end(
        _ end: CaptureEnd, at closed: EpochMilliseconds?, bytes: Int, behind place: Int,
        _ cause: String? = nil
    ) throws(JournalFailure) {
        try cut(behind: place)
        try sync()
        try put(
            record: ListEndRecord(
                end: end.rawValue, closed: closed?.rawValue, bytes: bytes, cause: cause),
            at: ListForm.endPlace)
    }
}

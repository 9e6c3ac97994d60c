// A gateway forgets a byte once it has sent it, and the journal has the byte some milliseconds later, when a
// commit is on the disk. A process killed between the two would lose the byte. So the thread of the socket
// copies what it reads into a file at once, by write(2) and without a sync. The kernel keeps such bytes when
// the process dies, not when the machine does: against a power cut the journal alone helps.
//
// The file is a ring with as many bytes as may be read and not yet durable. Byte n of the feed stands at n
// modulo that number, so writing never reaches a byte that the journal lacks:
//
//   36 bytes  identity of the state folder since the boot; of another one nothing is taken, since nobody
//             knows which of its bytes were written before the machine stopped
//   36 bytes  name of the feed
//    8 bytes  size of the ring, big-endian
//    8 bytes  number of bytes of the feed so far, big-endian; written after the bytes themselves
//    n bytes  the ring
//
// The run removes the file once its feed is closed. Where the next run finds one, it adds to the feed what
// the journal lacks.

import Glibc
import Synchronization

/// The bytes of a feed between the socket and the journal.
package final class ArrivingBytes: Sendable {
    static let name = "arriving"
    private static let headerLength = 36 + 36 + 8 + 8
    /// The most bytes of a ring: 16 MiB. A larger number is not ours.
    private static let largest = 1 << 24

    /// The name of the feed.
    let feed: String
    /// Number of its bytes when this was opened.
    private let count: Int
    private let capacity: Int
    private let folder: PrivateFolder
    private let descriptor: Int32
    /// False after a write that failed. Bytes after a gap are not the feed.
    private let isWhole = Atomic(true)

    /// Makes the file for a feed without bytes.
    ///
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`.
    init(of feed: String, capacity: Int, in folder: StateFolder) throws(JournalFailure) {
        (self.feed, self.capacity, self.folder, count) = (feed, capacity, folder.folder, 0)
        let header = Array((try folder.identity() + feed).utf8)
        descriptor = try folder.folder.open(Self.name, O_RDWR | O_CREAT)
        guard ftruncate(descriptor, 0) == 0,
            (header + Self.bytes(capacity) + Self.bytes(0)).withUnsafeBytes({ put($0, at: 0) })
        else { throw failure("making") }
        // Where file system and limits allow it, the room is taken now, so that a full disk does not end
        // the copying.
        _ = posix_fallocate(descriptor, 0, off_t(Self.headerLength + capacity))
    }

    /// Opens the file that an earlier run left; nil where there is none. One of another boot, or without a
    /// whole header, has a feed without a name.
    ///
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`.
    init?(leftIn folder: StateFolder) throws(JournalFailure) {
        guard folder.folder.has(Self.name) else { return nil }
        let identity = try folder.identity()
        self.folder = folder.folder
        descriptor = try folder.folder.open(Self.name, O_RDONLY)
        var header = [UInt8](repeating: 0, count: Self.headerLength)
        let isRead = pread(descriptor, &header, header.count, 0) >= 0
        let isOurs = header.starts(with: identity.utf8)
        feed = isOurs ? String(decoding: header[36..<72], as: UTF8.self) : ""
        (capacity, count) = (Self.number(header[72..<80]), Self.number(header[80..<88]))
        guard isRead else { throw failure("reading") }
    }

    deinit { close(descriptor) }

    /// Copies bytes that begin at an offset of the feed, in the order of the feed, from one thread. A write
    /// that fails ends the copying: the journal gets the bytes all the same.
    package func add(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard isWhole.load(ordering: .relaxed) else { return }
        let place = Self.headerLength + offset % capacity
        let first = min(bytes.count, capacity - offset % capacity)
        let isThere =
            put(.init(rebasing: bytes[..<first]), at: place)
            && put(.init(rebasing: bytes[first...]), at: Self.headerLength)
            && Self.bytes(offset + bytes.count).withUnsafeBytes { put($0, at: 80) }
        if !isThere { isWhole.store(false, ordering: .relaxed) }
    }

    /// The bytes of the feed that follow on its first `stored` ones.
    ///
    /// - Throws: `inputOutput`.
    func bytes(after stored: Int) throws(JournalFailure) -> [UInt8] {
        guard stored >= 0, stored < count, count - stored <= capacity, capacity <= Self.largest
        else {
            return []
        }
        var ring = [UInt8](repeating: 0, count: capacity)
        let length = pread(descriptor, &ring, capacity, off_t(Self.headerLength))
        guard length >= 0 else { throw failure("reading") }
        let places = (stored..<count).map { $0 % capacity }
        return places.allSatisfy { $0 < length } ? places.map { ring[$0] } : []
    }

    /// Removes the file: the journal has all bytes, or there are none.
    func remove() { unlinkat(folder.descriptor, Self.name, 0) }

    private func put(_ bytes: UnsafeRawBufferPointer, at place: Int) -> Bool {
        guard !bytes.isEmpty else { return true }
        let written = pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(place))
        if written >= 0 { errno = ENOSPC }
        return written == bytes.count
    }

    private func failure(_ doing: String) -> JournalFailure {
        JournalFailure(.inputOutput, "\(doing) \(folder.path)/\(Self.name)", errno)
    }

    private static func bytes(_ number: Int) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int {
        bytes.reduce(0) { $0 << 8 | Int($1) }
    }
}

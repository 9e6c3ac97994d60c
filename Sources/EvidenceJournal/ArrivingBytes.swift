// A gateway forgets a byte once it has sent it, and the journal has the byte some milliseconds later, when a
// commit is on the disk. A process killed between the two would lose the byte. So the thread of the socket
// copies what it reads into a file at once, by write(2) and without a sync. The kernel keeps such bytes when
// the process dies, and writes them to the disk when the volume is unmounted or the machine is shut down in
// good order. Against a power cut the journal alone helps.
//
// Which of the bytes outlasted is no question of where the file is found: a volume may come back under
// another device number, after a restart, or on another machine. Each block has a checksum that tells. The
// file is a ring of blocks, each of a page of the kernel, for more bytes than may be read and not yet durable,
// so that no block is written again of which the journal lacks a byte. Byte n of the list stands in block
// n / 4080, and that block at its number modulo the blocks of the ring:
//
//   a page    36 bytes form, 36 bytes name of the list, 8 bytes blocks of the ring, 8 bytes number of bytes
//             so far, for a person who looks, 8 bytes checksum over all but that number
//   a page    for each block: 8 bytes offset of its first byte in the list, 4 bytes length, 4 bytes
//             checksum over list, offset and bytes; its bytes, at most 4080
//
// Numbers are big-endian. Bytes are added to a block first and its head is written after them, so that a kill
// in between leaves the block as it was. The bytes end at the first block that is absent, damaged or not full.
//
// The run removes the file once its list is closed. Where the next run finds one, it adds to the list what
// the journal lacks.

import Encodings
import Glibc
import Synchronization

/// The bytes of a list between the socket and the journal.
package final class ArrivingBytes: Sendable {
    static let name = "arriving"
    private static let form = Array("bytes that arrive, form 2, of feed:  ".utf8.prefix(36))
    private static let countPlace = 80
    private static let pageLength = 4_096
    private static let headLength = 16
    /// The most bytes of a block.
    static let blockLength = pageLength - headLength
    /// The most blocks of a ring: 16 MiB. A larger number is not ours.
    private static let mostBlocks = 1 << 12

    /// The name of the list.
    let list: String
    /// The number of blocks of the ring.
    private let blocks: Int
    private let folder: PrivateFolder
    private let descriptor: Int32
    /// The block that is being filled; nil after a write that failed. Bytes after a gap are not the list.
    private let filling: Mutex<Block?>

    /// Makes the file for a list without bytes.
    ///
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`.
    init(of list: String, capacity: Int, in folder: StateFolder) throws(JournalFailure) {
        (self.list, self.folder) = (list, folder.folder)
        blocks = min(capacity / Self.blockLength + 2, Self.mostBlocks)
        filling = Mutex(Block(of: list, from: 0))
        descriptor = try folder.folder.open(Self.name, O_RDWR | O_CREAT)
        let header = Self.header(of: list, blocks: blocks)
        guard ftruncate(descriptor, 0) == 0, header.withUnsafeBytes({ put($0, at: 0) })
        else { throw failure("making") }
        // Where file system and limits allow it, the room is taken now, so that a full disk does not end
        // the copying.
        _ = posix_fallocate(descriptor, 0, off_t((blocks + 1) * Self.pageLength))
    }

    /// Opens the file that an earlier run left; nil where there is none. One without a whole header has a
    /// list without a name.
    ///
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`.
    init?(leftIn folder: StateFolder) throws(JournalFailure) {
        guard folder.folder.has(Self.name) else { return nil }
        self.folder = folder.folder
        descriptor = try folder.folder.open(Self.name, O_RDONLY)
        filling = Mutex(nil)
        var header = [UInt8](repeating: 0, count: Self.countPlace + 8 + 8)
        let isRead = pread(descriptor, &header, header.count, 0) >= 0
        header.replaceSubrange(Self.countPlace..<Self.countPlace + 8, with: Self.bytes(UInt64(0)))
        let name = String(decoding: header[36..<72], as: UTF8.self)
        let number = Int(exactly: Self.number(header[72..<80])) ?? 0
        let isOurs =
            (1...Self.mostBlocks).contains(number)
            && header == Self.header(of: name, blocks: number)
        (list, blocks) = isOurs ? (name, number) : ("", 0)
        guard isRead else { throw failure("reading") }
    }

    deinit { close(descriptor) }

    private static func header(of list: String, blocks: Int) -> [UInt8] {
        let content = form + Array(list.utf8) + bytes(UInt64(blocks))
        return content + bytes(UInt64(0)) + bytes(UInt64(FNV1a.hash(content)))
    }

    /// Copies bytes that begin at an offset of the list, in the order of the list, from one thread. A write
    /// that fails ends the copying: the journal gets the bytes all the same.
    package func add(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        filling.withLock { filling in
            var rest = bytes
            var position = offset
            while !rest.isEmpty, var block = filling {
                if position % Self.blockLength == 0 { block = Block(of: list, from: position) }
                let place = place(of: position)
                let added = rest.prefix(Self.blockLength - block.length)
                let old = block.length
                block.add(UnsafeRawBufferPointer(rebasing: added))
                let isWritten = block.page.withUnsafeBytes { page in
                    let end = Self.headLength + block.length
                    guard old > 0 else { return put(.init(rebasing: page[..<end]), at: place) }
                    let first = Self.headLength + old
                    return put(.init(rebasing: page[first..<end]), at: place + first)
                        && put(.init(rebasing: page[..<Self.headLength]), at: place)
                }
                filling = isWritten ? block : nil
                position += added.count
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(added.count))
            }
            _ = Self.bytes(UInt64(position)).withUnsafeBytes { put($0, at: Self.countPlace) }
        }
    }

    /// The bytes of the list that follow on its first `stored` ones.
    ///
    /// - Throws: `inputOutput`.
    func bytes(after stored: Int) throws(JournalFailure) -> [UInt8] {
        guard stored >= 0, blocks > 0 else { return [] }
        var found: [UInt8] = []
        var page = [UInt8](repeating: 0, count: Self.pageLength)
        for _ in 0..<blocks {
            let (next, overflows) = stored.addingReportingOverflow(found.count)
            guard !overflows else { break }
            let first = next - next % Self.blockLength
            let length = pread(descriptor, &page, page.count, off_t(place(of: next)))
            guard length >= 0 else { throw failure("reading") }
            guard let content = Block.content(of: page[..<length], list, from: first) else { break }
            found += content.dropFirst(next - first)
            guard content.count == Self.blockLength else { break }
        }
        return found
    }

    /// Where the block of a byte stands in the file.
    private func place(of offset: Int) -> Int {
        (offset / Self.blockLength % blocks + 1) * Self.pageLength
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

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A block as it stands in the file.
    private struct Block {
        private(set) var page = [UInt8](repeating: 0, count: ArrivingBytes.pageLength)
        private(set) var length = 0
        /// The sum of the whole words, and the number of their bytes.
        private var sum: UInt64
        private var summed = 0

        init(of list: String, from first: Int) {
            sum = Self.seed(list, first)
            page.replaceSubrange(0..<8, with: ArrivingBytes.bytes(UInt64(first)))
        }

        /// Adds bytes that fit, and writes the head anew.
        mutating func add(_ bytes: UnsafeRawBufferPointer) {
            let place = ArrivingBytes.headLength + length
            page.withUnsafeMutableBytes {
                UnsafeMutableRawBufferPointer(rebasing: $0[place...]).copyMemory(from: bytes)
            }
            length += bytes.count
            let total = total()
            page.replaceSubrange(8..<12, with: ArrivingBytes.bytes(UInt32(length)))
            page.replaceSubrange(12..<16, with: ArrivingBytes.bytes(total))
        }

        /// A sum by words of eight bytes, which costs an eighth of one by bytes: bytes arrive faster than
        /// a disk takes them. The bytes of the last word that are none yet are 0.
        private mutating func total() -> UInt32 {
            let head = ArrivingBytes.headLength
            while summed + 8 <= length {
                let word = page.withUnsafeBytes {
                    $0.loadUnaligned(fromByteOffset: head + summed, as: UInt64.self)
                }
                sum = Self.mixed(sum, word)
                summed += 8
            }
            var last: UInt64 = 0
            for byte in page[(head + summed)..<(head + length)] { last = last << 8 | UInt64(byte) }
            let whole = Self.mixed(Self.mixed(sum, last), UInt64(length))
            return UInt32(truncatingIfNeeded: whole ^ whole >> 32)
        }

        private static func mixed(_ sum: UInt64, _ word: UInt64) -> UInt64 {
            let mixed = (sum ^ word) &* 0x9E37_79B9_7F4A_7C15
            return mixed ^ mixed >> 29
        }

        private static func seed(_ list: String, _ first: Int) -> UInt64 {
            UInt64(FNV1a.hash(list)) << 32 ^ UInt64(first) &* 0x2545_F491_4F6C_DD1D
        }

        /// The bytes of the block that begins at an offset of the list; nil where the page has another
        /// one, none, or a damaged one.
        static func content(
            of page: ArraySlice<UInt8>, _ list: String, from first: Int
        ) -> ArraySlice<UInt8>? {
            guard page.count > ArrivingBytes.headLength,
                let length = Int(exactly: ArrivingBytes.number(page[8..<12])),
                (1...page.count - ArrivingBytes.headLength).contains(length)
            else { return nil }
            let content = page.dropFirst(ArrivingBytes.headLength).prefix(length)
            var block = Block(of: list, from: first)
            content.withUnsafeBytes { block.add($0) }
            return block.page[..<ArrivingBytes.headLength] == page[..<ArrivingBytes.headLength]
                ? content : nil
        }
    }
}

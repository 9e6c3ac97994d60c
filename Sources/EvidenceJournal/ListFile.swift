// A gateway forgets a byte once it has sent it. From that moment our copy is the only one, so the bytes of a list are
// written as they come from the socket, raw, before anything is decoded, into one file that is the list:
//
//   reading --end record--> pending, or held where it has a cause --rename--> applied
//
//   list-UUID      is being read, or waits until the database has all of its reports
//   applied-UUID   the database has them since the file was last modified; it goes after 30 days
//
// A kill loses nothing that write(2) took: the kernel has it. A power cut may take what was not synced, in any order
// and in part. So nothing that was confirmed is ever written again: blocks are only added, each with a checksum and the
// place up to which the file was durable then. That place tells damage from a torn end: a block that is not whole, with a
// later one that says it was durable, was damaged; without such a one the list ends there. As SQLite does by default, we
// count on disks that leave the bytes beside a write as they were.
//
//   first section    at 0 the head, and at 32 KiB the end record: JSON, so that a person can read them
//   other sections   blocks of the list's bytes. A section of 64 KiB begins with a block, and none goes beyond it, so
//                    that what is behind a damaged block is found
//   a block          4 bytes length of its content, 4 bytes checksum, 8 bytes durable place; the content
//
// Room for what may be read and not yet synced is taken ahead, where file system and limits allow it, so that a full disk
// loses nothing that was read: the sync that finds no more room ends the reading. The end record gives back what is left.
//
// Numbers are big-endian. The sum covers the name of the list and the block's place too, so that a block of another file,
// which a disk may give back, is none of this one. It cannot tell a file that somebody forged: who may write here may.

import Encodings
import Glibc

/// The places in the file of a list.
enum ListForm {
    /// The number of this form. A file with another one is of another build.
    static let number = 1
    static let section = 1 << 16
    static let endPlace = section / 2
    static let headLength = 16

    /// The most bytes that a block at a place can have.
    static func room(at place: Int) -> Int { section - place % section - headLength }

    /// The place of the next block.
    static func place(behind place: Int, _ length: Int) -> Int {
        let end = place + headLength + length
        return room(at: end) > 0 ? end : end + headLength + room(at: end)
    }

    /// What stands before the content of a block.
    static func head(
        of list: String, at place: Int, durable: Int, _ content: UnsafeRawBufferPointer
    ) -> [UInt8] {
        bytes(UInt32(content.count)) + bytes(sum(list, place, UInt64(durable), content))
            + bytes(UInt64(durable))
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    /// A sum by words of eight bytes, which costs an eighth of one by bytes: bytes arrive faster than a disk takes them.
    static func sum(
        _ list: String, _ place: Int, _ durable: UInt64, _ content: UnsafeRawBufferPointer
    ) -> UInt32 {
        var sum = mixed(mixed(UInt64(FNV1a.hash(list)), UInt64(place)), durable)
        let whole = content.count & ~7
        for place in stride(from: 0, to: whole, by: 8) {
            let word = content.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            sum = mixed(sum, UInt64(littleEndian: word))
        }
        let last = content[whole...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        sum = mixed(mixed(sum, last), UInt64(content.count))
        return UInt32(truncatingIfNeeded: sum ^ sum >> 32)
    }

    private static func mixed(_ sum: UInt64, _ word: UInt64) -> UInt64 {
        let mixed = (sum ^ word) &* 0x9E37_79B9_7F4A_7C15
        return mixed ^ mixed >> 29
    }
}

/// The open file of a list.
final class ListFile: Sendable {
    /// The name of the list, a UUID.
    let list: String
    let name: String
    let folder: PrivateFolder
    private let descriptor: Int32

    /// Opens a file, which `O_CREAT` makes.
    ///
    /// - Throws: `permission` for a link or a file of another user; `cannotCreate`.
    init(_ name: String, in folder: PrivateFolder, _ flags: Int32) throws(JournalFailure) {
        (self.name, self.folder) = (name, folder)
        list = StateFolder.list(in: name)
        descriptor = try folder.open(name, flags)
    }

    deinit { close(descriptor) }

    // MARK: Writing

    /// Writes a block by one call. What stands at its place already must not have been confirmed.
    ///
    /// - Throws: `inputOutput`; then a part of it may be written.
    func put(
        _ content: UnsafeRawBufferPointer, at place: Int, durable: Int = 0
    ) throws(JournalFailure) {
        var head = ListForm.head(of: list, at: place, durable: durable, content)
        let length = head.count + content.count
        let written = head.withUnsafeMutableBytes { head in
            let parts = [
                iovec(iov_base: head.baseAddress, iov_len: head.count),
                iovec(iov_base: .init(mutating: content.baseAddress), iov_len: content.count),
            ]
            return pwritev(descriptor, parts, 2, off_t(place))
        }
        if written >= 0 { errno = ENOSPC }
        guard written == length else {
            throw failure("writing", "free disk space or check the disk")
        }
    }

    /// Makes all that was written durable, and its length.
    ///
    /// - Throws: `inputOutput`; then it is unknown what is durable.
    func sync() throws(JournalFailure) {
        guard fdatasync(descriptor) == 0 else { throw failure("syncing") }
    }

    /// Takes room on the disk for bytes behind a place; they are zeros, which are no block. Nobody may write meanwhile.
    ///
    /// - Throws: `inputOutput` where the disk is full. What else prevents it does not keep anybody from writing.
    func reserve(_ bytes: Int, behind place: Int) throws(JournalFailure) {
        let cause = posix_fallocate(descriptor, off_t(place), off_t(bytes))
        guard cause == ENOSPC || cause == EDQUOT else { return }
        errno = cause
        throw failure("taking room for", "free disk space")
    }

    /// Gives the disk back what lies behind a place.
    func cut(behind place: Int) throws(JournalFailure) {
        guard ftruncate(descriptor, off_t(place)) == 0 else { throw failure("cutting") }
    }

    /// When it was last modified, in milliseconds since 1970. Setting it makes it durable.
    func setModified(_ time: Int64) throws(JournalFailure) {
        let at = timespec(tv_sec: Int(time / 1_000), tv_nsec: Int(time % 1_000) * 1_000_000)
        guard futimens(descriptor, [at, at]) == 0, fsync(descriptor) == 0 else {
            throw failure("noting the time in")
        }
    }

    func failure(_ doing: String, _ cure: String = "check the disk") -> JournalFailure {
        JournalFailure(.inputOutput, "\(doing) \(folder.path)/\(name)", errno, cure)
    }

    // MARK: Reading

    /// The content of the whole block at a place of the first section; nil without one.
    ///
    /// - Throws: `inputOutput`.
    func record(at place: Int) throws(JournalFailure) -> [UInt8]? {
        var sections = Sections(of: self)
        guard let block = try sections.block(at: place), block.isWhole else { return nil }
        return sections.content(of: block, at: place).map { $0 }
    }

    /// Whether bytes can have been written behind the first section.
    var hasBlocks: Bool {
        var facts = stat()
        return fstat(descriptor, &facts) != 0 || facts.st_size > ListForm.section
    }

    /// Passes the bytes of the list on in their order, up to the first block that is not whole, or until the body
    /// wants no more. Returns the place of the next block.
    ///
    /// - Throws: the errors of the body; `inputOutput`.
    func blocks(_ body: (UnsafeRawBufferPointer) throws -> Bool) throws -> Int {
        var sections = Sections(of: self)
        var place = ListForm.section
        while let block = try sections.block(at: place), block.isWhole {
            let goesOn = try sections.content(of: block, at: place).withUnsafeBytes(body)
            place = ListForm.place(behind: place, block.length)
            guard goesOn else { break }
        }
        return place
    }

    /// Whether a later block says that the one at a place was durable, which is not whole now.
    ///
    /// - Throws: `inputOutput`.
    func wasDurable(at damaged: Int) throws(JournalFailure) -> Bool {
        var sections = Sections(of: self)
        var place = damaged
        while try sections.reaches(place) {
            let block = try sections.block(at: place)
            if let block, block.isWhole, block.durable > damaged { return true }
            // Its length may be what is damaged.
            place = ListForm.place(behind: place, block?.length ?? ListForm.room(at: place))
        }
        return false
    }

    /// A block as its head says.
    private struct Block {
        let length: Int
        let durable: Int
        let isWhole: Bool
    }

    /// The sections of the file, of which one is in memory.
    private struct Sections {
        private let file: ListFile
        private var bytes: [UInt8] = []
        /// The place of the section in memory.
        private var start = -1

        init(of file: ListFile) { self.file = file }

        /// Whether the file goes on behind a place.
        mutating func reaches(_ place: Int) throws(JournalFailure) -> Bool {
            let wanted = place - place % ListForm.section
            if start != wanted {
                var section = [UInt8](repeating: 0, count: ListForm.section)
                let count = pread(file.descriptor, &section, section.count, off_t(wanted))
                guard count >= 0 else { throw file.failure("reading") }
                (bytes, start) = (Array(section.prefix(count)), wanted)
            }
            return place - start < bytes.count
        }

        /// The block at a place; nil where no block can stand.
        mutating func block(at place: Int) throws(JournalFailure) -> Block? {
            guard try reaches(place) else { return nil }
            let rest = bytes[(place - start)...]
            let length = Int(Self.number(rest.prefix(4)))
            guard length > 0, length <= ListForm.room(at: place),
                rest.count >= ListForm.headLength + length
            else { return nil }
            let durable = Self.number(rest.dropFirst(8).prefix(8))
            let sum = rest.dropFirst(ListForm.headLength).prefix(length).withUnsafeBytes {
                ListForm.sum(file.list, place, durable, $0)
            }
            return Block(
                length: length, durable: Int(exactly: durable) ?? 0,
                isWhole: UInt64(sum) == Self.number(rest.dropFirst(4).prefix(4)))
        }

        func content(of block: Block, at place: Int) -> ArraySlice<UInt8> {
            bytes[(place - start + ListForm.headLength)...].prefix(block.length)
        }

        private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
            bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
    }
}

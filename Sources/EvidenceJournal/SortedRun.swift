// What a `RecordSorter` has sorted, and how it is read: a run lies in memory or in a file, and a merge reads all runs of
// a group, from the first record or from a place in the middle, as often as somebody asks.

import Encodings
import FoundationEssentials
import Glibc

/// Sorted records of one group.
struct SortedRun: Sendable {
    /// Number of bytes with which a block is full.
    static let blockSize = 1 << 14

    enum Home: Sendable {
        case memory(MemoryRun)
        case file(SortFile)
    }

    let home: Home
    /// Where the blocks begin, and where the last one ends: the number of a key, or of a byte of the file.
    let places: [Int]

    var blocks: Int { places.count - 1 }

    /// The records of a block, one after another.
    ///
    /// - Throws: `inputOutput`.
    func block(_ number: Int) throws(JournalFailure) -> [UInt8] {
        let range = places[number]..<places[number + 1]
        return switch home {
        case .memory(let run): run.records(range)
        case .file(let file): try file.read(range)
        }
    }
}

/// A file without a name in the state folder. It is gone with its last reference, and with a killed process.
final class SortFile: Sendable {
    private let descriptor: Int32
    private let folder: String

    /// - Throws: `cannotCreate`.
    init(in folder: PrivateFolder) throws(JournalFailure) {
        // What takes the folder next removes a name of a process that is killed right here.
        let name = "scratch-" + UUID().uuidString.lowercased()
        descriptor = try folder.open(name, O_RDWR | O_CREAT | O_EXCL)
        unlinkat(folder.descriptor, name, 0)
        self.folder = folder.path
    }

    deinit { close(descriptor) }

    /// Number of bytes.
    ///
    /// - Throws: `inputOutput`.
    func end() throws(JournalFailure) -> Int {
        let end = lseek(descriptor, 0, SEEK_END)
        guard end >= 0 else { throw failure("sorting", errno) }
        return Int(end)
    }

    /// Writes bytes behind the others. Returns the number of all.
    ///
    /// - Throws: `inputOutput`.
    func append(_ bytes: [UInt8]) throws(JournalFailure) -> Int {
        guard writeWhole(bytes, to: descriptor) else { throw failure("sorting", errno) }
        return try end()
    }

    /// - Throws: `inputOutput`, also where the bytes are no whole records.
    func read(_ range: Range<Int>) throws(JournalFailure) -> [UInt8] {
        var cause: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: range.count) { buffer, count in
            while count < range.count, cause == 0 {
                let rest = UnsafeMutableBufferPointer(rebasing: buffer[count...])
                let got = pread(
                    descriptor, rest.baseAddress, rest.count, off_t(range.lowerBound + count))
                if got > 0 {
                    count += got
                } else if got == 0 || errno != EINTR {
                    cause = got == 0 ? EIO : errno
                }
            }
        }
        guard cause == 0, bytes.withUnsafeBytes(SortRecord.areWhole) else {
            throw failure("reading sorted", cause == 0 ? EIO : cause)
        }
        return bytes
    }

    private func failure(_ doing: String, _ cause: Int32) -> JournalFailure {
        JournalFailure(
            .inputOutput, "\(doing) reports in a temporary file in \(folder)", cause,
            cause == ENOSPC ? "free disk space and run again" : "check the disk, then run again")
    }
}

/// The records of several runs in one order.
struct RecordMerge {
    private var cursors: [Cursor] = []
    /// Those that have a record, as a heap: the first one has the next.
    private var heap: [(start: UInt64, cursor: Int)] = []

    /// Begins with the first record whose bytes are not below some.
    ///
    /// - Throws: `inputOutput`.
    init(_ runs: [SortedRun], from first: [UInt8] = []) throws(JournalFailure) {
        for run in runs {
            guard let cursor = try Cursor(run, from: first) else { continue }
            heap.append((cursor.start, cursors.count))
            cursors.append(cursor)
        }
        for place in (0..<heap.count / 2).reversed() { sink(place) }
    }

    /// Passes on the next record; nil at the end.
    ///
    /// - Throws: `inputOutput`.
    mutating func next<Value>(
        _ read: (SortRecord) -> Value?
    ) throws(JournalFailure) -> Value? {
        guard let first = heap.first?.cursor else { return nil }
        let value = cursors[first].withRecord(read)
        if try cursors[first].advance() {
            heap[0].start = cursors[first].start
        } else {
            heap.swapAt(0, heap.count - 1)
            heap.removeLast()
        }
        sink(0)
        return value
    }

    private func precedes(_ one: Int, _ other: Int) -> Bool {
        if heap[one].start != heap[other].start { return heap[one].start < heap[other].start }
        return cursors[heap[one].cursor].withRecord { record in
            cursors[heap[other].cursor].withRecord { record.precedes($0) }
        }
    }

    private mutating func sink(_ place: Int) {
        var place = place
        while case var least = 2 * place + 1, least < heap.count {
            if least + 1 < heap.count, precedes(least + 1, least) { least += 1 }
            guard precedes(least, place) else { return }
            heap.swapAt(place, least)
            place = least
        }
    }
}

/// A record of a run and what comes behind it.
private struct Cursor {
    private let run: SortedRun
    /// The block behind the present one.
    private var next = 0
    private var block: [UInt8] = []
    /// Where the record lies in the block, and what comes behind it.
    private var place = 0
    private var end = 0
    private(set) var start: UInt64 = 0

    /// The first record of a run whose bytes are not below some; nil where there is none.
    init?(_ run: SortedRun, from first: [UInt8]) throws(JournalFailure) {
        self.run = run
        var above = first.isEmpty ? 0 : run.blocks
        // Blocks before `next` begin below, those from `above` on do not.
        while next < above {
            let middle = (next + above) / 2
            let isBelow = try run.block(middle).withUnsafeBytes {
                SortRecord($0, at: 0).isBelow(first)
            }
            if isBelow { next = middle + 1 } else { above = middle }
        }
        // What begins below may go on above.
        next = max(next - 1, 0)
        repeat {
            guard try advance() else { return nil }
        } while withRecord { $0.isBelow(first) }
    }

    func withRecord<Value>(_ read: (SortRecord) -> Value) -> Value {
        block.withUnsafeBytes { read(SortRecord($0, at: place)) }
    }

    /// Goes to the next record; false behind the last one.
    mutating func advance() throws(JournalFailure) -> Bool {
        if end == block.count {
            guard next < run.blocks else { return false }
            (block, end) = (try run.block(next), 0)
            next += 1
        }
        place = end
        (start, end) = withRecord { ($0.start, place + $0.size) }
        return true
    }
}

extension SortRecord {
    fileprivate func isBelow(_ other: [UInt8]) -> Bool {
        other.withUnsafeBytes { compared(with: $0) < 0 }
    }
}

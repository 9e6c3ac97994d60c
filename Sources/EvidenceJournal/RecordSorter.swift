// More records than should be in memory are sorted in runs. A run is filled in memory; when it is full, it is sorted and
// written behind the others into one file. Its records are read back in order by a merge of all runs.
//
//   add --> memory --full--> sorted --> file       no file is made where everything fits into the first run
//   sorted() --> for each group its runs, each of one block after another --> RecordMerge
//
// A record lies in memory and in the file in the same way: the number of its bytes, its time, its bytes. Beside the
// records in memory stand keys of 16 bytes, and sorting moves these alone. The first eight bytes of a record, as a
// number in the key, decide nearly every comparison.
//
// A block is what is read at once: 16 KiB, or one longer record. Eight bytes for each in memory say where it begins, so
// a place in a run is found by reading some blocks, and a merge holds one block of each run.

import Glibc

/// A record where it lies: four bytes with the number of its bytes, eight with its time, then its bytes.
struct SortRecord {
    static let headSize = 12

    let time: Int64
    let bytes: UnsafeRawBufferPointer

    /// - Precondition: a whole record begins at the place.
    init(_ buffer: UnsafeRawBufferPointer, at place: Int) {
        let begin = place + Self.headSize
        let count = Int(buffer.loadUnaligned(fromByteOffset: place, as: UInt32.self))
        time = buffer.loadUnaligned(fromByteOffset: place + 4, as: Int64.self)
        bytes = UnsafeRawBufferPointer(rebasing: buffer[begin..<begin + count])
    }

    /// Whether a buffer is one whole record after another.
    static func areWhole(_ buffer: UnsafeRawBufferPointer) -> Bool {
        var place = 0
        while buffer.count - place >= headSize {
            place += headSize
            place += Int(buffer.loadUnaligned(fromByteOffset: place - headSize, as: UInt32.self))
        }
        return place == buffer.count
    }

    /// Number of bytes with the first twelve.
    var size: Int { Self.headSize + bytes.count }

    /// The first eight bytes, filled up with zeros. The record with the smaller number comes first.
    var start: UInt64 {
        if bytes.count >= 8 { return UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)) }
        return (0..<8).reduce(0) { $0 << 8 | UInt64($1 < bytes.count ? bytes[$1] : 0) }
    }

    /// Below zero where the bytes come before others; a beginning comes before what goes on.
    func compared(with other: UnsafeRawBufferPointer) -> Int {
        let common = min(bytes.count, other.count)
        if common > 0, let one = bytes.baseAddress, let two = other.baseAddress,
            case let order = memcmp(one, two, common), order != 0
        {
            return Int(order)
        }
        return bytes.count - other.count
    }

    /// By bytes, then the latest time first.
    func precedes(_ other: SortRecord) -> Bool {
        let order = compared(with: other.bytes)
        return order == 0 ? time > other.time : order < 0
    }
}

/// Sorts the records of several groups, each of which stands apart.
struct RecordSorter {
    private let folder: PrivateFolder
    /// The most records of a run, and the most bytes; a run of one record may have more.
    private let most: (records: Int, bytes: Int)
    private var memory = MemoryRun()
    private var file: SortFile?
    private var runs: [Int: [SortedRun]] = [:]

    /// A full run has `runLength` records, or fewer where they are longer than tokens usually are.
    init(in folder: PrivateFolder, runLength: Int) {
        self.folder = folder
        most = (runLength, runLength * (SortRecord.headSize + 32))
        memory.reserve(most.records, most.bytes)
    }

    /// Adds a record, whose `count` bytes are put at the end of an array by `append`.
    ///
    /// - Throws: `inputOutput` and `cannotCreate`, for example when the disk is full.
    mutating func add(
        _ count: Int, at time: Int64, to group: Int, _ append: (inout [UInt8]) -> Void
    ) throws(JournalFailure) {
        if memory.keys.count >= most.records
            || memory.bytes.count + SortRecord.headSize + count > most.bytes
        {
            try spill()
        }
        memory.add(count, at: time, to: group, append)
    }

    /// The runs of each group. Call it once, after the last `add`.
    ///
    /// - Throws: the same as adding does.
    mutating func sorted() throws(JournalFailure) -> [Int: [SortedRun]] {
        if file == nil {
            for (group, places) in memory.sort() {
                runs[group] = [SortedRun(home: .memory(memory), places: places)]
            }
        } else {
            try spill()
        }
        memory = MemoryRun()
        return runs
    }

    private mutating func spill() throws(JournalFailure) {
        guard !memory.keys.isEmpty else { return }
        try folder.ensureRoom(for: memory.bytes.count)
        if file == nil { file = try SortFile(in: folder) }
        guard let file else { return }
        for (group, places) in memory.sort() {
            var ends = [try file.end()]
            for (begin, end) in zip(places, places.dropFirst()) {
                ends.append(try file.append(memory.records(begin..<end)))
            }
            runs[group, default: []].append(SortedRun(home: .file(file), places: ends))
        }
        memory.removeAll()
    }
}

/// Records in memory.
struct MemoryRun: Sendable {
    /// What sorts a record, and where it lies.
    struct Key {
        let start: UInt64
        let group: Int32
        let place: UInt32
    }

    private(set) var keys: [Key] = []
    private(set) var bytes: [UInt8] = []

    mutating func add(
        _ count: Int, at time: Int64, to group: Int, _ append: (inout [UInt8]) -> Void
    ) {
        let place = bytes.count
        withUnsafeBytes(of: UInt32(count)) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: time) { bytes.append(contentsOf: $0) }
        append(&bytes)
        let start = bytes.withUnsafeBytes { SortRecord($0, at: place).start }
        keys.append(Key(start: start, group: Int32(group), place: UInt32(place)))
    }

    /// Takes room, which costs nothing until it is filled.
    mutating func reserve(_ count: Int, _ size: Int) {
        keys.reserveCapacity(count)
        bytes.reserveCapacity(size)
    }

    mutating func removeAll() {
        keys.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
    }

    /// Sorts the keys. Returns, for each group, with which its blocks begin and behind which the last one ends.
    mutating func sort() -> [(group: Int, places: [Int])] {
        let bytes = bytes
        return bytes.withUnsafeBytes { bytes in
            keys.sort { one, other in
                if one.group != other.group { return one.group < other.group }
                if one.start != other.start { return one.start < other.start }
                return SortRecord(bytes, at: Int(one.place))
                    .precedes(SortRecord(bytes, at: Int(other.place)))
            }
            return blocks(bytes)
        }
    }

    private func blocks(_ bytes: UnsafeRawBufferPointer) -> [(group: Int, places: [Int])] {
        var (blocks, place) = ([(group: Int, places: [Int])](), 0)
        while place < keys.count {
            let group = keys[place].group
            var (places, size) = ([place], 0)
            while place < keys.count, keys[place].group == group {
                if size >= SortedRun.blockSize {
                    places.append(place)
                    size = 0
                }
                size += SortRecord(bytes, at: Int(keys[place].place)).size
                place += 1
            }
            blocks.append((Int(group), places + [place]))
        }
        return blocks
    }

    /// The records of some keys, one after another.
    func records(_ range: Range<Int>) -> [UInt8] {
        var block: [UInt8] = []
        block.reserveCapacity(SortedRun.blockSize + 4_096)
        bytes.withUnsafeBytes { bytes in
            for key in keys[range] {
                let place = Int(key.place)
                block.append(
                    contentsOf: bytes[place..<place + SortRecord(bytes, at: place).size])
            }
        }
        return block
    }
}

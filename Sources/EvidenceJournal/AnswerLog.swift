// What the gateway answered, between the answer and the commit of the row's result. The gateway answers
// once. Where the database is away, or the sender is killed, this file has the answer, and the next
// sender of the folder writes it into the queue. Without it the row would be of unknown outcome.
//
// It is a file of its own and no table of the journal, for speed: a sender has 30,000 answers per second.
// Records are appended by one write(2) for many answers, and the file is emptied once the database has all of
// them. A write is enough to outlast the sender. It does not outlast a power cut, so the file is synced
// where it has a report against a token, which has no other copy, before the database gets it, and where it has
// to wait because the database does not take the results. Another answer that a power
// cut takes leaves its row of unknown outcome.
//
// A claim whose answers the database has leaves a note where it had reports. The database may forget the claim
// from then on, and its reports must not come in twice.
//
// A record is the length of its content and a checksum (each 4 bytes, big-endian), and the content. One that
// differs from its checksum is passed over, and one that is cut short ends the file. Such a file is set aside.

import Encodings
import FoundationEssentials
import Glibc
import TokenHygiene

/// The answers of one queue that a sender keeps until their results are written.
package final class AnswerLog {
    /// The longest content of a record in bytes.
    static let longest = 1 << 24
    private static let headerLength = 8

    private let folder: StateFolder
    private let name: String
    private let file: Int32
    private var length: off_t
    /// The claims with records in the file whose results are not all written.
    private var waiting: Set<Int64> = []
    /// The claims with a report in the file, and whether each report is durable.
    private var reporting: Set<Int64> = []
    private var isSynced = true

    /// Opens the file of a queue and creates it on first use. Records in it must have been settled
    /// before; they are dropped when the file is emptied.
    ///
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`.
    package init(in folder: StateFolder, queue: UInt64) throws(JournalFailure) {
        self.folder = folder
        name = Self.name(queue)
        file = try folder.folder.open(name, O_RDWR | O_CREAT | O_APPEND)
        length = lseek(file, 0, SEEK_END)
        guard length >= 0 else { throw Self.failure("looking at", folder.file(name)) }
    }

    deinit { close(file) }

    private static let prefix = "answers-"

    /// The files of a folder that have answers, of any queue.
    private static func filled(in folder: StateFolder) -> [String] {
        ((try? folder.folder.entries) ?? []).filter {
            $0.hasPrefix(prefix) && folder.folder.hasContent($0)
        }
    }

    /// Whether a sender of a folder has left answers, of any queue.
    package static func isLeft(in folder: StateFolder) -> Bool { !filled(in: folder).isEmpty }

    /// How many reports against tokens a sender of a folder has left, by app and environment. Nothing is changed.
    ///
    /// - Throws: `permission`, `inputOutput`.
    package static func leftReports(
        in folder: StateFolder
    ) throws(JournalFailure) -> [Partition: Int] {
        var counts: [Partition: Int] = [:]
        for name in filled(in: folder) {
            let file = try folder.folder.open(name, O_RDONLY)
            defer { close(file) }
            let left = leftAnswers(records(try content(of: file, folder.file(name))[...]))
            for kept in left.answers where !kept.heard.isEmpty {
                counts[kept.origin.partition, default: 0] += kept.heard.count
            }
        }
        return counts
    }

    private static func content(
        of file: Int32, _ path: String
    ) throws(JournalFailure) -> [UInt8] {
        var facts = stat()
        guard fstat(file, &facts) == 0 else { throw failure("reading", path) }
        var content = [UInt8](repeating: 0, count: Int(facts.st_size))
        var filled = 0
        while filled < content.count {
            let count = content.withUnsafeMutableBytes {
                pread(file, $0.baseAddress.map { $0 + filled }, $0.count - filled, filled)
            }
            guard count >= 0 else { throw failure("reading", path) }
            // It was emptied meanwhile.
            guard count > 0 else { break }
            filled += count
        }
        return Array(content.prefix(filled))
    }

    private static func name(_ queue: UInt64) -> String {
        let digits = String(queue, radix: 16)
        return prefix + String(repeating: "0", count: max(0, 16 - digits.count)) + digits
    }

    private static func failure(_ doing: String, _ path: String) -> JournalFailure {
        JournalFailure(.inputOutput, "\(doing) \(path)", errno)
    }

    /// Adds records to the file by one write. They outlast this process when this returns.
    ///
    /// - Throws: `inputOutput`; then none of them is in the file.
    func keep(
        _ records: [(claim: Int64, content: [UInt8], isReport: Bool)]
    ) throws(JournalFailure) {
        try append(records.map(\.content))
        waiting.formUnion(records.lazy.map(\.claim))
        let reports = records.lazy.filter(\.isReport).map(\.claim)
        guard !reports.isEmpty else { return }
        reporting.formUnion(reports)
        isSynced = false
    }

    private func append(_ contents: [[UInt8]]) throws(JournalFailure) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(
            contents.reduce(0) { $0 + $1.count + Self.headerLength })
        for content in contents {
            precondition(content.count <= Self.longest, "a record is one claim's answers")
            Self.append(UInt32(content.count), to: &bytes)
            Self.append(FNV1a.hash(content), to: &bytes)
            bytes += content
        }
        guard !bytes.isEmpty else { return }
        guard bytes.withUnsafeBytes({ writeWhole($0, to: file) }) else {
            let cause = errno
            // A part of a record would end the file for its reader.
            _ = ftruncate(file, length)
            errno = cause
            throw Self.failure("keeping answers in", folder.file(name))
        }
        length += off_t(bytes.count)
    }

    /// Makes the reports in the file durable.
    ///
    /// - Throws: `inputOutput`.
    package func syncReports() throws(JournalFailure) {
        guard !isSynced else { return }
        try sync()
    }

    /// Notes that all results of a claim that the file has are written, or that the claim belongs to
    /// another sender. Empties the file once this holds for all claims.
    ///
    /// - Throws: `inputOutput`.
    package func release(_ claim: Int64) throws(JournalFailure) {
        guard waiting.remove(claim) != nil else { return }
        guard !waiting.isEmpty else { return try empty() }
        guard reporting.remove(claim) != nil else { return }
        try append([KeptResults.release(of: claim)])
    }

    /// Drops all records.
    ///
    /// - Throws: `inputOutput`.
    package func empty() throws(JournalFailure) {
        (waiting, reporting, isSynced) = ([], [], true)
        guard length > 0 else { return }
        guard ftruncate(file, 0) == 0 else { throw Self.failure("emptying", folder.file(name)) }
        length = 0
    }

    /// Renames a damaged file, so that no run reads it, and returns its path. This log must not be used any more.
    ///
    /// - Throws: `inputOutput`; the file stays then.
    package func setAside() throws(JournalFailure) -> String {
        let kept = "damaged-\(name)-\(UUID().uuidString.prefix(8).lowercased())"
        let place = folder.folder.descriptor
        guard renameat(place, name, place, kept) == 0 else {
            throw Self.failure("setting aside", folder.file(name))
        }
        try folder.folder.sync()
        return folder.file(kept)
    }

    /// Whether the file has records whose results are not all written.
    package var isWaiting: Bool { !waiting.isEmpty }

    /// Makes the records durable, for a file that has to wait for another run.
    ///
    /// - Throws: `inputOutput`.
    package func sync() throws(JournalFailure) {
        guard fsync(file) == 0 else { throw Self.failure("syncing", folder.file(name)) }
        try folder.folder.sync()
        isSynced = true
    }

    /// The contents of the records that a sender of this folder has left, in order, without damaged ones.
    ///
    /// - Throws: `inputOutput`.
    package func records() throws(JournalFailure) -> (records: [[UInt8]], isDamaged: Bool) {
        Self.records(try Self.content(of: file, folder.file(name))[...])
    }

    /// The records in the bytes of a file.
    static func records(
        _ bytes: ArraySlice<UInt8>
    ) -> (records: [[UInt8]], isDamaged: Bool) {
        var rest = bytes
        var records: [[UInt8]] = []
        var isDamaged = false
        while rest.count > headerLength {
            let count = Int(number(rest))
            let sum = number(rest.dropFirst(4))
            let content = rest.dropFirst(headerLength).prefix(count)
            guard count > 0, count <= longest, content.count == count else { break }
            if FNV1a.hash(content) == sum {
                records.append(Array(content))
            } else {
                isDamaged = true
            }
            rest = rest.dropFirst(headerLength + count)
        }
        return (records, isDamaged || !rest.isEmpty)
    }

    private static func append(_ number: UInt32, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}

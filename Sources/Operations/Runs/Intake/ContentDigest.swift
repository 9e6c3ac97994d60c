// A log is imported each hour while it grows. What was read of it before is known by its digest: `pushsweep_intake` has,
// for each content that was taken, its length up to the end of its last whole record and the digest of that. So a file
// is read twice, of which the first time costs a digest only:
//
//   the first KiB, or the first line -> contents that were taken and begin so -> digest up to the longest of them
//   the longest that fits -> what stands behind it is read; none -> all of it
//
// The last record may have no line break yet, because its writer is at work. It is read, and read again when it is
// whole. A digest begins with how the file is read and for which app, so another map reads all of it.

import APNsProtocol
import EvidenceFiles
import Findings
import SecureTransport
import TokenHygiene
import TokenTable

/// The beginning of a content by which earlier ones are found: its first line, or its first KiB.
struct ContentHead {
    private static let longest = 1_024

    private let terms: [UInt8]
    private var bytes: [UInt8] = []
    /// Whether no more bytes belong to it.
    private(set) var isWhole = false

    /// Begins before the first byte of a content that is read on some terms.
    init(_ terms: [UInt8]) { self.terms = terms }

    /// Takes the next bytes of the content.
    mutating func take(_ content: UnsafeRawBufferPointer) {
        guard !isWhole else { return }
        let lineBreak = UInt8(ascii: "\n")
        for byte in content.prefix(Self.longest - bytes.count) {
            bytes.append(byte)
            if byte == lineBreak { break }
        }
        isWhole = bytes.last == lineBreak || bytes.count == Self.longest
    }

    /// The digest of the terms and these bytes.
    func digest() throws -> String {
        let digest = try SHA256Digest()
        try digest.update(terms)
        try digest.update(bytes)
        return try digest.hex()
    }
}

/// The digests of a content while it is read: of all of it, and of its whole records. Confined to one thread.
final class ContentDigest {
    /// A record that is longer is none.
    private static let longestRecord = 4 << 20
    /// A content of fewer bytes has no record with a token.
    private static let shortest = 8

    /// The digest of the terms and the whole records, and their bytes.
    private let records: SHA256Digest
    private var length = 0
    /// Bytes that the digest has already.
    private var known: Int
    /// The bytes behind the whole records.
    private var rest: [UInt8] = []
    private var head: ContentHead
    private var hasEndlessRecord = false

    /// Begins before the first byte of a content that is read on some terms, of which a part may be known.
    init(_ terms: [UInt8], behind known: ReadBefore?) throws {
        head = ContentHead(terms)
        self.known = known?.beginning.length ?? 0
        if let known {
            records = try known.digest.copy()
        } else {
            records = try SHA256Digest()
            try records.update(terms)
        }
    }

    /// Takes the next bytes of the content. `whole` are the bytes before them up to the end of the last record.
    func take(_ content: UnsafeRawBufferPointer, whole: Int) throws {
        head.take(content)
        let passed = min(known, content.count)
        known -= passed
        length += passed
        try settle(whole)
        rest.append(contentsOf: UnsafeRawBufferPointer(rebasing: content[passed...]))
        guard rest.count > Self.longestRecord else { return }
        hasEndlessRecord = true
        try settle(length + rest.count)
    }

    private func settle(_ whole: Int) throws {
        guard whole > length else { return }
        let count = min(whole - length, rest.count)
        try rest.withUnsafeBytes {
            try records.update(UnsafeRawBufferPointer(rebasing: $0[..<count]))
        }
        rest.removeFirst(count)
        length += count
    }

    /// The end of the content: the digest of all of it, and what a later import may know of it. `whole` are its bytes up
    /// to the end of the last record.
    func end(whole: Int) throws -> (all: String, taken: TakenContent?) {
        try settle(whole)
        let digest = try records.hex()
        let isKept = length == whole && length >= Self.shortest && !hasEndlessRecord
        let all = try records.copy()
        try all.update(rest)
        return (
            try all.hex(),
            isKept ? TakenContent(head: try head.digest(), length: length, digest: digest) : nil
        )
    }
}

/// What of a file was imported before.
struct ReadBefore {
    let beginning: KnownBeginning
    /// The digest of the terms and of that beginning.
    let digest: SHA256Digest
    /// The name under which it was taken.
    let name: String?
    /// Whether one of those that begin so brought evidence, so that the options are right.
    let isProven: Bool
}

/// Looks for the longest of some contents with which another one begins.
private struct BeginningSearch {
    /// The contents that are not reached yet, the shortest first.
    private var left: ArraySlice<TakenContent>
    private let digest: SHA256Digest
    private var (count, lines) = (0, 0)
    private var lastByte: UInt8?
    private var isProven = false
    private(set) var found: ReadBefore?

    init(_ contents: [TakenContent], _ terms: [UInt8]) throws {
        // Of two that are the same the one that was taken last comes first.
        left =
            contents.enumerated()
            .sorted { ($0.element.length, $0.offset) < ($1.element.length, $1.offset) }
            .map(\.element)[...]
        digest = try SHA256Digest()
        try digest.update(terms)
    }

    /// Whether more bytes find no more.
    var isEnded: Bool { left.isEmpty }

    mutating func take(_ content: UnsafeRawBufferPointer) throws {
        var rest = content
        while let next = left.first {
            let wanted = next.length - count
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(wanted))
            try digest.update(part)
            count += part.count
            lastByte = part.last ?? lastByte
            lines += part.lineBreaks
            rest = UnsafeRawBufferPointer(rebasing: rest[part.count...])
            guard count == next.length else { return }
            // Only behind a line break something whole begins.
            if lastByte == UInt8(ascii: "\n"), try digest.hex() == next.digest {
                isProven = isProven || next.isProven
                let isSame = found?.beginning.length == count
                found = ReadBefore(
                    beginning: KnownBeginning(length: count, lines: lines),
                    digest: try digest.copy(), name: isSame ? found?.name : next.name,
                    isProven: isProven)
            }
            left.removeFirst()
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate var lineBreaks: Int {
        var count = 0
        for byte in self where byte == UInt8(ascii: "\n") { count &+= 1 }
        return count
    }
}

extension ReportIntake {
    /// What of a regular file was imported before on the same terms; nil where nothing was. It is read from its
    /// beginning afterwards.
    ///
    /// - Throws: as `take`. What is damaged is told by the reading that follows.
    func readBefore(of source: GivenSource, _ terms: [UInt8]) throws -> ReadBefore? {
        guard source.length != nil else { return nil }
        var (file, head, first) = (FileContent(), ContentHead(terms), [UInt8]())
        var search: BeginningSearch?
        func take(_ content: UnsafeRawBufferPointer) throws {
            if context.interrupt.isTripped { throw source.stopped }
            if search != nil {
                try search?.take(content)
                return
            }
            head.take(content)
            first.append(contentsOf: content)
            guard head.isWhole else { return }
            search = try BeginningSearch(takenContents(beginning: head.digest()), terms)
            try first.withUnsafeBytes { try search?.take($0) }
            first = []
        }
        do {
            while search?.isEnded != true,
                try source.next({ piece in try file.take(piece, take) })
            {}
        } catch is UnreadableFile {}
        try source.rewind()
        return search?.found
    }

    /// The contents that begin so. A dry run needs neither the table nor a right to it.
    private func takenContents(beginning head: String) throws -> [TakenContent] {
        do throws(StoreFailure) {
            return try intake.taken(beginning: head)
        } catch {
            guard plan.dryRun, ![.unreachable, .busy].contains(error.code) else { throw error }
            return []
        }
    }
}

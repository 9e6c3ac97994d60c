// Turns the raw bytes of a captured list into evidence. The bytes become tuples, tuples with impossible times are refused,
// and the others go into the evidence table. What is no evidence is quarantined with its place in the list, so that a
// person can look at it. Decoding a list again gives the same result in every run, because the bounds of believable times
// depend on the moment at which its reading ended, and not on the present.

import APNsProtocol
import TokenHygiene

/// The evidence of a captured list.
package struct ListEvidence {
    package let list: CapturedList
    /// The tuples; none is judged or held yet.
    package let counts: Counts
    /// Bytes after the last whole tuple.
    package let quarantinedBytes: Int
    /// How the list ended, in one word.
    package let end: ListEnd
    /// One sentence about the end; nil for a complete list.
    package let detail: String?
    /// Number of tuples with an impossible time.
    package let outOfBounds: Int
    /// The refused tuples, each a part; at most `placesNamed`.
    package let refused: [QuarantinedPart]
    /// From where on the list's bytes are quarantined as they are, and why; nil where none are.
    package let raw: (offset: Int, reason: String)?
    /// Each token once, in token order; none where the list was only counted.
    package let tokens: SortedEvidence

    /// How capturing ended, for the exit code.
    package var captureEnd: CaptureEnd { list.end ?? .crashed }
}

extension StateFolder {
    /// Decodes a list. Sorts its evidence unless the list is only to be counted.
    ///
    /// - Throws: `undecodable` for a damaged list; other failures of reading.
    package func evidence(of list: CapturedList, sorting: Bool = true) throws -> ListEvidence {
        var decoding = ListDecoding(list, in: self, sorting: sorting)
        return try decoding.run()
    }

    /// Counts the tuples of a list.
    package func counts(of list: CapturedList) throws -> Counts {
        try evidence(of: list, sorting: false).counts
    }

    /// Passes on what of a list is quarantined, some parts at once: the refused tuples, and what could not be decoded
    /// in parts of 8 KiB, so that nothing of what a gateway has forgotten is lost.
    ///
    /// - Throws: the errors of the body; as `readBytes`.
    package func quarantine(
        of evidence: ListEvidence, _ keep: ([QuarantinedPart]) throws -> Void
    ) throws {
        try keep(evidence.refused)
        guard let raw = evidence.raw else { return }
        var (parts, bytes, place): ([QuarantinedPart], [UInt8], Int) = ([], [], raw.offset)
        func cut(atLeast most: Int) throws {
            parts.append(
                QuarantinedPart(place: place, bytes: bytes, reason: raw.reason, token: nil))
            place += bytes.count
            bytes.removeAll(keepingCapacity: true)
            guard parts.count >= most else { return }
            try keep(parts)
            parts = []
        }
        try readBytes(of: evidence.list, from: raw.offset) { chunk in
            var rest = chunk[...]
            while !rest.isEmpty {
                let some = rest.prefix(QuarantinedPart.mostBytes - bytes.count)
                bytes += some
                rest = rest.dropFirst(some.count)
                if bytes.count == QuarantinedPart.mostBytes { try cut(atLeast: 100) }
            }
        }
        if !bytes.isEmpty { try cut(atLeast: 1) } else { try keep(parts) }
    }
}

/// Decodes one captured list.
struct ListDecoding {
    /// Number of refused tuples that are parts of their own; a hostile list must not get a row for each of its tuples.
    static let placesNamed = 10_000

    private let folder: StateFolder
    private let list: CapturedList
    private let sorts: Bool
    private let bounds: EvidenceBounds
    private var counts = Counts()
    private let evidence: EvidenceTable
    private var refused: [QuarantinedPart] = []
    /// Offset of the first refused tuple that is no part of its own.
    private var unnamed: Int?
    private var place = 0
    private var outOfBounds = 0

    fileprivate init(_ list: CapturedList, in folder: StateFolder, sorting: Bool) {
        (self.list, self.folder, sorts) = (list, folder, sorting)
        bounds = EvidenceBounds(now: list.read)
        evidence = EvidenceTable(in: folder)
    }

    fileprivate mutating func run() throws -> ListEvidence {
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        try folder.readBytes(of: list) { chunk in
            tuples.removeAll(keepingCapacity: true)
            decoder.decode(chunk, into: &tuples)
            for tuple in tuples { try take(tuple) }
        }
        let (whole, ending) = (decoder.wholeTupleBytes, decoder.ending)
        let quarantinedBytes = decoder.bytesSeen - whole
        let raw =
            unnamed.map { (offset: $0, reason: "more than \(Self.placesNamed) places") }
            ?? (quarantinedBytes > 0 ? (offset: whole, reason: "\(ending)") : nil)
        return ListEvidence(
            list: list, counts: counts, quarantinedBytes: quarantinedBytes,
            end: ListEnd(list.end ?? .crashed, ending), detail: detail(ending),
            outOfBounds: outOfBounds, refused: refused, raw: raw,
            tokens: try evidence.seal()[0])
    }

    private mutating func take(_ tuple: FeedbackTuple) throws {
        let start = place
        place += tuple.encodedLength
        counts.tuples += 1
        if let rejection = bounds.rejection(of: tuple) {
            counts.quarantined += 1
            if rejection != .emptyToken { outOfBounds += 1 }
            refuse(tuple, rejection, at: start)
        } else if sorts, let token = tuple.token {
            try evidence.add(token, EpochMilliseconds(tuple.time))
        }
    }

    private mutating func refuse(
        _ tuple: FeedbackTuple, _ rejection: EvidenceRejection, at offset: Int
    ) {
        guard refused.count < Self.placesNamed else {
            unnamed = unnamed ?? offset
            return
        }
        // A tuple encodes to the bytes that it came from.
        var bytes: [UInt8] = []
        tuple.encode(into: &bytes)
        refused.append(
            QuarantinedPart(
                place: offset, bytes: bytes, reason: rejection.description, token: tuple.token))
    }

    private func detail(_ ending: FeedbackEnding) -> String? {
        let tail = ending == .clean ? nil : "\(ending)"
        let cause: String? =
            switch list.end ?? .crashed {
            case .closeNotify, .idle, .file: nil
            case .cut: "the connection ended without close_notify, so the list may be incomplete"
            case .reset: "the gateway reset the connection, so the list may be incomplete"
            case .broken: "TLS broke off, so the list may be incomplete"
            case .slow:
                "the gateway sent under a thousand bytes a second, so the list was left unfinished"
            case .full: "the list reached feedback.max-bytes and was cut off there"
            case .stopped: "the run that read it was told to stop"
            case .crashed: "the run that read it was interrupted"
            }
        let parts = [cause, tail].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }
}

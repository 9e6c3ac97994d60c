// Turns the raw bytes of a captured list into evidence. The bytes become tuples, tuples with
// impossible times are refused, and the others go into the evidence table. Bytes that are not
// evidence are quarantined with their place in the list, so that a person can look at them; they stay
// in the journal. Decoding a list again gives the same result in every run, because the bounds of
// believable times depend on the moment at which its reading ended, and not on the present.

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
    /// Each token once, in token order; none where the list was only counted.
    package let tokens: SortedEvidence

    /// How capturing ended, for the exit code.
    package var captureEnd: CaptureEnd { list.end ?? .crashed }
}

extension EvidenceJournal {
    /// Reads a list and records its quarantine, unless the journal is open for reading only. Sorts its
    /// evidence unless the list is only to be counted.
    ///
    /// - Throws: `undecodable` for bytes that are not those that were stored; other failures of reading.
    package func evidence(of list: CapturedList, sorting: Bool = true) throws -> ListEvidence {
        var decoding = ListDecoding(list, in: self, sorting: sorting)
        return try decoding.run()
    }

    /// Counts the tuples of a list.
    package func counts(of list: CapturedList) throws -> Counts {
        try evidence(of: list, sorting: false).counts
    }
}

/// Decodes one captured list.
struct ListDecoding {
    /// Number of quarantined places that get an entry of their own; a hostile list must not get a
    /// journal row for each of its tuples.
    static let placesNamed = 10_000

    private let journal: EvidenceJournal
    private let list: CapturedList
    private let sorts: Bool
    private let bounds: EvidenceBounds
    private var counts = Counts()
    /// Bytes read, and those of whole tuples.
    private var bytes = 0
    private var tupleBytes = 0
    private let evidence: EvidenceTable
    private var refused: [Quarantined] = []
    /// Offset of the first quarantined place without an entry of its own.
    private var unnamed: Int?
    private var place = 0
    private var outOfBounds = 0

    fileprivate init(_ list: CapturedList, in journal: EvidenceJournal, sorting: Bool) {
        (self.list, self.journal, sorts) = (list, journal, sorting)
        bounds = EvidenceBounds(now: list.read)
        evidence = EvidenceTable(in: journal.folder)
    }

    fileprivate mutating func run() throws -> ListEvidence {
        let ending = try readTuples()
        let quarantinedBytes = bytes - tupleBytes
        if quarantinedBytes > 0 {
            refuse(
                Quarantined(offset: tupleBytes, length: quarantinedBytes, reason: "\(ending)"))
        }
        if let unnamed {
            refused.append(
                Quarantined(
                    offset: unnamed, length: bytes - unnamed,
                    reason: "more than \(Self.placesNamed) places"))
        }
        if !journal.isReadOnly { try journal.quarantine(refused, of: list.id) }
        if list.bytes != bytes {
            throw JournalFailure(
                .undecodable,
                "decoding list \(list.id): the journal noted \(list.bytes) bytes and returned "
                    + "\(bytes); keep the state folder and check the disk")
        }
        return ListEvidence(
            list: list, counts: counts, quarantinedBytes: quarantinedBytes,
            end: ListEnd(list.end ?? .crashed, ending), detail: detail(ending),
            outOfBounds: outOfBounds,
            tokens: try evidence.seal()[0])
    }

    private mutating func readTuples() throws -> FeedbackEnding {
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        try journal.forEachChunk(of: list.id) { chunk in
            tuples.removeAll(keepingCapacity: true)
            decoder.decode(chunk, into: &tuples)
            for tuple in tuples {
                try take(
                    tuple.token, EpochMilliseconds(tuple.time), tuple.encodedLength,
                    bounds.rejection(of: tuple))
            }
        }
        (bytes, tupleBytes) = (decoder.bytesSeen, decoder.wholeTupleBytes)
        return decoder.ending
    }

    private mutating func take(
        _ token: DeviceToken?, _ time: EpochMilliseconds, _ length: Int,
        _ rejection: EvidenceRejection?
    ) throws {
        let start = place
        place += length
        counts.tuples += 1
        if let rejection {
            counts.quarantined += 1
            if rejection != .emptyToken { outOfBounds += 1 }
            refuse(Quarantined(offset: start, length: length, reason: rejection.rawValue))
        } else if sorts, let token {
            try evidence.add(token, time)
        }
    }

    private mutating func refuse(_ entry: Quarantined) {
        if refused.count < Self.placesNamed {
            refused.append(entry)
        } else if unnamed == nil {
            unnamed = entry.offset
        }
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

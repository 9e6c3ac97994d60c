// Turns the raw bytes of a captured feed into evidence. The bytes become tuples, tuples with
// impossible times are refused, and the others go into the evidence table. Bytes that are not
// evidence are quarantined with their place in the feed, so that a person can look at them; they stay
// in the journal. Decoding a feed again gives the same result in every run, because the bounds of
// believable times depend on the moment at which its reading ended, and not on the present.

import APNsProtocol
import TokenHygiene

/// The evidence of a captured feed.
package struct FeedEvidence {
    package let feed: CapturedFeed
    /// The tuples; none is judged or held yet.
    package let counts: Counts
    /// Bytes after the last whole tuple.
    package let quarantinedBytes: Int
    /// How the feed ended, in one word.
    package let end: FeedEnd
    /// One sentence about the end; nil for a complete list.
    package let detail: String?
    /// Number of tuples with an impossible time.
    package let outOfBounds: Int
    /// Each token once, in token order; none where the feed was only counted.
    package let tokens: SortedEvidence

    /// How capturing ended, for the exit code.
    package var captureEnd: CaptureEnd { feed.end ?? .crashed }
}

extension EvidenceJournal {
    /// Reads a feed and records its quarantine, unless the journal is open for reading only. Sorts its
    /// evidence unless the feed is only to be counted.
    ///
    /// - Throws: `undecodable` for bytes that are not those that were stored; other failures of reading.
    package func evidence(of feed: CapturedFeed, sorting: Bool = true) throws -> FeedEvidence {
        var decoding = FeedDecoding(feed, in: self, sorting: sorting)
        return try decoding.run()
    }

    /// Counts the tuples of a feed.
    package func counts(of feed: CapturedFeed) throws -> Counts {
        try evidence(of: feed, sorting: false).counts
    }
}

/// Decodes one captured feed.
struct FeedDecoding {
    /// Number of quarantined places that get an entry of their own; a hostile feed must not get a
    /// journal row for each of its tuples.
    static let placesNamed = 10_000

    private let journal: EvidenceJournal
    private let feed: CapturedFeed
    private let sorts: Bool
    private let bounds: EvidenceBounds
    private var counts = Counts()
    /// Bytes read, and those of whole tuples.
    private var bytes = 0
    private var tupleBytes = 0
    private var evidence: EvidenceTable?
    private var refused: [Quarantined] = []
    /// Offset of the first quarantined place without an entry of its own.
    private var unnamed: Int?
    private var place = 0
    private var outOfBounds = 0

    fileprivate init(_ feed: CapturedFeed, in journal: EvidenceJournal, sorting: Bool) {
        (self.feed, self.journal, sorts) = (feed, journal, sorting)
        bounds = EvidenceBounds(now: feed.read)
    }

    fileprivate mutating func run() throws -> FeedEvidence {
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
        if !journal.isReadOnly { try journal.quarantine(refused, of: feed.id) }
        if feed.bytes != bytes {
            throw JournalFailure(
                .undecodable,
                "decoding feed \(feed.id): the journal noted \(feed.bytes) bytes and returned "
                    + "\(bytes); keep the state folder and check the disk")
        }
        return FeedEvidence(
            feed: feed, counts: counts, quarantinedBytes: quarantinedBytes,
            end: FeedEnd(feed.end ?? .crashed, ending), detail: detail(ending),
            outOfBounds: outOfBounds,
            tokens: try evidence?.seal().first ?? .none)
    }

    private mutating func readTuples() throws -> FeedbackEnding {
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        try journal.forEachChunk(of: feed.id) { chunk in
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

    /// The owner of a visited folder may be sorting a feed there too, so a visitor uses another name.
    private var scratch: String { journal.folder.isVisited ? "scratch-visit" : "scratch" }

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
            if evidence == nil { evidence = try EvidenceTable(in: journal.folder, named: scratch) }
            try evidence?.add(token, time)
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
            switch feed.end ?? .crashed {
            case .closeNotify, .idle, .file: nil
            case .cut: "the connection ended without close_notify, so the list may be incomplete"
            case .reset: "the gateway reset the connection, so the list may be incomplete"
            case .broken: "TLS broke off, so the list may be incomplete"
            case .slow:
                "the gateway sent under a thousand bytes a second, so the list was left unfinished"
            case .full: "the feed reached feedback.max-bytes and was cut off there"
            case .stopped: "the run that read it was told to stop"
            case .crashed: "the run that read it was interrupted"
            }
        let parts = [cause, tail].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }
}

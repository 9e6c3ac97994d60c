// Turns the raw bytes of a captured feed into evidence. The bytes become tuples, tuples with
// impossible times are refused, and the others go into the evidence table. Bytes that are not
// evidence are quarantined with their place in the feed, so that a person can look at them; they stay
// in the journal. Decoding a feed again gives the same result in every run, because the bounds of
// believable times depend on the moment at which the feed was opened, and not on the present.

import APNsProtocol
import EvidenceJournal
import TokenHygiene

/// The result of decoding a captured feed.
struct DecodedFeed {
    /// The feed as the journal stores it.
    let feed: CapturedFeed
    /// Bytes and tuples counted so far; `outcome` is still empty.
    let books: FeedAccounting
    /// How the feed ended, in one word.
    let end: FeedEnd
    /// One sentence about the end; nil for a complete list.
    let detail: String?
    /// Number of tuples with an impossible time.
    let outOfBounds: Int
    /// The evidence: each token once, in token order; nil when there is none.
    let evidence: SortedEvidence?

    /// Number of distinct tokens in the evidence.
    var tokens: Int { evidence?.tokens ?? 0 }
}

/// Decodes one captured feed.
struct FeedDecoding {
    private static let entriesPerBatch = 1_000
    /// Number of quarantined places that get an entry of their own; a hostile feed must not get a
    /// journal row for each of its tuples.
    static let placesNamed = 10_000

    private let journal: EvidenceJournal
    private let feed: CapturedFeed
    private let bounds: EvidenceBounds
    private var books = FeedAccounting()
    private var evidence: EvidenceTable?
    private var refused: [Quarantined] = []
    /// Number of places with an entry in the journal so far.
    private var placesNoted = 0
    /// Offset of the first quarantined place without an entry of its own.
    private var unnamed: Int?
    private var place = 0
    private var outOfBounds = 0

    private let sorts: Bool

    private init(_ feed: CapturedFeed, in journal: EvidenceJournal, sorting: Bool) {
        sorts = sorting
        self.feed = feed
        self.journal = journal
        bounds = EvidenceBounds(now: feed.opened)
    }

    /// Reads the feed from the journal and records its quarantine, unless the journal is open for
    /// reading only. Sorts its evidence unless the feed
    /// is only to be counted.
    static func decode(
        _ feed: CapturedFeed, in journal: EvidenceJournal, sorting: Bool = true
    ) throws -> DecodedFeed {
        var decoding = FeedDecoding(feed, in: journal, sorting: sorting)
        return try decoding.run()
    }

    private mutating func run() throws -> DecodedFeed {
        let ending =
            switch feed.kind {
            case .feedback: try readTuples()
            case .unregistered, .expiredToken: try readAnswers()
            case .unusable: try countLines()
            }
        // Records of answers are committed whole, so they are complete however the run ended.
        let end = feed.kind == .feedback ? FeedEnd(feed.end ?? .crashed, ending) : .clean
        if books.quarantinedBytes > 0 {
            refuse(
                Quarantined(
                    offset: books.tupleBytes, length: books.quarantinedBytes,
                    reason: "\(ending)"))
        }
        try noteRefused()
        try noteUnnamed(upTo: books.bytes)
        if feed.bytes != books.bytes {
            throw RunFailure(
                .journal, .decode,
                "decoding feed \(feed.id): the journal noted \(feed.bytes) bytes and returned "
                    + "\(books.bytes); keep the state folder and check the disk")
        }
        let sorted = try evidence?.seal()
        return DecodedFeed(
            feed: feed, books: books, end: end,
            detail: feed.kind == .feedback ? detail(ending) : nil,
            outOfBounds: outOfBounds, evidence: sorted)
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
        books.bytes = decoder.bytesSeen
        books.tupleBytes = decoder.wholeTupleBytes
        books.quarantinedBytes = decoder.bytesSeen - decoder.wholeTupleBytes
        return decoder.ending
    }

    private mutating func readAnswers() throws -> FeedbackEnding {
        try journal.forEachChunk(of: feed.id) { chunk in
            guard let records = AnswerRecord.decode(chunk) else {
                throw RunFailure(
                    .journal, .decode,
                    "decoding the answers of feed \(feed.id): a chunk is not made of whole "
                        + "records; keep the state folder and check the disk")
            }
            for record in records {
                try take(
                    record.token, record.time, record.encodedLength,
                    bounds.rejection(of: record.time))
            }
        }
        books.bytes = place
        books.tupleBytes = place
        return .clean
    }

    /// Reports that cannot be used, one a line. Their places were quarantined with their reasons
    /// when they came.
    private mutating func countLines() throws -> FeedbackEnding {
        try journal.forEachChunk(of: feed.id) { chunk in
            books.bytes += chunk.count
            books.tuples += chunk.count { $0 == UInt8(ascii: "\n") }
        }
        books.tupleBytes = books.bytes
        books.quarantined = books.tuples
        return .clean
    }

    /// The owner of a visited folder may be sorting a feed there too, so a visitor uses another name.
    private var scratch: String { journal.folder.isVisited ? "scratch-visit" : "scratch" }

    private mutating func take(
        _ token: DeviceToken?, _ time: EpochMilliseconds, _ length: Int,
        _ rejection: EvidenceRejection?
    ) throws {
        let start = place
        place += length
        books.tuples += 1
        if let rejection {
            books.quarantined += 1
            if rejection != .emptyToken { outOfBounds += 1 }
            refuse(Quarantined(offset: start, length: length, reason: rejection.rawValue))
            if refused.count > Self.entriesPerBatch { try noteRefused() }
        } else if sorts, let token {
            if evidence == nil { evidence = try EvidenceTable(in: journal.folder, named: scratch) }
            try evidence?.add(token, time)
        }
    }

    /// Makes one entry of adjacent bytes that are refused for the same reason.
    private mutating func refuse(_ entry: Quarantined) {
        if unnamed == nil, let last = refused.last, last.reason == entry.reason,
            last.offset + last.length == entry.offset
        {
            refused[refused.count - 1] = Quarantined(
                offset: last.offset, length: last.length + entry.length, reason: last.reason)
        } else if placesNoted + refused.count < Self.placesNamed {
            refused.append(entry)
        } else if unnamed == nil {
            unnamed = entry.offset
        }
    }

    /// Makes one entry for everything after the last place with an entry of its own.
    private mutating func noteUnnamed(upTo end: Int) throws {
        guard let unnamed, !journal.isReadOnly else { return }
        try journal.quarantine(
            [
                Quarantined(
                    offset: unnamed, length: end - unnamed,
                    reason: "more than \(Self.placesNamed) places")
            ], of: feed.id)
    }

    private mutating func noteRefused() throws {
        placesNoted += refused.count
        if !journal.isReadOnly { try journal.quarantine(refused, of: feed.id) }
        refused.removeAll(keepingCapacity: true)
    }

    private func detail(_ ending: FeedbackEnding) -> String? {
        let tail = ending == .clean ? nil : "\(ending)"
        let cause: String? =
            switch feed.end ?? .crashed {
            case .closeNotify, .idle, .file: nil
            case .cut: "the connection ended without close_notify, so the list may be incomplete"
            case .reset: "the gateway reset the connection, so the list may be incomplete"
            case .broken: "TLS broke off, so the list may be incomplete"
            case .full: "the feed reached feedback.max-bytes and was cut off there"
            case .stopped: "the run that read it was told to stop"
            case .crashed: "the run that read it was interrupted"
            }
        let parts = [cause, tail].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }
}

import APNsProtocol
import EvidenceJournal
import TokenHygiene

/// Writes the reports of one intake into the journal: one feed for each app, environment and reason,
/// and one for what cannot be used, line by line as it came.
struct ReportCapture {
    /// Bytes that are written at once. Each write is a commit of the journal.
    private static let room = 1 << 19
    /// Number of unusable reports that get an entry with their reason.
    private static let placesNamed = 10_000

    private struct Key: Hashable {
        let partition: Partition
        let source: EvidenceSource

        /// What cannot be used may name any app, so it belongs to none.
        static let unusable = Key(partition: .noApp, source: .unusable)
    }

    /// A feed of the journal, which begins with its first batch.
    private struct Feed {
        let key: Key
        var capture: FeedCapture?
        /// The batch: records, or lines that cannot be used.
        var bytes: [UInt8] = []
    }

    private let journal: EvidenceJournal
    private let intake: OpenIntake
    private let label: String
    let reader: ReportReader
    private let now: EpochMilliseconds
    private var feeds: [Feed] = []
    /// The place in `feeds` by key, and that of the last report, which most reports share.
    private var placesOfFeeds: [Key: Int] = [:]
    private var last: (key: Key, place: Int)?
    private var places: [Quarantined] = []
    private var linesWritten = 0
    private var placesNoted = 0
    /// Offset of the first line of this batch without an entry of its own.
    private var unnamed: Int?
    private(set) var counts = ReportCounts()

    /// Begins without a report. `label` names the source in reports.
    init(
        _ intake: OpenIntake, in journal: EvidenceJournal, from label: String,
        mayUseArrival: Bool, at now: EpochMilliseconds
    ) {
        self.intake = intake
        self.journal = journal
        self.label = label
        self.now = now
        reader = ReportReader(now: now, mayUseArrival: mayUseArrival)
    }

    /// Adds one report, and returns why it cannot be used; nil where it can. `text` is its line as it
    /// came, and `place` says where it was, for people; both are asked for only where it cannot.
    @discardableResult mutating func add<Cause: Error>(
        _ reading: Result<ReportReading, Cause>, about partition: Partition,
        text: @autoclosure () -> [UInt8], place: @autoclosure () -> String
    ) throws -> Cause? {
        counts.reports += 1
        switch reading {
        case .failure(let refusal):
            try quarantine(text(), "\(place()): \(refusal)")
            return refusal
        case .success(let reading):
            switch reading {
            case .nothing: counts.other += 1
            case .suspect(let token, let source, let time):
                counts.suspects += 1
                // What no row can have is counted and no more.
                guard let token else { return nil }
                try add(token, about: partition, source, time)
            case .otherPlatform: counts.otherPlatform += 1
            case .unknownReason: counts.unknownReasons += 1
            case .evidence(let token, let source, let time):
                counts.evidence += 1
                try add(token, about: partition, source, time)
            }
            return nil
        }
    }

    private mutating func add(
        _ token: DeviceToken, about partition: Partition, _ source: EvidenceSource,
        _ time: EpochMilliseconds
    ) throws {
        let feed = number(of: Key(partition: partition, source: source))
        AnswerRecord(token: token, time: time).encode(into: &feeds[feed].bytes)
        if feeds[feed].bytes.count >= Self.room { try write(feed) }
    }

    private mutating func quarantine(_ text: [UInt8], _ reason: String) throws {
        counts.quarantined += 1
        // One line each, whatever a row contains.
        let text = text.flatMap { byte -> [UInt8] in
            switch byte {
            case UInt8(ascii: "\n"): Array("\\n".utf8)
            case UInt8(ascii: "\r"): Array("\\r".utf8)
            default: [byte]
            }
        }
        let feed = number(of: .unusable)
        let offset = linesWritten + feeds[feed].bytes.count
        if placesNoted < Self.placesNamed {
            places.append(Quarantined(offset: offset, length: text.count + 1, reason: reason))
            placesNoted += 1
        } else if unnamed == nil {
            unnamed = offset
        }
        feeds[feed].bytes += text + [UInt8(ascii: "\n")]
        if feeds[feed].bytes.count >= Self.room { try write(feed) }
    }

    private mutating func number(of key: Key) -> Int {
        if let last, last.key == key { return last.place }
        let place = placesOfFeeds[key] ?? feeds.count
        if place == feeds.count {
            feeds.append(Feed(key: key))
            placesOfFeeds[key] = place
        }
        last = (key, place)
        return place
    }

    /// Makes all reports so far durable, those that cannot be used last.
    mutating func flush() throws {
        let order = feeds.indices.sorted {
            let (left, right) = (feeds[$0].key, feeds[$1].key)
            return left != .unusable && (right == .unusable || "\(left)" < "\(right)")
        }
        for place in order { try write(place) }
    }

    private mutating func write(_ place: Int) throws {
        guard !feeds[place].bytes.isEmpty else { return }
        let key = feeds[place].key
        try journal.folder.ensureRoom()
        let capture =
            try feeds[place].capture
            ?? journal.beginFeed(
                run: intake.run, partition: key.partition, source: label, kind: key.source,
                intake: intake.name, at: now)
        feeds[place].capture = capture
        try feeds[place].bytes.withUnsafeBytes { try capture.append($0) }
        let count = feeds[place].bytes.count
        feeds[place].bytes.removeAll(keepingCapacity: true)
        guard key == .unusable else { return }
        try journal.quarantine(places, of: capture.id)
        linesWritten += count
        places.removeAll()
        guard let start = unnamed else { return }
        let rest = Quarantined(
            offset: start, length: linesWritten - start,
            reason: "more than \(Self.placesNamed) unusable reports")
        try journal.quarantine([rest], of: capture.id)
        unnamed = nil
    }
}

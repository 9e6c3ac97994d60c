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

    private let journal: EvidenceJournal
    private let intake: OpenIntake
    private let label: String
    let reader: ReportReader
    private let now: EpochMilliseconds
    private var captures: [Key: FeedCapture] = [:]
    private var bytes: [Key: [UInt8]] = [:]
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
    @discardableResult mutating func add(
        _ report: Result<ReportedAnswer?, UnusableReport>, about partition: Partition,
        text: @autoclosure () -> [UInt8], place: @autoclosure () -> String
    ) throws -> UnusableReport? {
        counts.reports += 1
        do {
            guard let report = try report.get() else {
                counts.other += 1
                return nil
            }
            switch try reader.read(report) {
            case .nothing: counts.other += 1
            case .suspect: counts.suspects += 1
            case .evidence(let token, let source, let time):
                counts.evidence += 1
                let key = Key(partition: partition, source: source)
                let record = AnswerRecord(token: token, time: time)
                if Self.append(record, to: &bytes[key, default: []]) { try write(key) }
            }
            return nil
        } catch let refusal as UnusableReport {
            try quarantine(text(), "\(place()): \(refusal)")
            return refusal
        }
    }

    /// Whether the bytes are to be written.
    private static func append(_ record: AnswerRecord, to bytes: inout [UInt8]) -> Bool {
        record.encode(into: &bytes)
        return bytes.count >= room
    }

    /// Adds a report that is unusable for another reason than its content.
    mutating func refuse(_ text: [UInt8], _ reason: String) throws {
        counts.reports += 1
        try quarantine(text, reason)
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
        let offset = linesWritten + bytes[.unusable, default: []].count
        if placesNoted < Self.placesNamed {
            places.append(Quarantined(offset: offset, length: text.count + 1, reason: reason))
            placesNoted += 1
        } else if unnamed == nil {
            unnamed = offset
        }
        bytes[.unusable, default: []] += text + [UInt8(ascii: "\n")]
        if bytes[.unusable, default: []].count >= Self.room { try write(.unusable) }
    }

    /// Makes all reports so far durable, those that cannot be used last.
    mutating func flush() throws {
        for key in bytes.keys.sorted(by: { "\($0)" < "\($1)" }) where key != .unusable {
            try write(key)
        }
        try write(.unusable)
    }

    private mutating func write(_ key: Key) throws {
        guard let content = bytes[key], !content.isEmpty else { return }
        try journal.folder.ensureRoom()
        let capture =
            try captures[key]
            ?? journal.beginFeed(
                run: intake.run, partition: key.partition, source: label, kind: key.source,
                intake: intake.name, at: now)
        captures[key] = capture
        try content.withUnsafeBytes { try capture.append($0) }
        bytes[key] = []
        guard key == .unusable else { return }
        try journal.quarantine(places, of: capture.id)
        linesWritten += content.count
        places.removeAll()
        guard let start = unnamed else { return }
        let rest = Quarantined(
            offset: start, length: linesWritten - start,
            reason: "more than \(Self.placesNamed) unusable reports")
        try journal.quarantine([rest], of: capture.id)
        unnamed = nil
    }
}

import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The result of one feed: an entry of the reports of sweeps and replays. Fields may be added, never
/// renamed.
@dynamicMemberLookup
package struct FeedReport: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `host:port` of the gateway, or the path of the file.
    package var source: String
    /// How the feed ended, in one word.
    package var end: String
    /// Whether a connection to the gateway was tried; false when our own certificate prevented it.
    package var asked = true
    /// One sentence about the end; absent for a complete list.
    package var detail: String?
    /// The feed's name in the journal and the database; absent when no feed was opened.
    package var feed: String?
    /// The feed's state: pending, applied, held or discarded.
    package var state: String?
    /// Whether an earlier run read the feed.
    package var resumed = false
    /// The feed's bytes and tuples. In a dry run, `applied` counts the tuples that would be.
    package var accounting = FeedAccounting()
    /// The first rows that stayed unchanged against the evidence; absent when there are none.
    package var refusals: [String]?
    /// The most rows that `refusals` names.
    static let mostRefusals = 10
    /// Rows changed in the database, including refreshed marks.
    package var rowsChanged = 0
    /// The guard's gate that holds the feed or, in a dry run, would hold it.
    package var gate: String?
    /// Why the feed is held, or would be, in one sentence.
    package var cause: String?
    /// When a released feed was held, RFC 3339 in UTC; absent for other feeds.
    package var heldSince: String?
    /// Why a released feed was held, in one sentence; absent for other feeds.
    package var heldCause: String?
    /// Living rows that would become invalid; present when the guard stopped them.
    package var candidates: Int?
    /// The end of our own certificate's validity.
    package var certificateExpires: String?
    /// The exit code that the feed asks for; not part of the JSON object.
    var status = ExitStatus.done

    /// Makes the entry of a feed.
    package init(_ partition: Partition, source: String, end: FeedEnd) {
        app = partition.app
        environment = partition.environment
        self.source = source
        self.end = end.rawValue
    }

    /// One of the feed's counts.
    package subscript<Count>(dynamicMember count: WritableKeyPath<FeedAccounting, Count>) -> Count {
        get { accounting[keyPath: count] }
        set { accounting[keyPath: count] = newValue }
    }

    /// Whether the feed is completely applied.
    var isApplied: Bool { state == FeedState.applied.rawValue }
}

// In JSON the counts stand beside the other fields, in one object.
extension FeedReport {
    private enum CodingKeys: String, CodingKey {
        case app, environment, source, end, asked, detail, feed, state, resumed, refusals
        case bytes, quarantinedBytes, rowsChanged, gate, cause, candidates, certificateExpires
        case heldSince, heldCause
    }

    /// Reads the entry of a report.
    package init(from decoder: any Decoder) throws {
        let object = try decoder.container(keyedBy: CodingKeys.self)
        app = try object.decode(String.self, forKey: .app)
        environment = try object.decode(String.self, forKey: .environment)
        source = try object.decode(String.self, forKey: .source)
        end = try object.decode(String.self, forKey: .end)
        asked = try object.decode(Bool.self, forKey: .asked)
        detail = try object.decodeIfPresent(String.self, forKey: .detail)
        feed = try object.decodeIfPresent(String.self, forKey: .feed)
        state = try object.decodeIfPresent(String.self, forKey: .state)
        resumed = try object.decode(Bool.self, forKey: .resumed)
        refusals = try object.decodeIfPresent([String].self, forKey: .refusals)
        accounting.bytes = try object.decode(Int.self, forKey: .bytes)
        accounting.quarantinedBytes = try object.decode(Int.self, forKey: .quarantinedBytes)
        accounting.counts = try EvidenceCounts(from: decoder)
        rowsChanged = try object.decode(Int.self, forKey: .rowsChanged)
        gate = try object.decodeIfPresent(String.self, forKey: .gate)
        cause = try object.decodeIfPresent(String.self, forKey: .cause)
        heldSince = try object.decodeIfPresent(String.self, forKey: .heldSince)
        heldCause = try object.decodeIfPresent(String.self, forKey: .heldCause)
        candidates = try object.decodeIfPresent(Int.self, forKey: .candidates)
        certificateExpires = try object.decodeIfPresent(String.self, forKey: .certificateExpires)
    }

    /// Writes the entry of a report.
    package func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: CodingKeys.self)
        try object.encode(app, forKey: .app)
        try object.encode(environment, forKey: .environment)
        try object.encode(source, forKey: .source)
        try object.encode(end, forKey: .end)
        try object.encode(asked, forKey: .asked)
        try object.encodeIfPresent(detail, forKey: .detail)
        try object.encodeIfPresent(feed, forKey: .feed)
        try object.encodeIfPresent(state, forKey: .state)
        try object.encode(resumed, forKey: .resumed)
        try object.encodeIfPresent(refusals, forKey: .refusals)
        try object.encode(accounting.bytes, forKey: .bytes)
        try object.encode(accounting.quarantinedBytes, forKey: .quarantinedBytes)
        try accounting.counts.encode(to: encoder)
        try object.encode(rowsChanged, forKey: .rowsChanged)
        try object.encodeIfPresent(gate, forKey: .gate)
        try object.encodeIfPresent(cause, forKey: .cause)
        try object.encodeIfPresent(heldSince, forKey: .heldSince)
        try object.encodeIfPresent(heldCause, forKey: .heldCause)
        try object.encodeIfPresent(candidates, forKey: .candidates)
        try object.encodeIfPresent(certificateExpires, forKey: .certificateExpires)
    }
}

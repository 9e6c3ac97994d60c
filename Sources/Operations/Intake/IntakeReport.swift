import TokenHygiene

/// What became of the reports of other senders: part of the reports of sweeps and imports. The entries
/// of `apps` account for the evidence in them. Fields may be added, never renamed.
package struct IntakeReport: Codable, Hashable, Sendable {
    /// The counts by what the reports mean.
    package var counts = ReportCounts()
    /// Rows that still wait, in a dry run; absent otherwise.
    package var waiting: Int?
    /// Whether the same content was imported before, so that nothing of it was taken.
    package var known: Bool?
    /// Whether a person discarded that content then; absent otherwise.
    package var discarded: Bool?
    /// Whether a person discarded only some of its feeds; absent otherwise.
    package var discardedInPart: Bool?

    private enum CodingKeys: CodingKey { case waiting, known, discarded, discardedInPart }

    /// Makes the report of some reports.
    package init(_ counts: ReportCounts = ReportCounts()) { self.counts = counts }

    /// Reads one object, as `encode` writes it.
    package init(from decoder: any Decoder) throws {
        counts = try ReportCounts(from: decoder)
        let object = try decoder.container(keyedBy: CodingKeys.self)
        waiting = try object.decodeIfPresent(Int.self, forKey: .waiting)
        known = try object.decodeIfPresent(Bool.self, forKey: .known)
        discarded = try object.decodeIfPresent(Bool.self, forKey: .discarded)
        discardedInPart = try object.decodeIfPresent(Bool.self, forKey: .discardedInPart)
    }

    /// Writes one object with the fields of the counts.
    package func encode(to encoder: any Encoder) throws {
        try counts.encode(to: encoder)
        var object = encoder.container(keyedBy: CodingKeys.self)
        try object.encodeIfPresent(waiting, forKey: .waiting)
        try object.encodeIfPresent(known, forKey: .known)
        try object.encodeIfPresent(discarded, forKey: .discarded)
        try object.encodeIfPresent(discardedInPart, forKey: .discardedInPart)
    }

    /// What became of a known content, for people.
    var knownWords: String {
        var words = "the same content was imported before"
        if discarded == true { words += " and discarded" }
        if discardedInPart == true { words += " in part" }
        return words
    }

    /// The counts as text for people.
    var line: String {
        "reports of other senders: \(counts.reports), of which \(counts.evidence) call a token dead, "
            + "\(counts.suspects) suspect one, \(counts.other) say nothing about one, "
            + "\(counts.quarantined) quarantined"
    }

    /// Adds the counts of more reports.
    static func += (left: inout IntakeReport, right: IntakeReport) {
        left.counts += right.counts
        left.waiting = right.waiting ?? left.waiting
    }
}

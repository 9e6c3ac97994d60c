/// What became of the reports of other senders: part of the reports of sweeps and imports. Fields may
/// be added, never renamed.
package struct IntakeReport: Codable, Hashable, Sendable {
    /// Rows or lines that were read: the sum of the next four.
    package var reports = 0
    /// Reports of a 410: evidence, which the entries of `apps` account for.
    package var evidence = 0
    /// Reports that call a token bad (400 BadDeviceToken, DeviceTokenNotForTopic). They are never a
    /// reason to remove a row.
    package var suspects = 0
    /// Answers and lines that say nothing about a token.
    package var other = 0
    /// Reports that cannot be used.
    package var quarantined = 0
    /// Rows that still wait, in a dry run; absent otherwise.
    package var waiting: Int?
    /// Whether the same content was imported before, so that nothing of it was taken.
    package var known: Bool?

    /// Makes counts of nothing.
    package init() {}

    /// The counts as text for people.
    var line: String {
        "reports of other senders: \(reports), of which \(evidence) call a token dead, "
            + "\(suspects) suspect one, \(other) say nothing about one, "
            + "\(quarantined) quarantined"
    }

    /// Adds the counts of more reports.
    static func += (left: inout IntakeReport, right: IntakeReport) {
        left.reports += right.reports
        left.evidence += right.evidence
        left.suspects += right.suspects
        left.other += right.other
        left.quarantined += right.quarantined
        left.waiting = right.waiting ?? left.waiting
    }
}

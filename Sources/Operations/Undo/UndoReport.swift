import TokenHygiene
import TokenTable

/// The result of an undo: one JSON object for scripts. Fields may be added, never renamed.
package struct UndoReport: RunReport, Codable, Hashable {
    /// The run's name, a UUID. A continued undo has the name of its first attempt.
    package var run: String
    /// The kind of run.
    package var kind = "undo"
    /// Whether the run was a dry run, which changes nothing.
    package var dryRun: Bool
    /// The start of the run, RFC 3339 in UTC.
    package var started: String
    /// The end of the run, RFC 3339 in UTC.
    package var ended = ""
    /// Whether the run continued an undo that was interrupted.
    package var resumed = false
    /// The runs whose changes were examined, newest first.
    package var runs: [String] = []
    /// Examined entries of the change ledger: the sum of the next three.
    package var entries = 0
    /// Entries that were undone; in a dry run, those that would be.
    package var restored = 0
    /// Entries whose row had its earlier state already.
    package var already = 0
    /// Entries that were not undone, by reason.
    package var kept: [String: Int] = [:]
    /// Number of changed rows and marks.
    package var rowsChanged = 0
    /// Number of removed rows that were inserted again.
    package var inserted = 0
    /// Number of rows removed again, by the undo of an undo.
    package var removed = 0
    /// The failures of the run, in order.
    package var problems: [RunProblem] = []
    /// The exit code.
    package var exit: Int32 = 0

    mutating func enter(_ progress: UndoProgress) {
        entries = progress.entries
        restored = progress.restored
        already = progress.already
        kept = progress.kept
        rowsChanged = progress.rowsChanged
        inserted = progress.inserted
        removed = progress.removed
    }

    /// The report as text for people.
    package var lines: [String] {
        guard entries > 0 else {
            return [
                "undo: "
                    + (exit == 0
                        ? "there is nothing to take back"
                        : "nothing \(resumed ? "more " : "")was taken back")
            ]
        }
        let would = dryRun ? "would be " : ""
        var lines = [
            "undo \(run)\(resumed ? ", continued" : ""): \(entries.counting("change")) by "
                + "\(runs.count.counting("run")), \(restored) \(would)taken back, \(already) back "
                + "already"
        ]
        lines.append(
            "  \(rowsChanged.counting("row")) \(would)changed, \(inserted) of them inserted again, \(removed) "
                + "removed again")
        for obstacle in UndoObstacle.allCases {
            guard let count = kept[obstacle.rawValue], count > 0 else { continue }
            lines.append("  \(count) left as they are: \(obstacle.words)")
        }
        if dryRun { lines.append("  no row was changed") }
        return lines
    }

    /// The counts of ledger entries.
    package var closingCounts: ClosingCounts { ClosingCounts(applied: dryRun ? 0 : restored) }
}

import TokenHygiene
import TokenTable

/// What an undo did: one JSON object for scripts. Fields may be added, never renamed.
package struct UndoReport: RunReport, Codable, Hashable {
    /// The run's name, a UUID; that of the first attempt where an undo was continued.
    package var run: String
    /// `undo`.
    package var kind = "undo"
    /// Whether nothing was to be changed.
    package var dryRun: Bool
    /// RFC 3339, UTC.
    package var started: String
    /// RFC 3339, UTC.
    package var ended = ""
    /// Whether an undo that was killed was gone on with.
    package var resumed = false
    /// The runs whose changes were looked at, newest first.
    package var runs: [String] = []
    /// Entries of the change ledger looked at: the sum of the next three.
    package var entries = 0
    /// Taken back; in a dry run, that would be.
    package var restored = 0
    /// Whose row was as before already.
    package var already = 0
    /// Not taken back, by reason.
    package var kept: [String: Int] = [:]
    /// Rows and marks changed.
    package var rowsChanged = 0
    /// Removed rows that were inserted again.
    package var inserted = 0
    /// Rows removed again, by the undo of an undo.
    package var removed = 0
    /// What went wrong, in order.
    package var problems: [RunProblem] = []
    /// What the run ends with.
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

    /// The report for people.
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
                + "\(runs.count.counting("run")), \(restored) \(would)taken back, \(already) taken "
                + "back before"
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

    /// Entries of the change ledger.
    package var closingCounts: ClosingCounts { ClosingCounts(applied: dryRun ? 0 : restored) }
}

import EvidenceJournal

extension SweepReport {
    /// The report for people: one block per feed, and one closing sentence.
    package var lines: [String] {
        var lines = apps.flatMap { $0.lines(dryRun: dryRun) }
        lines += removals.map { removal in
            "\(removal.app)/\(removal.environment): \(removal.due.counting("row")) marked for long enough, "
                + (dryRun ? "would be removed" : "\(removal.removed) removed")
        }
        lines.append(closing)
        return lines
    }

    private var closing: String {
        let sum = apps.reduce(into: (applied: 0, tuples: 0, newer: 0)) { sum, feed in
            sum.applied += feed.applied
            sum.tuples += feed.tuples
            sum.newer += feed.newer
        }
        if apps.isEmpty { return "\(kind): no feed was read" }
        let verb = dryRun ? "would become invalid" : "became invalid"
        return "\(kind): \(sum.tuples.counting("tuple")), \(sum.applied) \(verb), "
            + "\(sum.newer) kept because they registered again"
            + (dryRun ? "; no row was changed" : "")
    }
}

extension FeedReport {
    fileprivate func lines(dryRun: Bool) -> [String] {
        var lines = [
            "\(app)/\(environment) from \(source): \(asked ? end : "not asked")"
                + (resumed ? ", left by an earlier run" : "") + (state.map { ", \($0)" } ?? "")
        ]
        if tuples > 0 || bytes > 0 {
            lines.append(
                "  \(bytes.counting("byte")), \(tuples.counting("tuple")): "
                    + "\(applied) \(dryRun ? "would be " : "")applied, \(already) already invalid, "
                    + "\(newer) registered again, \(unknown) unknown, \(held) held, "
                    + "\(quarantined) quarantined" + (refused > 0 ? ", \(refused) refused" : ""))
        } else {
            lines.append("  0 tuples")
        }
        if quarantinedBytes > 0 {
            lines.append(
                "  quarantined after the last whole tuple: \(quarantinedBytes.counting("byte"))")
        }
        if let detail { lines.append("  \(detail)") }
        if let cause {
            let isHeld = state == FeedState.held.rawValue
            lines.append("  \(isHeld ? "held" : "would be held"): \(cause)")
            if isHeld, let feed { lines.append("  look at it with: pushsweep holds show \(feed)") }
        }
        return lines
    }
}

import APNsProtocol
import Glibc
import Settings
import TokenHygiene

/// Applies an ignore file to findings.
struct IgnoredFindings {
    private let list: IgnoreList
    private let now: EpochMilliseconds

    /// Takes the list, and the time that decides which entries count.
    init(_ list: IgnoreList, now: EpochMilliseconds) {
        self.list = list
        self.now = now
    }

    /// The findings with the decisions about them, and findings on entries that do not count.
    func applied(to findings: [GateFinding]) -> [GateFinding] {
        var result = findings
        for entry in list.entries {
            if let fault = fault(of: entry) {
                result.append(fault)
                continue
            }
            guard let reason = entry.reason, let until = entry.until else { continue }
            var isUsed = false
            for index in findings.indices where matches(entry, findings[index]) {
                result[index].ignored = .init(reason: reason, until: until)
                isUsed = true
            }
            if !isUsed {
                result.append(
                    GateFinding(
                        .ignoreUnused, .note, entry.place,
                        "no finding of \(entry.rule) about \(entry.object) to ignore",
                        cure: "remove the entry, unless the finding comes and goes"))
            }
        }
        return result
    }

    private func fault(of entry: IgnoreList.Entry) -> GateFinding? {
        func fault(_ rule: GateRule, _ message: String, _ cure: String) -> GateFinding {
            GateFinding(
                rule, .medium, entry.place,
                "the entry for \(entry.rule) \(message), so it has no effect",
                cure: cure)
        }
        if entry.reason == nil {
            return fault(
                .ignoreWithoutReason, "has no reason", "say why in reason, or remove the entry")
        }
        guard let ends = entry.ends, let until = entry.until else {
            return fault(
                .ignoreWithoutDate, "has no last day", "give a day in until, or remove the entry")
        }
        guard now.rawValue >= ends * 1_000 else { return nil }
        return fault(
            .ignorePastDate, "ended with \(until)",
            "cure the finding, or decide again with a later day")
    }

    private func matches(_ entry: IgnoreList.Entry, _ finding: GateFinding) -> Bool {
        finding.rule.mayBeIgnored && finding.rule.rawValue == entry.rule
            && fnmatch(entry.object, finding.object, 0) == 0
    }
}

// The rules by which evidence that waits is judged. They are those of the sweep (`RemovalPolicy`), asked about
// the rows as they are now. What became of evidence that was judged stands in its report and in the ledger.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// What evidence does to the rows: the rule, and a clause for each row.
typealias EvidenceJudgement = (rule: ExplainedEvent.Rule, words: String)

extension TokenStory {
    /// The rows of an app of the settings.
    func rows(of name: Partition) -> [TokenRow] {
        guard let stored = frame.app(name)?.storedPartition else { return [] }
        return rows.filter { $0.partition == stored }
    }

    /// The apps other than one whose rows have the token, for sentences.
    func otherApps(than name: Partition) -> String? {
        let others = rows.filter { $0.partition.map(frame.named) != name }.map { row in
            row.partition.map { "\(frame.named($0))" } ?? "an app that the settings do not name"
        }
        return others.isEmpty ? nil : Set(others).sorted().joined(separator: " and ")
    }

    /// What evidence of a time about an app does to the rows as they are now. It gives way to what a person said no to.
    func judgement(
        dead time: EpochMilliseconds, _ app: Partition, heard: Hearing
    ) -> EvidenceJudgement {
        let judged = ofRows(dead: time, app)
        guard judged.rule.changesRows, let spared,
            spared.spares(frame.history.floor(time), heard: heard)
        else { return judged }
        return (.spared, "it changes nothing, because \(spared.words)")
    }

    private func ofRows(
        dead time: EpochMilliseconds, _ app: Partition
    ) -> EvidenceJudgement {
        guard frame.app(app) != nil else {
            return (.noApp, "the settings name no \(app), so no row can change")
        }
        let judged = rows(of: app).map { judgement(of: $0, dead: time) }
        let rank = ExplainedEvent.Rule.byStrength
        let first = judged.min {
            (rank.firstIndex(of: $0.rule) ?? 0) < (rank.firstIndex(of: $1.rule) ?? 0)
        }
        if let first { return (first.rule, judged.map(\.words).joined(separator: "; ")) }
        guard let others = otherApps(than: app) else {
            return (.unknown, "no row of \(frame.history.tableName) has the token")
        }
        return (
            .otherApp,
            "no row of \(app) has the token, only of \(others), and evidence changes rows of its own "
                + "app and environment alone"
        )
    }

    private func judgement(
        of row: TokenRow, dead time: EpochMilliseconds
    ) -> EvidenceJudgement {
        let name = name(row)
        if row.hasUnreadableRegistration {
            return (.refused, "\(name) is refused: \(RowRefusal.registration.words)")
        }
        let (policy, state) = (frame.settings.policy, row.judgedByEvidence)
        let time = frame.history.floor(time)
        let order = policy.order(of: state.registeredAt, to: time)
        let registered =
            row.registeredAt.map { "registered at \($0.rfc3339)" } ?? "has no registration"
        switch policy.verdict(on: state, dead: time) {
        case .newer where order == .after:
            return (.newer, "\(name) is kept: it \(registered), after this evidence")
        case .newer:
            return (
                .newer,
                "\(name) is kept: its column was set living again after this evidence was applied"
            )
        case .already:
            let mark = state.invalidatedAt.map { " since \($0.rfc3339)" } ?? ""
            return (.already, "\(name) is invalid already\(mark)")
        case .advance:
            return (.moved, "\(name) is invalid already; its mark moves to this later time")
        case .delete: return (.deleted, "\(name) \(registered), before this evidence: deleted")
        case .mark where order == .undecided:
            return (
                .undecided,
                "\(name) \(registered), within policy.clock-skew of this evidence, so the order is "
                    + "unknown: marked, never deleted"
            )
        case .mark where order == .unknown:
            return (.undated, "\(name) \(registered) time: marked")
        case .mark: return (.marked, "\(name) \(registered), before this evidence: marked")
        }
    }

    /// The rule by which the ledger's entry was made. The registration of that time is known only
    /// where the row has no later one. An entry about a mark beside the table has no row's key; it
    /// counts for the rows of its app and environment.
    func rule(of change: LedgerEntry) -> ExplainedEvent.Rule {
        if change.refusal != nil { return .refused }
        switch change.action {
        case "delete": return .deleted
        case "advance": return .moved
        case "side-mark" where frame.history.states(of: change).before?.exists == true:
            return .moved
        default: break
        }
        let row = rows.first {
            change.isBeside ? change.origin?.partition == $0.partition : change.key == $0.key
        }
        guard let row else { return .marked }
        switch frame.settings.policy.order(of: row.registeredAt, to: change.evidence) {
        case .undecided: return .undecided
        case .unknown where !row.hasUnreadableRegistration: return .undated
        default: return .marked
        }
    }
}

extension SparedToken {
    /// Who said no, and when, as a clause.
    var words: String {
        let (undone, discarded) = (undoneAt?.rawValue ?? .min, heardUntil?.rawValue ?? .min)
        let at = max(undoneAt ?? until, heardUntil ?? until).rfc3339
        return undone > discarded
            ? "a person undid as much at \(at) (undo \(run.prefix(8)))"
            : "a person discarded as much at \(at) (run \(run.prefix(8)))"
    }
}

extension ExplainedEvent.Rule {
    /// The rules of rows; the first that one of several rows has is that of the evidence.
    fileprivate static let byStrength: [ExplainedEvent.Rule] = [
        .deleted, .marked, .undecided, .undated, .moved, .refused, .newer, .already,
    ]

    /// Whether a row changes by it.
    var changesRows: Bool {
        [.deleted, .marked, .undecided, .undated, .moved].contains(self)
    }
}

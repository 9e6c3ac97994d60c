// What was read about one token, and the rules by which it is judged. The rules are those of the
// sweep (`RemovalPolicy`), asked about the rows as they are now.
//
// For evidence that was applied the ledger says what it did. Where it did nothing, no record says
// why: the sweep counts, and does not list. Then the rows of today tell. That is right as long as
// nobody changed a row since, so the event says `present` and not `ledger`.

import APNsProtocol
import Database
import PushQueue
import TokenHygiene
import TokenTable

/// An app of the settings, by its name and by the value that the token table has for it.
struct ExplainedApp: Hashable {
    let name: Partition
    let stored: Partition
}

/// What was read about one token.
struct TokenFacts {
    let token: DeviceToken
    let now: EpochMilliseconds
    let apps: [ExplainedApp]
    let policy: RemovalPolicy
    /// The name of the token table.
    let table: String
    /// The time that a mark of some evidence would have.
    let floor: (EpochMilliseconds) -> EpochMilliseconds
    var rows: [TokenRow] = []
    var marks: [MarkBeside] = []
    var changes: [LedgerEntry] = []
    /// What the row was before and after a change.
    var states: (LedgerEntry) -> (before: RowState?, after: RowState?) = { _ in (nil, nil) }
    var runs: [String: RunRecord] = [:]
    var evidence: [JournalEvidence] = []
    var decisions: [String: [FeedDecision]] = [:]
    /// Names of open holds by app and environment of the settings.
    var holds: [Partition: String] = [:]
    /// Whether a journal of this host is there and could not be read, so that evidence or a hold may
    /// be unseen.
    var isBlind = false
    /// Rows of `pushsweep_evidence` that wait.
    var waiting: [EvidenceRow] = []
    /// Reads those rows as a sweep would that begins now.
    var reader: ReportReader
    var queue: [QueuedRow] = []
    /// Whether keys that are tokens are printed whole.
    var wholeTokens = false

    /// The name in the settings of an app by the table's value; an app that the settings do not name
    /// keeps the value.
    func named(_ stored: Partition) -> Partition {
        apps.first { $0.stored == stored }?.name ?? stored
    }

    /// The rows of an app of the settings.
    func rows(of name: Partition) -> [TokenRow] {
        guard let app = apps.first(where: { $0.name == name }) else { return [] }
        return rows.filter { $0.partition == app.stored }
    }

    /// The apps other than one whose rows have the token, for sentences.
    func otherApps(than name: Partition) -> String? {
        let others = rows.filter { $0.partition.map(named) != name }
            .map { row in
                row.partition.map { "\(named($0))" } ?? "an app that the settings do not name"
            }
        return others.isEmpty ? nil : Set(others).sorted().joined(separator: " and ")
    }
}

/// What evidence does to the rows, and why.
struct EvidenceJudgement {
    var rule: ExplainedEvent.Rule
    /// A clause for each row.
    var words: String
    /// Whether a row would change.
    var changes: Bool
}

extension TokenFacts {
    /// What evidence of a time about an app does to the rows as they are now.
    func judgement(dead time: EpochMilliseconds, _ app: Partition) -> EvidenceJudgement {
        guard apps.contains(where: { $0.name == app }) else {
            return EvidenceJudgement(
                rule: .noApp, words: "the settings name no \(app), so no row can change",
                changes: false)
        }
        let own = rows(of: app)
        guard !own.isEmpty else {
            guard let others = otherApps(than: app) else {
                return EvidenceJudgement(
                    rule: .unknown, words: "no row of \(table) has the token", changes: false)
            }
            return EvidenceJudgement(
                rule: .otherApp,
                words:
                    "no row of \(app) has the token, only of \(others), and evidence changes rows "
                    + "of its own app and environment alone", changes: false)
        }
        let judged = own.map { judgement(of: $0, dead: time) }
        let rank = ExplainedEvent.Rule.byStrength
        let first = judged.min {
            (rank.firstIndex(of: $0.rule) ?? 0) < (rank.firstIndex(of: $1.rule) ?? 0)
        }
        return EvidenceJudgement(
            rule: first?.rule ?? .unknown, words: judged.map(\.words).joined(separator: "; "),
            changes: judged.contains(where: \.changes))
    }

    private func judgement(of row: TokenRow, dead time: EpochMilliseconds) -> EvidenceJudgement {
        let name = "row \(row.key.text(wholeTokens: wholeTokens))"
        if row.hasUnreadableRegistration {
            return EvidenceJudgement(
                rule: .refused, words: "\(name) is refused: \(RowRefusal.registration.words)",
                changes: false)
        }
        let time = floor(time)
        let state = row.judgedByEvidence
        let order = policy.order(of: state.registeredAt, to: time)
        let registered =
            row.registeredAt.map { "registered at \($0.rfc3339)" } ?? "has no registration"
        switch policy.verdict(on: state, dead: time) {
        case .newer where order == .after:
            return EvidenceJudgement(
                rule: .newer, words: "\(name) is kept: it \(registered), after this evidence",
                changes: false)
        case .newer:
            return EvidenceJudgement(
                rule: .newer,
                words: "\(name) is kept: its column was set living again after this evidence was "
                    + "applied", changes: false)
        case .already:
            let mark = state.invalidatedAt.map { " since \($0.rfc3339)" } ?? ""
            return EvidenceJudgement(
                rule: .already, words: "\(name) is invalid already\(mark)", changes: false)
        case .advance:
            return EvidenceJudgement(
                rule: .moved,
                words: "\(name) is invalid already; its mark moves to this later time",
                changes: true)
        case .delete:
            return EvidenceJudgement(
                rule: .deleted, words: "\(name) \(registered), before this evidence: deleted",
                changes: true)
        case .mark: return marking(name, registered, order)
        }
    }

    private func marking(
        _ name: String, _ registered: String, _ order: RegistrationOrder
    ) -> EvidenceJudgement {
        switch order {
        case .undecided:
            EvidenceJudgement(
                rule: .undecided,
                words:
                    "\(name) \(registered), within policy.clock-skew of this evidence, so the order "
                    + "is unknown: marked, never deleted", changes: true)
        case .unknown:
            EvidenceJudgement(
                rule: .undated, words: "\(name) \(registered) time: marked", changes: true)
        default:
            EvidenceJudgement(
                rule: .marked, words: "\(name) \(registered), before this evidence: marked",
                changes: true)
        }
    }

    /// Whether an entry changed this row. An entry about a mark beside the table has no row's key; it
    /// counts for the rows of its app and environment.
    private func isChange(_ change: LedgerEntry, of row: TokenRow) -> Bool {
        change.isBeside ? change.origin?.partition == row.partition : change.key == row.key
    }

    /// The rule by which the ledger's entry was made. The registration of that time is known only
    /// where the row has no later one.
    func rule(of change: LedgerEntry) -> ExplainedEvent.Rule {
        if change.refusal != nil { return .refused }
        switch change.action {
        case "delete": return .deleted
        case "advance": return .moved
        case "side-mark" where states(change).before?.exists == true: return .moved
        default: break
        }
        guard let row = rows.first(where: { isChange(change, of: $0) }) else { return .marked }
        switch policy.order(of: row.registeredAt, to: change.evidence) {
        case .undecided: return .undecided
        case .unknown where !row.hasUnreadableRegistration: return .undated
        default: return .marked
        }
    }
}

extension ExplainedEvent.Rule {
    /// The rules of rows; the first that one of several rows has is that of the evidence.
    static let byStrength: [ExplainedEvent.Rule] = [
        .deleted, .marked, .undecided, .undated, .moved, .refused, .newer, .already, .unknown,
    ]
}

extension RowState {
    /// The state as a clause.
    var words: String {
        guard exists else { return "absent" }
        var parts: [String] = []
        if let isDead { parts.append(isDead ? "dead" : "living") }
        if let mark {
            parts.append("marked since \(mark.rfc3339)" + (reason.map { " (\($0))" } ?? ""))
        } else if isDead == nil {
            parts.append("without a mark")
        }
        if let registeredAt { parts.append("registered at \(registeredAt.rfc3339)") }
        return parts.joined(separator: ", ")
    }
}

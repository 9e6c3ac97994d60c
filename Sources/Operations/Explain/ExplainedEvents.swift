// The events of one token, from what was read about it, in the order of time. Evidence stands at the
// time since which it calls the token dead, and not at its arrival, because the rule compares that
// time with the registration: the order of the lines shows the rule.

import APNsProtocol
import Database
import EvidenceJournal
import PushQueue
import TokenHygiene
import TokenTable

/// Makes the events of one token.
struct ExplainedEvents {
    let facts: TokenFacts
    private var events: [(time: EpochMilliseconds?, event: ExplainedEvent)] = []

    private init(_ facts: TokenFacts) { self.facts = facts }

    /// The events, those of unknown time first.
    static func events(_ facts: TokenFacts) -> [ExplainedEvent] {
        var maker = ExplainedEvents(facts)
        maker.addRows()
        maker.addMarks()
        maker.addEvidence()
        maker.addWaiting()
        maker.addChanges()
        maker.addQueue()
        let rank = ExplainedEvent.Kind.allCases
        return maker.events.enumerated().sorted { left, right in
            let (one, two) = (left.element, right.element)
            if one.time != two.time {
                return (one.time?.rawValue ?? .min) < (two.time?.rawValue ?? .min)
            }
            let ranks = [one, two].map { rank.firstIndex(of: $0.event.kind) ?? 0 }
            return (ranks[0], left.offset) < (ranks[1], right.offset)
        }.map(\.element.event)
    }

    private mutating func add(
        _ event: ExplainedEvent, at time: EpochMilliseconds?, of app: Partition?
    ) {
        var event = event
        event.time = time?.rfc3339
        if let app, app != .noApp { (event.app, event.environment) = (app.app, app.environment) }
        events.append((time, event))
    }

    private func prefix(_ app: Partition?) -> String {
        app.map { "\($0): " } ?? "an app that the settings do not name: "
    }

    // MARK: Rows and marks

    private mutating func addRows() {
        for row in facts.rows {
            let app = row.partition.map(facts.named)
            let key = row.key.text(wholeTokens: facts.wholeTokens)
            var text = "\(prefix(app))row \(key) of \(facts.table)"
            if row.hasUnreadableRegistration {
                text += " has a registration that is no time, which counts as later than any"
            } else if row.registeredAt == nil {
                text += " has no registration time"
            } else {
                text += " registered"
            }
            if let isDead = row.isDead {
                text += "; its column says that it is \(isDead ? "dead" : "living") now"
            }
            var event = ExplainedEvent(.registered, text)
            event.key = key
            add(event, at: row.registeredAt, of: app)
            guard let mark = row.mark else { continue }
            var marked = ExplainedEvent(
                .mark,
                "\(prefix(app))row \(key) of \(facts.table) has a mark of this time"
                    + reason(row.reason))
            (marked.key, marked.reason) = (key, row.reason)
            add(marked, at: mark, of: app)
        }
    }

    private mutating func addMarks() {
        for mark in facts.marks {
            let app = facts.named(mark.partition)
            var event = ExplainedEvent(
                .mark,
                "\(prefix(app))pushsweep_invalid has a mark of this time" + reason(mark.reason))
            (event.source, event.reason) = ("pushsweep_invalid", mark.reason)
            add(event, at: mark.time, of: app)
        }
    }

    private func reason(_ reason: String?) -> String { reason.map { ", reason \($0)" } ?? "" }

    // MARK: Evidence

    private mutating func addEvidence() {
        for item in facts.evidence {
            let feed = item.feed
            let app = feed.partition
            var event = ExplainedEvent(.evidence, "")
            event.source = feed.source
            event.arrived = feed.opened.rfc3339
            event.feed = feed.id
            if feed.kind != .feedback { event.reason = feed.kind.rawValue }
            let often = item.statements > 1 ? ", \(item.statements) times" : ""
            let what =
                switch feed.kind {
                case .feedback: "the feedback list of \(feed.source) calls it dead\(often)"
                case .unusable: "a report from \(feed.source) names it"
                default:
                    "answers 410 \(feed.kind.rawValue) from \(feed.source) call it dead\(often)"
                }
            let outcome = outcome(of: item, &event)
            event.text =
                (app == .noApp ? "" : "\(app): ")
                + "\(what), read at \(feed.opened.rfc3339): \(outcome)"
            add(event, at: item.time, of: app)
            for decision in facts.decisions[feed.id] ?? [] { add(decision, of: feed) }
        }
    }

    /// What became of a piece of evidence, in words, with the rule.
    private func outcome(of item: JournalEvidence, _ event: inout ExplainedEvent) -> String {
        let feed = item.feed
        if let refusal = item.refusal {
            event.rule = .quarantined
            event.reason = refusal
            return "quarantined (\(refusal))"
        }
        guard let time = item.time else { return "it changed nothing" }
        switch feed.state {
        case .discarded:
            event.rule = .discarded
            event.reason = feed.cause
            return
                "a person discarded it (\(feed.cause ?? "no reason was noted")), so it changed nothing"
        case .held:
            event.rule = .held
            event.reason = feed.cause
            return "held (\(feed.cause ?? "no cause was noted")), so it changed nothing yet"
        case .reading, .taking, .pending:
            let judgement = facts.judgement(dead: time, feed.partition)
            (event.rule, event.basis) = (judgement.rule, "waiting")
            return "it waits; judged now: \(judgement.words)"
        case .applied: return applied(feed, time, &event)
        }
    }

    private func applied(
        _ feed: CapturedFeed, _ time: EpochMilliseconds, _ event: inout ExplainedEvent
    ) -> String {
        let entries = facts.changes.filter { $0.place.feed == feed.id }
        if let entry = entries.first {
            (event.rule, event.basis) = (facts.rule(of: entry), "ledger")
            return entry.refusal == nil
                ? "applied, it changed the row, see the change" : "the row refused the change"
        }
        let judgement = facts.judgement(dead: time, feed.partition)
        event.basis = "present"
        guard judgement.changes else {
            event.rule = judgement.rule
            return "applied, it changed nothing; by the rows of today: \(judgement.words)"
        }
        // The rows of today say the opposite, so somebody changed them since.
        return
            "applied, and the ledger has no change by it: at that time a rule kept the row, which "
            + "was changed since, or the entry was purged"
    }

    private mutating func add(_ decision: FeedDecision, of feed: CapturedFeed) {
        let by = decision.by.flatMap { $0.isEmpty ? nil : $0 } ?? "somebody unknown"
        let evidence = "the evidence from \(feed.source)"
        let kind: ExplainedEvent.Kind = decision.kind == .held ? .hold : .decision
        let text =
            switch decision.kind {
            case .held: "the guard held \(evidence): \(decision.why ?? "no cause was noted")"
            case .released: "\(by) released \(evidence)"
            case .discarded: "\(by) discarded \(evidence): \(decision.why ?? "no reason was noted")"
            }
        var event = ExplainedEvent(kind, "\(feed.partition): \(text)")
        event.action = decision.kind.rawValue
        (event.feed, event.run, event.reason) = (feed.id, decision.run, decision.why)
        event.operator = decision.by
        add(event, at: decision.at, of: feed.partition)
    }

    private mutating func addWaiting() {
        for row in facts.waiting {
            let reading = WaitingReport(row, facts)
            var event = ExplainedEvent(.evidence, "")
            (event.source, event.basis) = ("pushsweep_evidence", "waiting")
            event.key = "\(row.id)"
            event.rule = reading.rule
            event.arrived = reading.arrived?.rfc3339
            event.reason = reading.reason
            let isKnown = facts.apps.contains { $0.name == row.partition }
            event.text =
                (isKnown ? "\(row.partition): " : "")
                + "row \(row.id) of pushsweep_evidence waits for a sweep: \(reading.words)"
            add(event, at: reading.time ?? reading.arrived, of: isKnown ? row.partition : nil)
        }
    }

    // MARK: Changes

    private mutating func addChanges() {
        for change in facts.changes.reversed() {
            let app = change.origin.map { facts.named($0.partition) }
            let name = change.place.run
            let run = facts.runs[name]
            let source = change.origin?.source ?? change.reason ?? "undo"
            let isUndo = source == "undo" || run?.kind == "undo"
            let isExpiry = source == "delete-after"
            let (before, after) = facts.states(change)
            let kind: ExplainedEvent.Kind = isUndo ? .undo : isExpiry ? .expiry : .change
            let key = change.key.text(wholeTokens: facts.wholeTokens)
            let subject =
                change.isBeside ? "the mark in pushsweep_invalid" : "row \(key) of \(facts.table)"
            var words: String
            if let refusal = change.refusal {
                let why = RowRefusal(rawValue: refusal)?.words ?? refusal
                words = "\(subject) refused its change: \(why)"
            } else {
                words = "\(subject) " + Self.verb(change.action, isUndo: isUndo)
                if let before, let after {
                    words += ": \(before.words), then \(after.words)"
                }
            }
            let by = run.map { " (\($0.kind) \(name.prefix(8))" }
            words +=
                by.map { $0 + (run?.operator.map { ", \($0)" } ?? "") + ")" }
                ?? " (run \(name.prefix(8)))"
            if change.origin?.isReleased == true { words += ", released by a person" }
            if isExpiry { words += ", after the period of policy.delete-after" }
            var event = ExplainedEvent(
                kind, (app.map { "\($0): " } ?? "") + words)
            if !change.isBeside { event.key = key }
            (event.action, event.source, event.feed) = (change.action, source, change.place.feed)
            (event.before, event.after) = (before?.words, after?.words)
            (event.run, event.runKind) = (name, run?.kind)
            (event.operator, event.host) = (run?.operator, run?.host)
            event.reason = change.refusal ?? change.reason
            add(event, at: change.changed, of: app)
        }
    }

    private static func verb(_ action: String, isUndo: Bool) -> String {
        switch action {
        case "mark": "was marked"
        case "side-mark": "was set"
        case "advance": "was moved to later evidence"
        case "delete": "was deleted"
        case "insert": "was inserted again"
        case "side-restore" where !isUndo: "was taken away with the row"
        case "restore", "side-restore": "was taken back"
        default: "was changed (\(action))"
        }
    }

    // MARK: Notifications

    private mutating func addQueue() {
        for row in facts.queue {
            let app = row.partition.map(facts.named)
            let reason = row.reason.map { " (\($0))" } ?? ""
            var words =
                switch DeliveryState(rawValue: row.state) {
                case .pending: "waits to be sent"
                case .claimed: "is held by a sender that sends it now"
                case .retry: "waits to be sent again\(reason)"
                case .sent: "was accepted by the gateway"
                case .skipped: "was skipped, never sent\(reason)"
                case .gone: "was answered 410\(reason)"
                case .failed: "was refused by the gateway\(reason)"
                case .unknown: "was sent and got no answer\(reason)"
                case nil: "is in state \(row.state)\(reason)"
                }
            if row.attempts > 0 { words += " after \(row.attempts.counting("attempt"))" }
            if let queued = row.queued { words += "; queued at \(queued.rfc3339)" }
            if let notBefore = row.notBefore, row.answered == nil {
                words += "; not before \(notBefore.rfc3339)"
            }
            var event = ExplainedEvent(
                .notification, "\(prefix(app))notification \(row.key) \(words)")
            (event.key, event.action, event.reason) = ("\(row.key)", row.state, row.reason)
            event.attempts = row.attempts
            event.arrived = row.queued?.rfc3339
            add(event, at: row.answered ?? row.queued, of: app)
        }
    }
}

// The story of one token. What is read about it becomes an event at once. Only the rows, and the entries of
// the ledger, stay beside the events, because evidence is judged by them. Evidence stands at the time since
// which it calls the token dead, and not at its arrival, because the rule compares that time with the
// registration: the order of the lines shows the rule.

import APNsProtocol
import Database
import EvidenceJournal
import Operations
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// What the stories of all tokens have in common.
struct StoryFrame {
    let settings: Settings
    let apps: AppWords
    let history: TokenHistory
    let now: EpochMilliseconds
    /// Reads reports that wait as a sweep would that begins now.
    let reader: ReportReader
    /// Whether tokens are printed whole.
    let wholeTokens: Bool
    /// The mapping of each app of the settings as a digest; empty where nothing is judged again by itself.
    let mappings: [Partition: String]

    /// The name in the settings of an app by the table's value; an app that the settings do not name
    /// keeps the value.
    func named(_ stored: Partition) -> Partition {
        settings.apps.first { $0.storedPartition == stored }?.partition ?? stored
    }

    func app(_ name: Partition) -> Settings.App? {
        settings.apps.first { $0.partition == name }
    }
}

/// An event with its place in time; events of unknown time come first.
typealias TimedEvent = (time: EpochMilliseconds?, event: ExplainedEvent)

/// The story of one token.
struct TokenStory {
    let token: DeviceToken
    let frame: StoryFrame
    let rows: [TokenRow]
    /// The entries of the ledger, the latest first.
    var changes: [LedgerEntry] = []
    /// What persons said no to about it; nil where nobody did, or that cannot be read.
    var spared: SparedToken?
    /// What the next sweep judges: of which app, in words, and whether it would change a row.
    private(set) var open: [(app: Partition, words: String, changes: Bool)] = []
    /// The apps whose hold has evidence about the token.
    private(set) var heldApps: Set<Partition> = []
    private var timed: [TimedEvent] = []

    /// Begins with the rows, and the marks beside them.
    init(_ token: DeviceToken, _ frame: StoryFrame, _ rows: [TokenRow], _ marks: [MarkBeside]) {
        (self.token, self.frame, self.rows) = (token, frame, rows)
        for row in rows { add(row) }
        for mark in marks {
            let app = frame.named(mark.partition)
            add(.mark, at: mark.time, of: app) { event in
                event.text =
                    "\(app): pushsweep_invalid has a mark of this time" + Self.reason(mark.reason)
                (event.source, event.reason) = ("pushsweep_invalid", mark.reason)
            }
        }
    }

    /// The events, those of unknown time first.
    var events: [ExplainedEvent] {
        let kinds = ExplainedEvent.Kind.allCases
        return timed.enumerated().map { place, timed in
            (
                timed.time?.rawValue ?? .min, kinds.firstIndex(of: timed.event.kind) ?? 0, place,
                timed.event
            )
        }.sorted { ($0.0, $0.1, $0.2) < ($1.0, $1.1, $1.2) }.map(\.3)
    }

    private mutating func add(
        _ kind: ExplainedEvent.Kind, at time: EpochMilliseconds?, of app: Partition?,
        _ fill: (inout ExplainedEvent) -> Void
    ) {
        var event = ExplainedEvent(kind, of: app, at: time)
        fill(&event)
        timed.append((time, event))
    }

    private func prefix(_ app: Partition?) -> String {
        app.map { "\($0): " } ?? "an app that the settings do not name: "
    }

    private static func reason(_ reason: String?) -> String {
        reason.map { ", reason \($0)" } ?? ""
    }

    func name(_ row: TokenRow) -> String {
        "row \(row.key.text(wholeTokens: frame.wholeTokens))"
    }

    // MARK: Rows

    private mutating func add(_ row: TokenRow) {
        let app = row.partition.map(frame.named)
        let key = row.key.text(wholeTokens: frame.wholeTokens)
        let subject = "\(prefix(app))\(name(row)) of \(frame.history.tableName) "
        add(.registered, at: row.registeredAt, of: app) { event in
            event.key = key
            event.text =
                subject
                + (row.hasUnreadableRegistration
                    ? "has a registration that is no time, which counts as later than any"
                    : row.registeredAt == nil ? "has no registration time" : "registered")
                + (row.isDead.map {
                    "; its column says that it is \($0 ? "dead" : "living") now"
                } ?? "")
        }
        guard let mark = row.mark else { return }
        add(.mark, at: mark, of: app) { event in
            (event.key, event.reason) = (key, row.reason)
            event.text = subject + "has a mark of this time" + Self.reason(row.reason)
        }
    }

    // MARK: Evidence

    /// Adds what a batch says, and what the guard and persons decided about the batch.
    mutating func add(_ report: TokenReport, _ decisions: [RunRecord]) {
        let (batch, app) = (report.batch, report.batch.partition)
        let isOfGrace = batch.source == .grace
        // Of a row that went the ledger tells.
        if isOfGrace, report.state == .applied { return addDecisions(about: batch, app, decisions) }
        var event = ExplainedEvent(isOfGrace ? .expiry : .evidence, of: app, at: report.time)
        (event.source, event.arrived, event.batch) = (batch.label, batch.opened.rfc3339, batch.id)
        if batch.source != .feedback { event.reason = batch.source.rawValue }
        if batch.source == .accepted {
            (event.rule, event.basis) = (.nothing, "waiting")
            event.text =
                "\(app): APNs accepted it, as \(batch.label) says, read at \(batch.opened.rfc3339): the next sweep "
                + "clears the suspicion"
            timed.append((report.time, event))
            return
        }
        if batch.source.isSuspicion {
            (event.rule, event.basis) = (.suspect, "waiting")
            event.text =
                "\(app): an answer 400 \(batch.source.rawValue) from \(batch.label) calls it bad, read at "
                + "\(batch.opened.rfc3339): the next sweep notes it, which never removes a row"
            timed.append((report.time, event))
            return
        }
        let what = isOfGrace ? "its period of policy.delete-after was over" : report.claim
        let outcome = outcome(of: report, app, &event)
        event.text = "\(app): \(what), read at \(batch.opened.rfc3339): \(outcome)"
        timed.append((report.time, event))
        addDecisions(about: batch, app, decisions)
    }

    /// Adds what lies in quarantine.
    mutating func add(_ part: QuarantinedPart, of batch: String, _ origin: ReportBatch?) {
        let app = origin?.partition ?? .noApp
        let label = origin?.label ?? "a batch that is not known any more"
        var event = ExplainedEvent(.evidence, of: app, at: nil)
        (event.source, event.arrived, event.batch) = (label, origin?.opened.rfc3339, batch)
        (event.rule, event.reason) = (.quarantined, part.reason)
        event.text =
            (app == .noApp ? "" : "\(app): ")
            + (origin?.source == .feedback
                ? "the feedback list of \(label) calls it dead" : "a report from \(label) names it")
            + (origin.map { ", read at \($0.opened.rfc3339)" } ?? "")
            + ": quarantined (\(part.reason))"
        timed.append((nil, event))
    }

    /// Adds that APNs called it bad.
    mutating func add(_ suspect: Suspect) {
        let app = frame.named(suspect.partition)
        add(.evidence, at: suspect.last, of: app) { event in
            (event.rule, event.reason, event.source) = (
                .suspect, suspect.reason, "pushsweep_suspect"
            )
            event.text =
                "\(app): APNs called it bad, \(suspect.times.counting("time")) since "
                + "\(suspect.first.rfc3339), "
                + "reason \(suspect.reason); that never removes a row"
                + Self.acceptance(of: suspect) + suspect.wordsOfElsewhere
        }
    }

    /// What else APNs said of a suspect, and what follows.
    private static func acceptance(of suspect: Suspect) -> String {
        guard let accepted = suspect.accepted else {
            return
                "; no answer is known that accepted it, so it may be of another environment or app"
        }
        return suspect.isCleared
            ? "; it accepted it later, at \(accepted.rfc3339), so nothing of that is left"
            : "; it had known it at \(accepted.rfc3339), so credentials or settings of the sender are to blame"
    }

    /// What became of a report, in words, with the rule.
    private mutating func outcome(
        of report: TokenReport, _ app: Partition, _ event: inout ExplainedEvent
    ) -> String {
        let batch = report.batch
        switch batch.state {
        case .discarding, .discarded:
            let reason = batch.decision
            (event.rule, event.reason) = (.discarded, reason)
            return
                "a person discarded it (\(reason ?? "no reason was noted")), so it changed nothing"
        case .held:
            (event.rule, event.reason) = (.held, batch.hold?.cause)
            heldApps.insert(app)
            return "held (\(batch.hold?.cause ?? "no cause was noted")), so it changed nothing yet"
        case .filling, .waiting, .applying, .applied: break
        }
        if batch.source == .grace, report.state == .waiting {
            event.basis = "waiting"
            return "the row goes when that is judged"
        }
        guard report.state != .waiting else {
            let (rule, words) = judgement(
                dead: report.time, app, heard: batch.hearing)
            (event.rule, event.basis) = (rule, "waiting")
            open.append(
                (app, "apply the evidence of \(report.time.rfc3339): \(words)", rule.changesRows))
            return "it waits; judged now: \(words)"
        }
        return decided(report, app, &event)
    }

    /// What a report was decided to do, in words, with the rule.
    private mutating func decided(
        _ report: TokenReport, _ app: Partition, _ event: inout ExplainedEvent
    ) -> String {
        event.basis = "report"
        if let entry = changes.first(where: { $0.origin?.batch == report.batch.id }) {
            (event.rule, event.basis) = (rule(of: entry), "ledger")
        }
        let when = report.decided.map { " at \($0.rfc3339)" } ?? ""
        switch report.state {
        case .waiting: return ""
        case .applied:
            return event.rule == nil
                ? "applied\(when), it changed the row; the ledger's entry was purged"
                : "applied, it changed the row, see the change"
        case .already:
            event.rule = event.rule ?? .already
            return event.basis == "ledger"
                ? "applied, it changed the row, see the change"
                : "judged\(when): the row was invalid already"
        case .newer:
            event.rule = .newer
            return "judged\(when): the row was kept, because \(whyKept(by: report))"
        case .spared:
            event.rule = .spared
            return "judged\(when): the row was kept, because "
                + (spared?.words ?? "a person had undone or discarded as much")
        case .unknown:
            let others = otherApps(than: app)
            event.rule = others == nil ? .unknown : .otherApp
            return "judged\(when): no row of this app and environment had the token"
                + (others.map { "; rows of \($0) have it now" } ?? "") + again(report, app)
        case .refused:
            (event.rule, event.reason) = (.refused, report.refusal?.rawValue ?? event.reason)
            return "judged\(when): the row refused the change"
                + (report.refusal.map { ": \($0.words)" } ?? "") + again(report, app)
        }
    }

    /// That a report is judged again, because the mapping is another one now; empty where it is not.
    private mutating func again(_ report: TokenReport, _ app: Partition) -> String {
        let batch = report.batch
        guard let mapping = frame.mappings[app], batch.isJudgedAgain(under: mapping, at: frame.now)
        else { return "" }
        var (rule, words) = judgement(dead: report.time, app, heard: batch.hearing)
        if [.undecided, .undated].contains(rule) {
            // By itself a second judgement changes nothing that is in doubt.
            (rule, words) = (.newer, "the order is in doubt, so it is left to pushsweep replay")
        }
        open.append(
            (
                app,
                "judge the evidence of \(report.time.rfc3339) again under another mapping: \(words)",
                rule.changesRows
            ))
        return "; the mapping is another one now, and the next sweep judges it again"
    }

    /// Why a report left a row as it was.
    private func whyKept(by report: TokenReport) -> String {
        let batch = report.batch
        if batch.source == .grace { return "its mark or its registration had changed meanwhile" }
        return batch.isJudgedByItself
            ? "it was judged again by itself, and then only a row changes that certainly registered before the "
                + "evidence"
            : "the device had registered after this evidence"
    }

    /// Adds that the guard held a batch, and who released or discarded it.
    private mutating func addDecisions(
        about batch: ReportBatch, _ app: Partition, _ runs: [RunRecord]
    ) {
        if let hold = batch.hold, let since = hold.since {
            add(.hold, at: since, of: app) { event in
                event.text =
                    "\(app): the guard held the evidence from \(batch.label): \(hold.cause)"
                (event.action, event.batch, event.run) = ("held", batch.id, batch.run)
                event.reason = hold.cause
            }
        }
        for run in runs where run.counts?.contains(batch.id) == true {
            let isRelease = run.kind == "release"
            let who = run.operator ?? "somebody unknown"
            let discard = isRelease ? nil : DiscardReport(line: run.counts)
            add(.decision, at: run.ended ?? run.started, of: app) { event in
                event.text =
                    "\(app): \(who) \(isRelease ? "released" : "discarded") the evidence from \(batch.label)"
                    + (isRelease ? "" : ": \(discard?.reason ?? "no cause was noted")")
                (event.action, event.batch, event.run) = (
                    isRelease ? "released" : "discarded", batch.id, run.id
                )
                (event.reason, event.operator) = (discard?.reason, run.operator)
            }
        }
    }

    /// Adds a row of `pushsweep_evidence` that waits, as the next sweep will read it.
    mutating func add(_ row: EvidenceRow) {
        let report = try? row.report.get()
        var event = ExplainedEvent(.evidence, of: nil, at: nil)
        (event.source, event.basis) = ("pushsweep_evidence", "waiting")
        (event.key, event.arrived) = ("\(row.id)", report?.receivedAt?.rfc3339)
        var time: EpochMilliseconds?
        let waiting = "row \(row.id) of pushsweep_evidence waits for a sweep: "
        do {
            let app = try frame.apps.app(row.words).get()
            time = tell(row, of: app, waiting, in: &event)
            event.place(at: time ?? report?.receivedAt, of: app)
        } catch {
            event.rule = .noApp
            event.text =
                waiting
                + "these settings name no \(error); a day after it came it goes to quarantine, "
                + "unless another host takes it"
            event.place(at: report?.receivedAt, of: nil)
        }
        timed.append((time ?? report?.receivedAt, event))
    }

    /// Tells what a row of an app of the settings will come to, and since when it calls the token dead.
    private mutating func tell(
        _ row: EvidenceRow, of app: Partition, _ waiting: String, in event: inout ExplainedEvent
    ) -> EpochMilliseconds? {
        event.reason = (try? row.report.get())?.reason
        var (time, changes) = (EpochMilliseconds?.none, false)
        let words: String
        do throws(UnusableReport) {
            switch try frame.reader.read(try row.report.get()) {
            case .nothing, .accepted, .otherPlatform, .unknownReason:
                (event.rule, words) = (.nothing, "its answer says nothing against the token")
            case .suspect:
                event.rule = .suspect
                words = "it calls the token bad, which never removes a row"
            case .evidence(_, _, let dead):
                let (rule, judged) = judgement(
                    dead: dead, app, heard: row.heard.map(Hearing.at) ?? .unknown)
                (event.rule, time, changes) = (rule, dead, rule.changesRows)
                words = "judged now: \(judged)"
            }
        } catch {
            (event.rule, words) = (.quarantined, "it will be quarantined: \(error)")
        }
        open.append((app, "take row \(row.id) of pushsweep_evidence: \(words)", changes))
        event.text = "\(app): " + waiting + words
        return time
    }

    // MARK: Changes

    /// Adds the entries of the ledger, once the runs behind them are known.
    mutating func tellChanges(_ runs: [String: RunRecord]) {
        for change in changes.reversed() { tell(change, runs[change.part.run]) }
    }

    private mutating func tell(_ change: LedgerEntry, _ run: RunRecord?) {
        let app = change.origin.map { frame.named($0.partition) }
        let source = change.origin?.source ?? change.reason ?? "undo"
        let isUndo = source == "undo" || run?.kind == "undo"
        let isExpiry = source == EvidenceSource.grace.rawValue
        let (before, after) = frame.history.states(of: change)
        let key = change.key.text(wholeTokens: frame.wholeTokens)
        var words =
            (app.map { "\($0): " } ?? "")
            + (change.isBeside
                ? "the mark in pushsweep_invalid " : "row \(key) of \(frame.history.tableName) ")
        if let refusal = change.refusal {
            words += "refused its change: \(RowRefusal(rawValue: refusal)?.words ?? refusal)"
        } else {
            words += Self.verb(change.action, isUndo: isUndo)
            if let before, let after {
                words += ": \(before.words), then \(after.words)"
            }
            if change.isForeign { words += ", by another table, token or mark column" }
        }
        words +=
            " (\(run?.kind ?? "run") \(change.part.run.prefix(8))"
            + (run?.operator.map { ", \($0)" } ?? "") + ")"
        if change.origin?.isReleased == true { words += ", released by a person" }
        if isExpiry { words += ", after the period of policy.delete-after" }
        add(isUndo ? .undo : isExpiry ? .expiry : .change, at: change.changed, of: app) { event in
            event.text = words
            if !change.isBeside { event.key = key }
            (event.action, event.source, event.batch) = (
                change.action, source, change.origin?.batch
            )
            (event.before, event.after) = (before?.words, after?.words)
            (event.run, event.runKind) = (change.part.run, run?.kind)
            (event.operator, event.host) = (run?.operator, run?.host)
            event.reason = change.refusal ?? change.reason
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

    mutating func add(_ row: QueuedRow) {
        let app = row.partition.map(frame.named)
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
        let prefix = prefix(app)
        add(.notification, at: row.answered ?? row.queued, of: app) { event in
            event.text = "\(prefix)notification \(row.key) \(words)"
            (event.key, event.action, event.reason) = ("\(row.key)", row.state, row.reason)
            (event.attempts, event.arrived) = (row.attempts, row.queued?.rfc3339)
        }
    }
}

extension RowState {
    /// The state as a clause.
    fileprivate var words: String {
        guard exists else { return "absent" }
        let dead = isDead.map { $0 ? "dead" : "living" }
        let reason = reason.map { " (\($0))" } ?? ""
        let marked =
            mark.map { "marked since \($0.rfc3339)\(reason)" }
            ?? (isDead == nil ? "without a mark" : nil)
        let registered = registeredAt.map { "registered at \($0.rfc3339)" }
        return [dead, marked, registered].compactMap { $0 }.joined(separator: ", ")
    }
}

// The step before a send. It looks at everything that decides whether the send reaches the right devices,
// and says so in one exit code: 0 for an open gate, 2 for a shut one, another where it could not look.
//
//   1. apply what waits, as a sweep does, but read no gateway (not under --read-only)
//   2. the tokens of the send against the token table
//   3. evidence that waits, holds, the last good sweep
//   4. certificate, key, topic and environment against each other
//   5. clocks
//   6. the provider: TLS and HTTP/2 without a request; with --probe one request to a made-up token
//   7. the rules, the ignore file, and the decision
//
// A feedback gateway is never connected to, because a connection spends its list. A failure to look is
// thrown: a gate that has not seen everything is neither open nor shut.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Operations
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// What `preflight` looks at or filters, and what shuts its gate.
package struct PreflightPlan: Sendable {
    /// Where the tokens of the send come from.
    package enum Subject: Sendable {
        /// The waiting rows of the queue.
        case queue
        /// A file with a token per line; `-` is standard input.
        case lines(String)
        /// The sender is another program and its tokens are not known.
        case none

        /// The word in reports.
        var word: String {
            switch self {
            case .queue: "queue"
            case .lines: "tokens"
            case .none: "none"
            }
        }
    }

    let settings: Settings
    let app: Settings.App
    let subject: Subject
    /// Whether nothing is applied before.
    package var readOnly = false
    /// Whether one request is sent to the provider.
    package var probes = false
    /// The least severity that shuts the gate; nil: none does.
    package var failOn: Severity? = .high
    /// The largest share of stale tokens that is no reason to stop, from 0 to 1.
    package var mostStale = 0.05
    /// The largest share of tokens that APNs called bad which is no reason to stop, from 0 to 1.
    package var mostSuspect = SuspectShare.usualLimit
    /// Hours without a good sweep after which that is a finding.
    package var mostHours = SweepFacts.usualHours
    /// Bytes for fingerprints of tokens; a filter with 0 looks every token up.
    package var memory = PreflightPlan.usualMemory
    /// Whether a filter drops tokens without a row too.
    package var onlyKnown = false
    /// Whether a filter drops tokens that APNs called bad too.
    package var withoutSuspects = false
    /// The findings to live with.
    package var ignore = IgnoreList.none

    /// Bytes for fingerprints where nothing else is said.
    package static let usualMemory = 256 << 20

    /// Makes the plan for one app of the settings. Without a subject it is the queue, where the app has
    /// one.
    ///
    /// - Throws: usage, when the settings have no such app, or several.
    package init(
        _ settings: Settings, app name: String?, environment: String?, subject: Subject?,
        for doing: String = "looking before a send"
    ) throws(RunFailure) {
        self.settings = settings
        let app = try settings.app(named: name, in: environment, for: doing)
        self.app = app
        self.subject =
            subject ?? (StoreSettings(settings).wantsQueue && app.sends ? .queue : .none)
    }

    /// The file of tokens; nil for another subject.
    var lines: String? {
        if case .lines(let path) = subject { path } else { nil }
    }
}

/// One look before a send.
package struct Preflight {
    let context: RunContext
    let plan: PreflightPlan
    var facts: Facts
    /// The lines of the tokens, opened before anything is applied; nil for other subjects.
    private var lines: GivenSource?
    private var applied: RunOutcome<SweepReport>?

    /// The beginning of the days in which what APNs called bad counts, by the database's clock; nil where nothing is.
    private var suspectsSince: EpochMilliseconds?

    private init(_ plan: PreflightPlan, _ context: RunContext) {
        (self.context, self.plan) = (context, plan)
        facts = Facts(.preflight, plan.settings, apps: [plan.app], now: context.now())
        var send = SendFacts(object: "\(plan.app.partition)")
        send.mostStale = plan.mostStale
        facts.send = send
    }

    /// The end of a look: the report, and the run that applied what waited, nil where none was made.
    package typealias Look = (report: PreflightReport, applied: RunOutcome<SweepReport>?)

    /// Looks at everything and decides.
    ///
    /// - Throws: `RunFailure` with the exit code of what could not be looked at.
    package static func run(_ plan: PreflightPlan, _ context: RunContext) throws -> Look {
        let started = context.now()
        var look = Preflight(plan, context)
        try look.readBeginning()
        if !plan.readOnly {
            let outcome = try applyWaiting(plan.settings, context)
            (look.applied, look.facts.refusals) = (outcome, outcome.failures)
        }
        do {
            try look.examine()
        } catch {
            throw RunFailure.wrapping(error, at: .store).after(look.applied?.report.closingCounts)
        }
        context.progress.clear()
        var report = PreflightReport(plan, look.facts, look.applied?.report, started: started)
        report.ended = context.now().rfc3339
        return (report, look.applied)
    }

    /// Reads the beginning of the tokens, so that what cannot be read is found before anything is applied.
    private mutating func readBeginning() throws {
        guard let path = plan.lines else { return }
        let source = try GivenSource(
            path, doing: "reading tokens from", at: .settings, context.interrupt)
        if !plan.readOnly { try source.lookAhead() }
        lines = source
    }

    /// Applies what waits. The failures of the outcome say that another run is at work, or that
    /// evidence stays.
    ///
    /// - Throws: the most urgent of all other failures.
    static func applyWaiting(
        _ settings: Settings, _ context: RunContext
    ) throws(RunFailure) -> RunOutcome<SweepReport> {
        var plan = SweepPlan(settings, .waiting, dryRun: false)
        plan.metrics = MetricsPlan(settings)
        let outcome = Sweep.run(plan, context)
        let worst = outcome.failures.filter { ![.locked, .pending].contains($0.exit) }
            .min { $0.exit != $1.exit && ExitStatus.worse($0.exit, $1.exit) == $0.exit }
        if let worst { throw worst }
        return outcome
    }

    private mutating func examine() throws {
        do {
            let store = try TokenTable.forDecisions(plan.settings)
            try store.require(.read, partitions: [plan.app.storedPartition])
            facts.isReplica = try store.isReplica()
            facts.stranded = try store.strandedMarks(plan.settings.apps.map(\.storedPartition))
            let suspects = try recentSuspects(store)
            try countTokens(store)
            facts.suspects = [try share(of: suspects, store)]
            try facts.readMisplaced(store)
            facts.now = context.now()
            try facts.readEvidence(plan.settings, store, hours: plan.mostHours)
            if let unseen = facts.batches?.unseen { throw unseen }
            // What waits on this host is about other rows.
            if let host = facts.host, let difference = try FolderBinding.difference(host, store) {
                throw RunFailure(
                    .configuration, .state, "looking at the state folder: \(difference)")
            }
            try facts.readClocks(store, context.now)
        } catch {
            throw RunFailure.ofReading(error)
        }
        facts.now = context.now()
        facts.credentials = CredentialFacts.all(of: plan.app, at: facts.now)
        examineProvider()
        if context.interrupt.isTripped { throw RunFailure.stopped }
    }

    /// What APNs called bad of the app in the last days.
    private mutating func recentSuspects(_ store: TokenTable) throws -> [AuditedSuspects] {
        let known = Suspects(store)
        guard try known.decides() else { return [] }
        let since = try store.session.databaseTime().advanced(
            by: -Suspects.recentDays * 86_400_000)
        let found = try known.counts(since: since)
            .filter { $0.partition == plan.app.storedPartition }.map(AuditedSuspects.init)
        if !found.isEmpty { suspectsSince = since }
        return found
    }

    /// Their share of the tokens of the send, or where these are not known of the living ones of the app.
    private func share(
        of suspects: [AuditedSuspects], _ store: TokenTable
    ) throws -> SuspectShare {
        let (object, limit) = ("\(plan.app.partition)", plan.mostSuspect)
        if let tokens = facts.send?.tokens {
            return SuspectShare(
                suspects: suspects, tokens: tokens.living, among: tokens.suspect, object: object,
                limit: limit)
        }
        let living =
            suspects.isEmpty
            ? 0 : try store.livingRows(in: plan.app.storedPartition).count(atMost: .max)
        return SuspectShare(suspects: suspects, tokens: living, object: object, limit: limit)
    }

    private mutating func countTokens(_ store: TokenTable) throws {
        if case .none = plan.subject { return }
        var tally = try TokenTally(
            store, plan.app, memory: plan.memory,
            suspectsSince: suspectsSince)
        let (context, word) = (context, plan.subject.word)
        func add(_ tokens: [DeviceToken?]) throws(StoreFailure) {
            try tally.add(tokens)
            context.progress.show("tokens of the \(word)", tally.counts.read, of: nil)
        }
        let interrupt = context.interrupt
        switch plan.subject {
        case .none: break
        case .queue:
            guard
                try store.readDueTokens(
                    plan.app.storedPartition, shouldStop: { interrupt.isTripped }, add)
            else { throw RunFailure.stopped }
            facts.unowned = try store.unownedRows(plan.settings.apps.map(\.storedPartition))
        case .lines:
            try lines?.lines { block, isCut in
                // No token is so long as a line that is cut.
                try add(isCut ? [nil] : block.tokens)
                return true
            }
        }
        facts.send?.tokens = tally.counts
        facts.send?.missesDuplicates = tally.missesDuplicates
    }
}

extension UnsafeRawBufferPointer {
    /// The tokens of a block of lines, without empty lines; nil for a line that is none.
    fileprivate var tokens: [DeviceToken?] {
        var tokens: [DeviceToken?] = []
        eachLine { line in
            guard !line.text.isEmpty else { return }
            tokens.append(try? DeviceToken(spelling: Array(self[line.text])))
        }
        return tokens
    }
}

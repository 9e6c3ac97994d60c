// The step before a send. It looks at everything that decides whether the send reaches the right devices,
// and says so in one exit code: 0 for an open gate, 2 for a shut one, another where it could not look.
//
//   1. apply what waits, as a sweep does, but read no gateway (not under --read-only)
//   2. the tokens of the send against the token table
//   3. evidence that waits, holds, the last good sweep
//   4. certificate, key, topic and environment against each other
//   5. clocks
//   6. the provider: TLS and HTTP/2 without a request; with --probe one request to a made-up token
//   7. the ignore file, and the decision
//
// A feedback gateway is never connected to, because a connection spends its list. A failure to look is
// thrown: a gate that has not seen everything is neither open nor shut.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// One look before a send.
package struct Gate {
    let plan: GatePlan
    let context: RunContext
    var report: GateReport
    /// The lines of the tokens, opened before anything is applied; nil for other subjects.
    private var lines: GivenSource?
    /// The run that applied what waited; nil where none was made.
    package private(set) var applied: RunOutcome<SweepReport>?

    private init(_ plan: GatePlan, _ context: RunContext) {
        self.plan = plan
        self.context = context
        report = GateReport(
            app: plan.app.name, environment: plan.app.environment.rawValue,
            subject: plan.subject.word, readOnly: plan.readOnly, started: context.now().rfc3339,
            failOn: plan.failOn?.rawValue ?? "never")
    }

    /// The end of a look: the report, and the run that applied what waited.
    package typealias Look = (report: GateReport, applied: RunOutcome<SweepReport>?)

    /// Looks at everything and decides.
    ///
    /// - Throws: `RunFailure` with the exit code of what could not be looked at.
    package static func run(_ plan: GatePlan, _ context: RunContext) throws -> Look {
        var gate = Gate(plan, context)
        try gate.readBeginning()
        if !plan.readOnly { gate.applied = try gate.applyWaiting() }
        do {
            try gate.examine()
        } catch {
            throw RunFailure.wrapping(error, at: .store).after(gate.applied?.report.closingCounts)
        }
        context.progress.clear()
        gate.report.findings = IgnoredFindings(plan.ignore, now: context.now()).applied(
            to: gate.report.findings)
        gate.decide()
        return (gate.report, gate.applied)
    }

    /// Reads the beginning of the tokens, so that what cannot be read is found before anything is applied.
    private mutating func readBeginning() throws {
        switch plan.subject {
        case .none, .queue: break
        case .lines(let path):
            let source = try GivenSource(
                path, doing: "reading tokens from", at: .settings, context.interrupt)
            if !plan.readOnly { try source.lookAhead() }
            lines = source
        case .query(let query, let seconds):
            guard !plan.readOnly else { break }
            struct Enough: Error {}
            do {
                try plan.settings.ensureOwnStore()
                try TokenTable(
                    StoreSettings(plan.settings, for: .decisions), pacing: Pacing(plan.settings)
                ).readSegment(query, within: seconds) { _ in throw Enough() }
            } catch is Enough {
            } catch {
                throw RunFailure.ofReading(error)
            }
        }
    }

    private mutating func examine() throws {
        try plan.settings.ensureOwnStore()
        let store: TokenTable
        do throws(StoreFailure) {
            store = try TokenTable(
                StoreSettings(plan.settings, for: .decisions), pacing: Pacing(plan.settings))
            try store.preflight(.read, partitions: [plan.app.storedPartition])
        } catch {
            throw RunFailure.ofReading(error)
        }
        do {
            try examineServer(store)
            try examineTokens(store)
            try examineEvidence(store)
            try examineClocks(store)
        } catch {
            throw RunFailure.ofReading(error)
        }
        examineCredentials()
        examineProvider()
        if context.interrupt.isTripped { throw RunFailure.stopped }
    }

    /// A replica may have old rows: it answers, and the reader is told. Behind a proxy that splits
    /// reads from changes the primary is asked, see `StoreUse.decisions`.
    private mutating func examineServer(_ store: TokenTable) throws(StoreFailure) {
        let standing = try store.retries.retrying(
            "asking the server for its role", do: store.connection.role())
        guard standing?.isReplica == true else { return }
        add(
            .oldRows, .medium, "\(plan.settings.store.location)",
            "a replica answers, so tokens are judged by rows that may lack the latest marks and "
                + "registrations",
            cure: "write the primary's address into store.url, or look at the replica's lag first")
    }

    /// Applies what waits. A run that is at work elsewhere, and evidence that stays, are findings; a
    /// failure is thrown.
    private mutating func applyWaiting() throws -> RunOutcome<SweepReport>? {
        let outcome = try Self.applyWaiting(plan.settings, context)
        for failure in outcome.failures {
            add(
                .pendingEvidence, .medium, report.partition,
                "what waits could not be applied: \(failure)",
                cure: "wait for the other run or run again; --read-only looks without applying")
        }
        report.applied = GateReport.Applied(
            run: outcome.report.run,
            feeds: outcome.report.apps.count { $0.state == FeedState.applied.rawValue },
            applied: outcome.report.apps.reduce(0) { $0 + $1.applied })
        return outcome
    }

    /// Applies what waits. The failures of the outcome say that another run is at work, or that
    /// evidence stays.
    ///
    /// - Throws: the most urgent of all other failures.
    static func applyWaiting(
        _ settings: Settings, _ context: RunContext
    ) throws(RunFailure) -> RunOutcome<SweepReport> {
        var sweep = SweepPlan(applyingWaiting: settings)
        sweep.metrics = MetricsPlan(settings, dryRun: false)
        let outcome = Sweep.run(sweep, context)
        let worst = outcome.failures.filter { ![.locked, .pending].contains($0.exit) }
            .min { $0.exit != $1.exit && ExitStatus.worse($0.exit, $1.exit) == $0.exit }
        if let worst { throw worst }
        return outcome
    }

    private mutating func examineTokens(_ store: TokenTable) throws {
        if case .none = plan.subject { return }
        var tally = try TokenTally(store, plan.app, memory: plan.memory)
        let (context, word) = (context, plan.subject.word)
        func add(_ tokens: [DeviceToken?]) throws(StoreFailure) {
            try tally.add(tokens)
            context.progress.show("tokens of the \(word)", tally.counts.read, of: nil)
        }
        switch plan.subject {
        case .none: break
        case .queue:
            let interrupt = context.interrupt
            guard
                try store.readDueTokens(
                    plan.app.storedPartition, shouldStop: { interrupt.isTripped }, add)
            else { throw RunFailure.stopped }
        case .query(let query, let seconds):
            let interrupt = context.interrupt
            try store.readSegment(query, within: seconds) { tokens in
                try add(tokens)
                if interrupt.isTripped { throw RunFailure.stopped }
            }
        case .lines:
            try lines?.lines { block, isCut in
                // No token is so long as a line that is cut.
                try add(isCut ? [nil] : block.tokens)
                return true
            }
        }
        let counts = tally.counts
        report.tokens = counts
        report.findings += counts.findings(report.partition, mostStale: plan.mostStale)
        if tally.missesDuplicates {
            self.add(
                .uncountedDuplicates, .note, report.partition,
                "the memory for finding duplicates was used up, so some are not counted",
                cure: "raise --memory")
        }
    }

    mutating func add(
        _ rule: GateRule, _ severity: GateSeverity, _ object: String, _ message: String,
        cure: String
    ) {
        let finding = GateFinding(rule, severity, object, message, cure: cure)
        if !report.findings.contains(finding) { report.findings.append(finding) }
    }

    private mutating func decide() {
        report.findings.sort { one, two in
            if (one.ignored == nil) != (two.ignored == nil) { return one.ignored == nil }
            if one.severity != two.severity { return one.severity > two.severity }
            return (one.rule.rawValue, one.object) < (two.rule.rawValue, two.object)
        }
        let isShut = report.findings.contains { finding in
            plan.failOn.map { finding.ignored == nil && finding.severity >= $0 } ?? false
        }
        report.gate = isShut ? "shut" : "open"
        report.ended = context.now().rfc3339
        report.exit = (isShut ? ExitStatus.shut : .done).rawValue
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

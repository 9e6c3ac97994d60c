// Rows under the wrong environment: found by what APNs said, proven by asking the other environment, moved there.
//
//   look     reads suspects, reports and the ledger; changes nothing, takes no lock
//   --probe  asks the other environment about the unknown ones; its answers are reports
//   --apply  moves the proven rows, as a batch of reports that the guard judges like a removal
//
// A person starts each of them. A hold of a move is like any other: any host shows, releases or discards it.

import APNsProtocol
import Database
import EvidenceJournal
import Findings
import Settings
import TokenHygiene
import TokenTable

/// What a person wants of `environments`.
package struct EnvironmentsWish: Sendable {
    /// The apps by name; empty for all.
    package var apps: [String] = []
    /// The file that gets the rows, a line each; nil for none.
    package var list: String?
    /// Whether tokens in that file are whole.
    package var wholeTokens = false
    package var probes = false
    /// The most tokens to ask about.
    package var limit = 1_000
    package var rate: Double?
    package var again = false
    package var applies = false
    package var dryRun = false

    package init() {}

    /// Whether a run of it writes to the database.
    var changes: Bool { (probes || applies) && !dryRun }
}

/// One run of `environments`.
package struct Environments: RecordedRun {
    private let settings: Settings
    private let wish: EnvironmentsWish
    let context: RunContext
    let metrics: (any JournalPage)?
    private let started: EpochMilliseconds
    /// Gets whole lines of a list for stdout.
    private let output: (String) -> Void
    private var pairs: [EnvironmentPair] = []
    var outcome: RunOutcome<EnvironmentsReport>

    /// Looks, asks and moves as wished. `page` is written again where anything may have changed, and `output` gets the
    /// list for `-`.
    package static func run(
        _ settings: Settings, _ wish: EnvironmentsWish, _ page: (any JournalPage)?,
        _ context: RunContext, output: @escaping (String) -> Void = { _ in }
    ) -> RunOutcome<EnvironmentsReport> {
        let started = context.now()
        var report = EnvironmentsReport(dryRun: wish.dryRun, started: started)
        if wish.changes { report.run = UUIDText.random() }
        var run = Environments(
            settings: settings, wish: wish, context: context, metrics: page, started: started,
            output: output, outcome: RunOutcome(report: report))
        do {
            run.pairs = EnvironmentPair.all(
                of: try settings.apps(named: wish.apps), in: settings)
            guard !run.pairs.isEmpty else { throw settings.nameless("looking for environments") }
        } catch {
            run.outcome.fail(.wrapping(error, at: .settings))
            run.outcome.stamp(at: context.now())
            return run.outcome
        }
        return wish.changes ? run.perform() : run.look()
    }

    var stage: RunFailure.Stage { .apply }

    func openJournal() throws -> OpenedJournal {
        let folder = try StateFolder(settings.state)
        return OpenedJournal(folder: folder, journal: try EvidenceJournal(in: folder))
    }

    private var plan: SweepPlan {
        var plan = SweepPlan(settings, .environments, dryRun: wish.dryRun)
        // The answers of an environment that the settings do not name are about it all the same.
        for other in pairs.compactMap(\.other) where plan.partitions[other.partition] == nil {
            plan.partitions[other.partition] = other.storedPartition
        }
        return plan
    }

    // MARK: Looking

    /// Looks, and says what a probe would ask and what would move.
    private mutating func look() -> RunOutcome<EnvironmentsReport> {
        do {
            try settings.reading { store in
                try store.require(.read)
                let evidence = EvidenceRun(
                    store: store, plan: plan, context: context, run: outcome.report.run,
                    started: started, isTrial: true)
                try survey(store)
                try work(evidence)
                if let list = wish.list { try write(list, store) }
            }
        } catch {
            outcome.fail(.wrapping(error, at: .store))
        }
        outcome.stamp(at: context.now())
        return outcome
    }

    /// Counts what is known, app by app.
    private mutating func survey(_ store: TokenTable) throws {
        let visibility = try Suspects(store).visibility()
        let intake = EvidenceIntake(store)
        if try intake.visibility() == .readable {
            let waiting = try intake.waiting()
            outcome.report.waiting = waiting > 0 ? waiting : nil
        }
        for (place, pair) in pairs.enumerated() {
            var app = EnvironmentsReport.App(pair.partition)
            if place < outcome.report.apps.count { app = outcome.report.apps[place].uncounted }
            if pair.hasOtherApp {
                app.gap =
                    "its rows have another app in the column than those of the other environment (apps[].value), so "
                    + "they cannot move by the environment alone"
            } else if visibility == .readable {
                var movable = 0
                try eachToken(of: pair, store) {
                    app.count($0)
                    if $0.knowledge.isProof, !$0.isElsewhereToo { movable += 1 }
                }
                app.next = try next(for: app, movable: movable, of: pair, store)
            } else {
                app.gap =
                    "pushsweep_suspect is not there, lacks a column, or is hidden from the account; run pushsweep check"
                outcome.note(visibility == .hidden ? .permission : .configuration)
            }
            if place < outcome.report.apps.count {
                outcome.report.apps[place] = app
            } else {
                outcome.report.apps.append(app)
            }
        }
    }

    /// What a person does next about an app.
    private func next(
        for app: EnvironmentsReport.App, movable: Int, of pair: EnvironmentPair,
        _ store: TokenTable
    ) throws -> String? {
        let batches = Batches(store)
        if try batches.visibility() == .readable,
            let held = try batches.holder(of: pair.partition, .proof)
        {
            return
                "a move of \(held.reports.counting("row")) is held: pushsweep holds show \(held.id)"
        }
        guard app.accepted + app.dead + app.notAsked > 0 else {
            return app.knownHere > 0
                ? "APNs knew \(app.knownHere.counting("token")) here, so look at the credentials and the topic of the sender"
                : nil
        }
        guard pair.isNamed else {
            return
                "name \(pair.partition.elsewhere.map { "\($0)" } ?? "") under apps, with its provider and credential"
        }
        if movable > 0 {
            return wish.applies && wish.dryRun
                ? "pushsweep environments --apply" : "pushsweep environments --apply --dry-run"
        }
        guard app.notAsked > 0 else { return nil }
        return wish.probes && wish.dryRun
            ? "pushsweep environments --probe" : "pushsweep environments --probe --dry-run"
    }

    private func eachToken(
        of pair: EnvironmentPair, _ store: TokenTable, _ body: (MisplacedToken) throws -> Void
    ) throws {
        let search = try EnvironmentSearch(store, of: pair.stored)
        var last: DeviceToken?
        while let page = try search.next(after: last) {
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            for token in page.found { try body(token) }
            last = page.last
        }
    }

    // MARK: Changing

    mutating func work(_ opened: OpenedJournal) throws {
        let store = try RunFailure.at(.store) {
            let store = try TokenTable.open(settings, dryRun: false, for: "environments", context)
            var policy = settings.policy
            try store.require(.apply(policy))
            policy.moves = true
            if wish.applies {
                _ = try store.layout().movableEnvironment()
                try store.require(.apply(policy), partitions: pairs.map(\.stored))
            }
            return store
        }
        try store.underLease(
            run: outcome.report.run, kind: "environments", in: opened.folder, context
        ) { lease in
            var evidence = EvidenceRun(
                store: store, plan: plan, context: context, run: outcome.report.run,
                started: started, lease: lease)
            evidence.ahead = try ClockDifference(to: store, context.now).worthwhile
            try evidence.batches.dropDrafts(lease: lease)
            try evidence.batches.completeFilling()
            outcome.report.apps = pairs.map {
                var app = EnvironmentsReport.App($0.partition)
                app.gap = "the run ended before its rows were counted"
                return app
            }
            try settleHeard(evidence)
            try work(evidence)
            try survey(store)
            if let list = wish.list { try write(list, store) }
            outcome.stamp(at: context.now())
            try store.session.record(
                RunRecord(
                    id: outcome.report.run, kind: "environments", started: started,
                    ended: context.now(), host: context.host, operator: context.operator,
                    counts: outcome.report.jsonLine, guardResult: evidence.opinions.summary))
        }
    }

    /// Judges what a run that was stopped has heard.
    private mutating func settleHeard(_ evidence: EvidenceRun) throws {
        for (place, pair) in pairs.enumerated() {
            guard let other = pair.other?.partition else { continue }
            note(try evidence.judgeHeard(of: other), at: place)
        }
    }

    /// Enters what became of reports that call rows of the other environment dead.
    private mutating func note(_ deaths: [EvidenceRun.Result], at place: Int) {
        let dead = deaths.reduce(0) { $0 + ($1.isSilent ? 0 : $1.entry.applied) }
        if dead > 0 {
            outcome.report.apps[place].deaths = dead + (outcome.report.apps[place].deaths ?? 0)
        }
        for each in deaths { note(each) }
    }

    private mutating func note(_ result: EvidenceRun.Result) {
        if let failure = result.failure {
            outcome.fail(failure)
        } else {
            outcome.note(result.status)
        }
    }

    /// Asks and moves, app by app. What fails for one stops no other.
    private mutating func work(_ evidence: EvidenceRun) throws {
        let terms = ProbeTerms(
            sending: settings.send, limit: wish.limit, rate: wish.rate, again: wish.again)
        var left = terms.limit
        for (place, pair) in pairs.enumerated() where wish.probes {
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            var own = terms
            own.limit = left
            var probe = EnvironmentProbe(pair, evidence, own)
            do {
                try wish.dryRun ? probe.forecast() : probe.run()
                if probe.result.asked > 0 { outcome.report.apps[place].probe = probe.result }
                if probe.result.unanswered > 0 { outcome.note(.pending) }
            } catch {
                let failure = RunFailure.wrapping(error, at: .send)
                outcome.report.apps[place].probe = probe.result
                outcome.report.apps[place].probe?.stopped = failure.description
                outcome.fail(failure)
            }
            left -= probe.result.asked
        }
        for (place, pair) in pairs.enumerated() where wish.applies {
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            do {
                try move(pair, place, evidence)
            } catch {
                outcome.fail(.wrapping(error, at: .apply))
            }
        }
    }

    private mutating func move(
        _ pair: EnvironmentPair, _ place: Int, _ evidence: EvidenceRun
    ) throws {
        let result = try EnvironmentMove(pair: pair, evidence: evidence).run()
        outcome.report.apps[place].move = result.move?.entry
        if let move = result.move { note(move) }
        note(result.deaths, at: place)
    }

    // MARK: Listing

    /// Writes the rows, a line of JSON each in the form of `changes`.
    private func write(_ path: String, _ store: TokenTable) throws {
        let history = try TokenHistory(store)
        guard path != "-" else { return try eachLine(history, store, output) }
        try ReplacedFile(path, of: "the list of rows", mode: 0o600).replace { append in
            try eachLine(history, store, append)
        }
    }

    private func eachLine(
        _ history: TokenHistory, _ store: TokenTable, _ append: (String) throws -> Void
    ) throws {
        for pair in pairs {
            var page: [MisplacedToken] = []
            func flush() throws {
                let rows = try history.rows(of: page.map(\.token), in: [pair.stored], marks: [:])
                for token in page {
                    for row in rows[token.token] ?? [] where row.partition == pair.stored {
                        let line = EnvironmentLine(
                            pair, token, row, wholeTokens: wish.wholeTokens)
                        try append(line.documentLine.printableJSON + "\n")
                    }
                }
                page = []
            }
            try eachToken(of: pair, store) {
                page.append($0)
                if page.count == 500 { try flush() }
            }
            try flush()
        }
    }
}

extension EnvironmentsReport.App {
    /// The same entry before its tokens are counted again.
    fileprivate var uncounted: EnvironmentsReport.App {
        var app = EnvironmentsReport.App(partition)
        (app.probe, app.move, app.deaths) = (probe, move, deaths)
        return app
    }
}

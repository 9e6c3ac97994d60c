// Rows under the wrong environment: found by what APNs said, proven by asking the other environment.
//
//   look     reads suspects and rows; changes nothing, takes no lock
//   --probe  asks the other environment about the unknown ones; its answers stand beside the suspects
//   --list   lists the proven rows
//   --sql    writes the statements by which the application moves them, and those that take it back
//
// No row of the token table is changed by any of them.

import APNsProtocol
import Database
import Findings
import Operations
import Settings
import TokenHygiene
import TokenTable

/// What a person wants of `environments`.
package struct EnvironmentsWish: Sendable {
    /// The apps by name; empty for all.
    package var apps: [String] = []
    /// The file that gets the proven rows, a line each; nil for none.
    package var list: String?
    /// Whether tokens in that file are whole.
    package var wholeTokens = false
    /// The file that gets the statements; nil for none.
    package var sql: String?
    package var probes = false
    /// The most tokens to ask about.
    package var limit = 1_000
    package var rate: Double?
    package var again = false
    package var dryRun = false

    package init() {}

    /// Whether a run of it asks anybody.
    var asks: Bool { probes && !dryRun }
}

/// One run of `environments`.
package struct Environments {
    private let settings: Settings
    private let wish: EnvironmentsWish
    private let context: RunContext
    /// Gets whole lines of a list for stdout.
    private let output: (String) -> Void
    private let pairs: [EnvironmentPair]
    private var outcome: RunOutcome<EnvironmentsReport>

    /// Looks and asks as wished. `output` gets the list for `-`.
    package static func run(
        _ settings: Settings, _ wish: EnvironmentsWish, _ context: RunContext,
        output: @escaping (String) -> Void = { _ in }
    ) -> RunOutcome<EnvironmentsReport> {
        var report = EnvironmentsReport(dryRun: wish.dryRun, started: context.now())
        if wish.asks { report.run = UUIDText.random() }
        var outcome = RunOutcome(report: report)
        do {
            let pairs = EnvironmentPair.all(of: try settings.apps(named: wish.apps), in: settings)
            guard !pairs.isEmpty else { throw settings.nameless("looking for environments") }
            var run = Environments(
                settings: settings, wish: wish, context: context, output: output, pairs: pairs,
                outcome: outcome)
            do { try run.look() } catch { run.outcome.fail(.wrapping(error, at: .store)) }
            outcome = run.outcome
        } catch {
            outcome.fail(.wrapping(error, at: .settings))
        }
        outcome.stamp(at: context.now())
        return outcome
    }

    private mutating func look() throws {
        try settings.reading(for: wish.asks ? .changes : .reports) { store in
            try store.require(wish.asks ? .apply(settings.policy) : .read)
            let files = wish.sql.map {
                MoveFiles(path: $0, engine: store.connection.dialect.engine)
            }
            try files?.requireNew()
            outcome.report.apps = pairs.map {
                var app = EnvironmentsReport.App($0.partition)
                app.gap = "the run ended before its rows were counted"
                return app
            }
            do {
                try ask(store)
                try survey(store)
                if let path = wish.list { try write(list: path, store) }
                if let files { try write(files, store) }
            } catch {
                outcome.fail(.wrapping(error, at: .store))
            }
            try record(store)
        }
    }

    /// Devices were notified, so that stands where people look for what was done, however the run ended.
    private mutating func record(_ store: TokenTable) throws {
        guard wish.asks else { return }
        outcome.stamp(at: context.now())
        try store.session.record(
            RunRecord(
                id: outcome.report.run, kind: outcome.report.kind,
                started: EpochMilliseconds(iso8601: outcome.report.started) ?? context.now(),
                ended: context.now(), host: context.host, operator: context.operator,
                counts: outcome.report.jsonLine))
    }

    /// Asks about the tokens of each app, or says how many a probe would ask about. What fails for one stops no other.
    private mutating func ask(_ store: TokenTable) throws {
        var terms = ProbeTerms(
            sending: settings.send, limit: wish.limit, rate: wish.rate, again: wish.again)
        for (place, pair) in pairs.enumerated() where wish.probes {
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            var probe = EnvironmentProbe(pair, store, terms, context)
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
            terms.limit -= probe.result.asked
        }
    }

    // MARK: Counting

    /// Counts what is known, app by app.
    private mutating func survey(_ store: TokenTable) throws {
        let visibility = try Suspects(store).visibility()
        let intake = EvidenceIntake(store)
        let seen = try intake.visibility()
        if seen == .hidden, let gap = try store.session.gap(in: .evidence, seen) {
            context.log.warning("what waits is not counted: \(gap)")
        }
        if seen == .readable {
            let waiting = try intake.waiting()
            outcome.report.waiting = waiting > 0 ? waiting : nil
        }
        for (place, pair) in pairs.enumerated() {
            var app = EnvironmentsReport.App(pair.partition)
            app.probe = outcome.report.apps[place].probe
            if pair.hasOtherApp {
                app.gap =
                    "its rows have another app in the column than those of the other environment (apps[].value), so "
                    + "they cannot move by the environment alone"
            } else if visibility == .readable {
                // Those whose token a row there has neither move nor are asked about.
                var (movable, askable) = (0, 0)
                try eachToken(of: pair, store) {
                    app.count($0)
                    guard !$0.isElsewhereToo else { return }
                    if $0.standing.isProof { movable += 1 }
                    if $0.standing == .notAsked { askable += 1 }
                }
                app.exchanged = app.share(of: pair).mayBeExchanged ? true : nil
                app.next = next(for: app, movable: movable, askable: askable, of: pair)
            } else {
                let hidden =
                    visibility == .hidden ? try store.session.gap(in: .suspect, visibility) : nil
                app.gap =
                    hidden
                    ?? "pushsweep_suspect is not there or lacks a column; run pushsweep check"
                outcome.note(visibility == .hidden ? .permission : .configuration)
            }
            outcome.report.apps[place] = app
        }
    }

    /// What a person does next about an app; nil where there is nothing to do.
    private func next(
        for app: EnvironmentsReport.App, movable: Int, askable: Int, of pair: EnvironmentPair
    ) -> String? {
        if app.exchanged == true {
            return "nine of ten answers from there know the token: \(MisplacedShare.cureOfExchange)"
        }
        let probe = "pushsweep environments --probe"
        let isRehearsed = wish.probes && wish.dryRun
        guard app.accepted + app.dead + app.notAsked > 0 else {
            if app.knownHere > 0 {
                return
                    "APNs knew \(app.knownHere.counting("token")) here, so look at the credentials and the topic of the sender"
            }
            return app.neither > 0
                ? "where gateway, credential or topic of the \(app.elsewhere) were wrong and are corrected: \(probe) --again"
                : nil
        }
        guard pair.isNamed else {
            return
                "name \(pair.partition.elsewhere.map { "\($0)" } ?? "") under apps, with its provider and credential"
        }
        if movable > 0 { return wish.sql == nil ? "pushsweep environments --sql FILE" : nil }
        guard askable > 0 else {
            return app.elsewhereToo > 0
                ? "decide which of two rows with one token stays: pushsweep audit --deep counts them"
                : nil
        }
        return isRehearsed ? probe : "\(probe) --dry-run"
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

    // MARK: Listing

    /// Writes the proven rows, a line of JSON each.
    private func write(list path: String, _ store: TokenTable) throws {
        guard path != "-" else { return try eachLine(store, output) }
        try ReplacedFile(path, of: "the list of rows", mode: 0o600).replace { append in
            try eachLine(store, append)
        }
    }

    private func eachLine(_ store: TokenTable, _ append: (String) throws -> Void) throws {
        for pair in pairs where !pair.hasOtherApp {
            try eachToken(of: pair, store) { token in
                guard token.standing.isProof else { return }
                for row in token.rows {
                    let line = EnvironmentLine(pair, token, row, wholeTokens: wish.wholeTokens)
                    try append(line.documentLine.printableJSON + "\n")
                }
            }
        }
    }

    /// Writes the statements of all apps of which rows can move. What stands against it for one stops no other.
    private mutating func write(_ files: MoveFiles, _ store: TokenTable) throws {
        var written: [Int: EnvironmentsReport.Statements] = [:]
        try files.replace { statements in
            for (place, pair) in pairs.enumerated() where outcome.report.apps[place].isProven {
                written[place] = try write(
                    &statements, of: pair, outcome.report.apps[place], store)
            }
        }
        for (place, each) in written {
            outcome.report.apps[place].sql = each
            if each.refused != nil { outcome.note(.configuration) }
        }
        if written.values.allSatisfy({ $0.rows == 0 }) { files.remove() }
    }

    private func write(
        _ statements: inout MoveFiles.Statements, of pair: EnvironmentPair,
        _ app: EnvironmentsReport.App, _ store: TokenTable
    ) throws -> EnvironmentsReport.Statements {
        if app.exchanged == true { return .init(refused: "values or gateways may be exchanged") }
        guard pair.isNamed else {
            return .init(
                refused:
                    "the settings name no \(pair.partition.elsewhere.map { "\($0)" } ?? ""), so no run would be "
                    + "about the moved rows; add the app with that environment under apps")
        }
        let moves: MoveStatements
        do throws(StoreFailure) {
            moves = try MoveStatements(
                store, EnvironmentSearch(store, of: pair.stored), of: pair.stored)
        } catch {
            guard error.code == .configuration else { throw error }
            return .init(refused: "\(error)")
        }
        var written = EnvironmentsReport.Statements()
        try statements.begin(pair)
        try eachToken(of: pair, store) { token in
            guard token.standing.isProof else { return }
            guard !token.isElsewhereToo else {
                written.taken += token.rows.count
                return
            }
            for row in token.rows {
                if let both = moves.pair(for: row) {
                    try statements.add(both)
                    written.rows += 1
                } else {
                    written.unspellable = (written.unspellable ?? 0) + 1
                }
            }
        }
        return written
    }
}

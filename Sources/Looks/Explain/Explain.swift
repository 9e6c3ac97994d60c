// Tells what happened to a token, and what is true now. It reads the token table, the marks beside
// it, the ledger, reports with what became of them, and the queue. It takes no lock and writes nothing. It says
// the same on every host, but for lists that a host has not poured into the database yet. Apart from the token table, a part that cannot be read is named among the gaps, and
// the others are read all the same.

import APNsProtocol
import Database
import EvidenceJournal
import Findings
import Operations
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// Tells what happened to the tokens that a person asks about. It takes no lock and changes nothing.
package struct Explain {
    private let context: RunContext
    private let store: TokenTable
    private let tokens: [DeviceToken]
    private let frame: StoryFrame
    private var stories: [DeviceToken: TokenStory] = [:]
    private var report: ExplainReport

    /// Reads everything and explains it.
    ///
    /// - Throws: failures to reach the database or to read the token table.
    package static func run(
        _ settings: Settings, _ subject: TokenSubject, wholeTokens: Bool, _ context: RunContext
    ) throws(RunFailure) -> ExplainReport {
        try settings.reading { store in
            var report = ExplainReport()
            if case .user(let user) = subject { report.user = user }
            let (tokens, isCut, note) = try subject.tokens(store)
            if let note { report.notes.append(note) }
            if isCut {
                report.notes.append(
                    "the user has more than \(TokenSubject.mostTokens) tokens; only so many are "
                        + "explained")
            }
            let now = try store.session.databaseTime()
            report.generated = now.rfc3339
            guard !tokens.isEmpty else { return report }
            let frame = StoryFrame(
                settings: settings, apps: settings.appWords, history: try TokenHistory(store),
                now: now,
                reader: ReportReader(now: now, mayUseArrival: settings.mayUseArrival),
                wholeTokens: wholeTokens, mappings: try Self.mappings(settings, store))
            var explain = Explain(
                context: context, store: store, tokens: tokens, frame: frame, report: report)
            try explain.readAll()
            return explain.report
        }
    }

    private mutating func readAll() throws {
        try readRows()
        read("pushsweep_change") { try $0.readChanges() }
        var facts = BatchFacts()
        read("pushsweep_spared") { try $0.readSpared() }
        read("pushsweep_report") { facts = try $0.readReports() }
        read("pushsweep_quarantine") { try $0.readUnusable() }
        noteJournals()
        read("pushsweep_evidence") { try $0.readWaiting() }
        read("queue") { try $0.readQueue() }
        read("pushsweep_run") { try $0.readRuns() }
        report.tokens = tokens.compactMap { stories[$0]?.told(facts) }
        if !frame.wholeTokens { try report.shorten(tokens) }
    }

    private static func mappings(
        _ settings: Settings, _ store: TokenTable
    ) throws -> [Partition: String] {
        guard try store.layout().registration != nil else { return [:] }
        let each = try settings.apps.map {
            ($0.partition, try MappingDigest.of($0.partition, store.terms(of: $0.storedPartition)))
        }
        return Dictionary(each, uniquingKeysWith: { first, _ in first })
    }

    // MARK: Gaps

    /// Reads a part, or notes why it cannot be read.
    private mutating func read(_ part: String, _ body: (inout Explain) throws -> Void) {
        do {
            try body(&self)
        } catch {
            skip(part, error)
        }
    }

    private mutating func skip(_ part: String, _ error: any Error) {
        report.gaps.append("\(part): \(RunFailure.wrapping(error, at: .store))")
    }

    /// Whether the account may read columns of one of our tables; else notes the gap.
    private mutating func mayRead(
        _ table: PushsweepTable, _ columns: String
    ) throws(StoreFailure) -> Bool {
        let visibility = try store.session.visibility(of: table.name, columns)
        // Marks are in the row, and an account of before the column needs no right there.
        if visibility == .hidden, table == .invalid, try store.layout().hasMarkTime { return false }
        return try note(visibility, of: table)
    }

    private mutating func note(
        _ visibility: TableVisibility, of table: PushsweepTable
    ) throws(StoreFailure) -> Bool {
        guard let gap = try store.session.gap(in: table, visibility) else { return true }
        report.gaps.append(gap)
        return false
    }

    // MARK: Parts

    private mutating func readRows() throws {
        let history = frame.history
        let marks =
            try mayRead(.invalid, "token, app, environment, invalidated_at, reason")
            ? history.marks(on: tokens) : [:]
        let apps = frame.settings.apps.map(\.storedPartition)
        let rows = try history.rows(of: tokens, in: apps, marks: marks)
        if !history.hasTokenIndex {
            report.notes.append(
                "\(history.tableName) has no index over its tokens, so all its rows were read; run "
                    + "`pushsweep schema apply --upgrade`")
        }
        for token in tokens {
            stories[token] = TokenStory(token, frame, rows[token] ?? [], marks[token] ?? [])
        }
    }

    private mutating func readChanges() throws {
        let columns =
            "part, action, row_key, before_image, evidence_at, source, changed_at, token, state"
        guard try mayRead(.change, columns),
            try mayRead(
                .part, "number, run, batch, app, environment, source, table_name, key_columns")
        else { return }
        var readsBatches = try mayRead(.batch, "number, name")
        if readsBatches { readsBatches = try mayRead(.hold, "batch, terms") }
        for token in tokens {
            let (entries, isCut) = try frame.history.changes(of: token, readsBatches: readsBatches)
            stories[token]?.changes = entries
            guard isCut else { continue }
            report.notes.append(
                "\(token.redacted): the ledger has more than \(TokenHistory.mostChanges) changes; "
                    + "the latest of them are explained")
        }
    }

    private mutating func readSpared() throws {
        let columns = PushsweepTable.spared.columns.map(\.name).joined(separator: ", ")
        guard try mayRead(.spared, columns) else { return }
        for (token, note) in try store.spared(among: tokens) { stories[token]?.spared = note }
    }

    /// Reads what batches say about the tokens. Returns the batches that are open.
    private mutating func readReports() throws -> BatchFacts {
        let facts = BatchFacts(store)
        if let unseen = facts.unseen {
            skip("pushsweep_report", unseen)
            return facts
        }
        let history = ReportHistory(store)
        var found: [(DeviceToken, TokenReport)] = []
        for token in tokens {
            let (reports, isCut) = try history.reports(about: token)
            found += reports.map { (token, $0) }
            guard isCut else { continue }
            report.notes.append(
                "\(token.redacted): there are more than \(ReportHistory.mostReports) reports; the latest of them "
                    + "are explained")
        }
        let wereDecided = found.contains { $0.1.batch.hold != nil || $0.1.batch.decision != nil }
        let decisions =
            try wereDecided && mayRead(.run, "id, kind, started, ended, host, operator, counts")
            ? store.decisions(from: EvidenceBounds.earliest, to: frame.now) : []
        for (token, report) in found { stories[token]?.add(report, decisions) }
        return facts
    }

    /// Reads what cannot be used and names the tokens, and what APNs called bad.
    private mutating func readUnusable() throws {
        let quarantine = Quarantine(store)
        if try note(quarantine.visibility(), of: .quarantine) {
            for token in tokens {
                let limit = ReportHistory.mostReports
                for item in try quarantine.parts(about: token, limit: limit) {
                    stories[token]?.add(item.part, of: item.batch, item.origin)
                }
            }
        }
        let suspects = Suspects(store)
        guard try note(suspects.visibility(), of: .suspect) else { return }
        for suspect in try suspects.among(tokens) { stories[suspect.token]?.add(suspect) }
    }

    /// Tells that lists of gateways are in a folder of this host that no run has poured.
    private mutating func noteJournals() {
        let host = HostFacts(in: frame.settings.state)
        for (place, failure) in host.unreadable { skip(place, failure) }
        let batches = host.journals.reduce(0) { $0 + $1.lists.count }
        let left = host.leftReports.values.reduce(0, +)
        if left > 0 {
            report.notes.append(
                "\(left.counting("answer")) against tokens that a sender of this host left "
                    + "\(left == 1 ? "is" : "are") not in the database yet and not searched; the next send or sweep "
                    + "stores and judges \(left == 1 ? "it" : "them")")
        }
        guard batches > 0 else { return }
        report.notes.append(
            "\(batches.counting("batch")) of this host \(batches == 1 ? "is" : "are") not in the database yet and not "
                + "searched; the next sweep stores and judges them")
    }

    private mutating func readWaiting() throws {
        let intake = EvidenceIntake(store)
        let visibility = try intake.visibility()
        guard visibility != .absent, try note(visibility, of: .evidence) else { return }
        let (rows, isCut) = try intake.waiting(about: Set(tokens), limit: ReportHistory.mostReports)
        for (token, rows) in rows {
            for row in rows { stories[token]?.add(row) }
        }
        guard isCut else { return }
        report.notes.append(
            "pushsweep_evidence has more rows than were looked at, the oldest "
                + "\(EvidenceIntake.mostSearched)")
    }

    private mutating func readQueue() throws {
        let apps = frame.settings.apps.map(\.storedPartition)
        guard let found = try store.queueHistory(of: tokens, in: apps) else { return }
        for (token, rows) in found.rows {
            for row in rows { stories[token]?.add(row) }
        }
        if let newest = found.newest {
            report.notes.append(
                "the queue has no index over its tokens, so only its newest \(newest) rows were "
                    + "looked at")
        }
        if found.isCut {
            report.notes.append(
                "the queue has more than \(TokenTable.mostQueueRowsRead) rows; the newest of them "
                    + "are explained")
        }
        report.gaps += found.gaps
    }

    /// Reads the runs behind the changes, and tells the changes, also where no run can be read.
    private mutating func readRuns() throws {
        var runs: [String: RunRecord] = [:]
        defer { for token in tokens { stories[token]?.tellChanges(runs) } }
        guard try mayRead(.run, "id, kind, started, ended, host, operator") else { return }
        let names = stories.values.flatMap(\.changes).map(\.part.run)
        runs = try frame.history.runs(Set(names))
    }
}

/// The tokens that a person asks about.
package enum TokenSubject: Hashable, Sendable {
    /// One token.
    case token(DeviceToken)
    /// The one token that begins so.
    case beginning(TokenBeginning)
    /// All tokens of a user, as the user column has it.
    case user(String)

    /// The most tokens of a user.
    package static let mostTokens = 50
    /// The least digits of a short token that no table has: more than reports print of a longer one.
    private static let leastWhole = 10
    /// The most tokens that a message lists.
    private static let mostListed = 20

    /// The tokens, those of a user in byte order, whether the user has more than `mostTokens`, and what to
    /// tell of first digits that were taken for a token.
    ///
    /// - Throws: `configuration` where there is no user column; exit 64 where no token begins so and the
    ///   digits are no short token, or where several do; any failure of a query.
    func tokens(
        _ store: TokenTable
    ) throws -> (tokens: [DeviceToken], isCut: Bool, note: String?) {
        switch self {
        case .token(let token): return ([token], false, nil)
        case .beginning(let beginning):
            let (token, note) = try Self.token(beginning: beginning, in: store)
            return ([token], false, note)
        case .user(let user):
            let found = try store.tokens(ofUser: user, limit: Self.mostTokens + 1)
            return (found.prefix(Self.mostTokens).sorted(), found.count > Self.mostTokens, nil)
        }
    }

    private static func token(
        beginning: TokenBeginning, in store: TokenTable
    ) throws -> (token: DeviceToken, note: String?) {
        let found = try store.tokens(beginning: beginning, limit: mostListed + 1)
        // A short token of a test is whole as it is.
        let whole = beginning.isCut ? nil : found.first { $0.hex == beginning.digits }
        if let token = whole ?? (found.count == 1 ? found[0] : nil) { return (token, nil) }
        // As reports print a token, for the digits may be all of one.
        let doing = "looking for the token \(beginning.digits.prefix(8))…"
        guard !found.isEmpty else {
            // A short token that only a journal, a report or the queue may know.
            if !beginning.isCut, beginning.digits.count >= leastWhole,
                let token = try? DeviceToken(spelling: beginning.digits)
            {
                return (
                    token,
                    "no token of the table, the marks or the ledger begins so; the digits are taken for a "
                        + "whole token of \(token.count.counting("byte")), give a longer one whole"
                )
            }
            throw RunFailure(
                .usage, .store,
                "\(doing): neither the token table nor the marks nor the ledger has one that begins so; give the "
                    + "token whole, which is then looked for in journals, reports and the queue too"
            )
        }
        let listed = DeviceToken.distinguished(Array(found.prefix(mostListed)))
        throw RunFailure(
            .usage, .store, "\(doing): several begin so, give more digits or the token whole:",
            listing: listed.map { "  \($0)" } + (found.count > mostListed ? ["  and more"] : []))
    }
}

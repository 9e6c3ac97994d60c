// Tells what happened to a token, and what is true now. It reads the token table, the marks beside
// it, the ledger, reports that wait, the queue, and the journals of this host. It takes no lock and
// writes nothing. Apart from the token table, a part that cannot be read is named among the gaps, and
// the others are read all the same.

import APNsProtocol
import Database
import EvidenceJournal
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// What is to be explained.
package struct ExplainWish: Hashable, Sendable {
    /// The tokens that are meant.
    package let subject: TokenSubject
    /// Whether tokens are printed whole.
    package let wholeTokens: Bool

    /// Describes what is to be explained.
    package init(_ subject: TokenSubject, wholeTokens: Bool) {
        (self.subject, self.wholeTokens) = (subject, wholeTokens)
    }
}

/// Explains tokens.
package struct Explain {
    private let settings: Settings
    private let wish: ExplainWish
    private let context: RunContext
    private var report = ExplainReport()

    /// Reads everything and explains it.
    ///
    /// - Throws: failures to reach the database or to read the token table.
    package static func run(
        _ settings: Settings, _ wish: ExplainWish, _ context: RunContext
    ) throws(RunFailure) -> ExplainReport {
        var explain = Explain(settings: settings, wish: wish, context: context)
        do {
            try explain.explain()
        } catch {
            throw .ofReading(error)
        }
        return explain.report
    }

    private init(settings: Settings, wish: ExplainWish, context: RunContext) {
        (self.settings, self.wish, self.context) = (settings, wish, context)
    }

    private mutating func explain() throws {
        try settings.ensureOwnStore()
        let store = try TokenTable(StoreSettings(settings, for: .reports))
        let tokens = try tokens(store)
        let now = try store.session.databaseTime()
        report.generated = now.rfc3339
        guard !tokens.isEmpty else { return }
        let history = try TokenHistory(store)
        let apps = settings.apps.map {
            ExplainedApp(name: $0.partition, stored: $0.storedPartition)
        }
        let marks =
            try readable(.invalid, "token, app, environment, invalidated_at, reason", store)
            ? history.marks(on: tokens) : [:]
        let rows = try history.rows(of: tokens, in: apps.map(\.stored), marks: marks)
        if !history.hasTokenIndex {
            report.notes.append(
                "\(history.tableName) has no index over its tokens, so all its rows were read; run "
                    + "`pushsweep schema apply --upgrade`")
        }
        let changes = changes(of: tokens, store, history)
        let waiting = waiting(about: tokens, store)
        let queue = queue(of: tokens, apps, store)
        let search = searchJournals(for: tokens)
        let runs = runs(of: changes, store, history)
        report.tokens = tokens.map { token in
            var facts = TokenFacts(
                token: token, now: now, apps: apps, policy: settings.policy,
                table: history.tableName, floor: history.floor,
                reader: ReportReader(
                    now: context.now(),
                    mayUseArrival: settings.mayUseArrival))
            (facts.rows, facts.marks) = (rows[token] ?? [], marks[token] ?? [])
            (facts.changes, facts.runs) = (changes[token] ?? [], runs)
            (facts.evidence, facts.decisions) = (search.found[token] ?? [], search.decisions)
            facts.states = history.states
            facts.isBlind = search.isBlind
            for hold in search.holds { facts.holds[hold.partition] = hold.id }
            (facts.waiting, facts.queue) = (waiting[token] ?? [], queue[token] ?? [])
            facts.wholeTokens = wish.wholeTokens
            return ExplainedToken(facts)
        }
        if !wish.wholeTokens { ShortenedTexts(tokens).shorten(&report) }
    }

    private mutating func tokens(_ store: TokenTable) throws -> [DeviceToken] {
        if case .user(let user) = wish.subject { report.user = user }
        let found = try wish.subject.tokens(store)
        if found.isCut {
            report.notes.append(
                "the user has more than \(TokenSubject.mostTokens) tokens; only so many are explained"
            )
        }
        return found.tokens
    }

    // MARK: Gaps

    private mutating func skip(_ part: String, _ error: any Error) {
        report.gaps.append("\(part): \(RunFailure.wrapping(error, at: .store))")
    }

    /// Whether the account may read columns of one of our tables; else notes the gap.
    private mutating func readable(
        _ table: PushsweepTable, _ columns: String, _ store: TokenTable
    ) throws(StoreFailure) -> Bool {
        switch try store.session.visibility(of: table.name, columns) {
        case .readable: return true
        case .hidden:
            // Marks are in the row, and an account of before the column needs no right there.
            if table == .invalid, try store.layout().hasMarkTime { return false }
            report.gaps.append(
                "\(table.name): the account may not read it; grant SELECT on it")
        case .absent:
            report.gaps.append(
                "\(table.name): there is no such table or it lacks a column; run `pushsweep schema "
                    + "apply`")
        }
        return false
    }

    // MARK: Parts

    private mutating func changes(
        of tokens: [DeviceToken], _ store: TokenTable, _ history: TokenHistory
    ) -> [DeviceToken: [LedgerEntry]] {
        var found: [DeviceToken: [LedgerEntry]] = [:]
        do {
            let columns =
                "run, feed, part, action, row_key, before_image, evidence_at, source, changed_at, "
                + "token, state"
            guard try readable(.change, columns, store) else { return [:] }
            let readsFeeds = try readable(
                .feed, "feed, part, app, environment, released, source", store)
            for token in tokens {
                let (entries, isCut) = try history.changes(of: token, readsFeeds: readsFeeds)
                found[token] = entries
                guard isCut else { continue }
                report.notes.append(
                    "\(token.redacted): the ledger has more than \(TokenHistory.mostChanges) changes; "
                        + "the latest of them are explained")
            }
        } catch {
            skip("pushsweep_change", error)
        }
        return found
    }

    private mutating func runs(
        of changes: [DeviceToken: [LedgerEntry]], _ store: TokenTable, _ history: TokenHistory
    ) -> [String: RunRecord] {
        do {
            guard try readable(.run, "id, kind, started, ended, host, operator", store) else {
                return [:]
            }
            let (runs, hosts) = try history.runs(Set(changes.values.joined().map(\.place.run)))
            let others = hosts.filter { $0 != context.host }
            if !others.isEmpty {
                report.notes.append(
                    "the journals of other hosts are not read here (\(others.prefix(5).joined(separator: ", "))"
                        + "\(others.count > 5 ? " and \(others.count - 5) more" : "")): evidence that "
                        + "changed no row, waits or is held there is known there alone")
            }
            return runs
        } catch {
            skip("pushsweep_run", error)
            return [:]
        }
    }

    private mutating func waiting(
        about tokens: [DeviceToken], _ store: TokenTable
    ) -> [DeviceToken: [EvidenceRow]] {
        do {
            let intake = EvidenceIntake(store)
            switch try intake.visibility() {
            case .absent: return [:]
            case .hidden:
                report.gaps.append(
                    "pushsweep_evidence: the account may not read it; grant SELECT on it")
                return [:]
            case .readable: break
            }
            let (rows, isCut) = try intake.waiting(
                about: Set(tokens), limit: JournalSearch.mostFound)
            if isCut {
                report.notes.append(
                    "pushsweep_evidence has more rows than were looked at, the oldest "
                        + "\(EvidenceIntake.mostSearched)")
            }
            return rows
        } catch {
            skip("pushsweep_evidence", error)
            return [:]
        }
    }

    private mutating func queue(
        of tokens: [DeviceToken], _ apps: [ExplainedApp], _ store: TokenTable
    ) -> [DeviceToken: [QueuedRow]] {
        do {
            guard let found = try store.queueHistory(of: tokens, in: apps.map(\.stored)) else {
                return [:]
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
            return found.rows
        } catch {
            skip("queue", error)
            return [:]
        }
    }

    /// Searches the journals of this host: those of sweeps and of its senders.
    private mutating func searchJournals(for tokens: [DeviceToken]) -> JournalSearch {
        var search = JournalSearch(tokens)
        let host = HostFacts(in: settings.state)
        guard host.hasState else {
            report.gaps.append(
                "this host: no state folder \(settings.state), so evidence, holds and decisions "
                    + "of this host are not known")
            return search
        }
        for (place, failure) in host.unreadable {
            search.isBlind = true
            skip(place, failure)
        }
        for journal in host.journals {
            do {
                try search.search(journal)
            } catch {
                search.isBlind = true
                skip("journal in \(journal.journal.folder.path)", error)
            }
        }
        if search.isCut {
            report.notes.append(
                "the journal has more applied feeds than were searched, the newest "
                    + "\(JournalSearch.mostRetained >> 20) MiB")
        }
        return search
    }
}

// Reads what the table, the ledger, the journal and the credentials say, and reports it. An audit
// changes no row and needs SELECT only; it writes no record of itself. A part that cannot be
// examined is named among the gaps, and the others are examined all the same.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Operations
import PushQueue
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// What an audit is to examine.
package struct AuditWish: Hashable, Sendable {
    /// The beginning of the period; nil: 30 days before its end.
    package var since: EpochMilliseconds?
    /// The end of the period; nil: the present.
    package var until: EpochMilliseconds?
    /// Whether what needs sorting is examined too.
    package var isDeep = false
    /// The file for the users without a living token; nil for none.
    package var usersFile: String?
    /// The file for the rows whose tokens APNs called bad; nil for none.
    package var suspectsFile: String?
    /// An earlier report, to say what changed since.
    package var baseline: AuditReport?
    /// The findings to live with.
    package var ignore = IgnoreList.none

    package init() {}
}

/// Makes the report of an audit.
package struct Audit {
    let settings: Settings
    let wish: AuditWish
    let context: RunContext
    var report = AuditReport()

    /// Examines everything that the settings name.
    ///
    /// - Throws: failures to reach the database or to read the token table; 75 when it was stopped.
    package static func run(
        _ settings: Settings, _ wish: AuditWish, version: String, _ context: RunContext
    ) throws(RunFailure) -> AuditReport {
        let (start, end) = (wish.since ?? EpochMilliseconds(0), wish.until ?? context.now())
        guard start < end else {
            throw RunFailure(
                .usage, .settings,
                "reading the period of the audit: it begins at \(start.rfc3339) and ends at \(end.rfc3339), "
                    + "so it is empty; correct --since or --until")
        }
        var audit = Audit(
            settings: settings, wish: wish, context: context,
            host: HostFacts(in: settings.state),
            facts: Facts(.audit, settings, apps: settings.apps, now: context.now()))
        audit.report.version = version
        defer { context.progress.clear() }
        var pacing = Pacing(settings).began("audit", context)
        // It changes nothing, so it runs beside a stop file, and tells of it.
        pacing.throttle.stopFile = nil
        try settings.reading(pacing: pacing) { try audit.examine($0) }
        return audit.report
    }

    private mutating func examine(_ store: TokenTable) throws {
        let stored = settings.apps.map(\.storedPartition)
        try store.require(.read, partitions: stored, judgingRows: false)
        let now = try store.session.databaseTime()
        describe(now, store)
        try countTokens(store, stored, now)
        report.gaps += try store.unseen()
        facts.stranded = try store.strandedMarks(stored)
        examineQueue(store)
        try forecast()
        for (place, app) in settings.apps.enumerated() {
            let credentials = CredentialFacts.all(of: app, at: now)
            facts.credentials += credentials
            report.apps[place].credentials = credentials.map { AuditedCredential($0, at: now) }
        }
        if wish.isDeep { try examineDeeply(store, stored) }
        readHistory(store, stored)
        examineJournals(now)
        examineHolds(store)
        examineSuspects(store)
        if let path = wish.suspectsFile { try listSuspects(store, stored, in: path) }
        listRuns(store)
        if let baseline = wish.baseline { report.changes = report.changes(since: baseline) }
        facts.pulse = pulse(store)
        facts.suspects = report.apps.map {
            SuspectShare(suspects: $0.suspects ?? [], tokens: $0.tokens.living, object: $0.object)
        }
        readSweeps(store, now)
        (facts.now, facts.host, facts.report, facts.gaps) = (now, host, report, report.gaps)
        report.enter(
            RuleBook.findings(facts, ignoring: wish.ignore), hoursSinceSweep: facts.sweeps?.hours)
    }

    var host: HostFacts
    /// What the rules judge, besides the report.
    var facts: Facts
    /// The period of the history.
    var period: (since: EpochMilliseconds, until: EpochMilliseconds) = (
        EpochMilliseconds(0), EpochMilliseconds(0)
    )

    mutating func describe(_ now: EpochMilliseconds, _ store: TokenTable) {
        let until = wish.until ?? now
        period = (wish.since ?? until.advanced(by: -30 * 86_400_000), until)
        report.host = context.host
        report.operator = context.operator
        report.generated = now.rfc3339
        report.since = period.since.rfc3339
        report.until = period.until.rfc3339
        report.settings = settings.auditDigest
        report.table = "\(store.settings.location.place), \(settings.store.mapping.table)"
        report.apps = settings.apps.map {
            AuditedApp(app: $0.name, environment: $0.environment.rawValue)
        }
    }

    /// Notes a part that could not be examined.
    mutating func skip(_ part: String, _ error: any Error) {
        report.gaps.append("\(part): \(RunFailure.wrapping(error, at: .store))")
    }

    func stopped() -> RunFailure {
        RunFailure(.pending, .store, "auditing: stopped; run again")
    }

    // MARK: The token table

    mutating func countTokens(
        _ store: TokenTable, _ stored: [Partition], _ now: EpochMilliseconds
    ) throws {
        let audit = try TableAudit(store, stored, at: now)
        guard
            let (tallies, others) = try audit.tallies(
                shouldStop: { context.interrupt.isTripped },
                report: { context.progress.show("auditing (rows)", $0, of: nil) })
        else { throw stopped() }
        context.progress.clear()
        for (place, partition) in stored.enumerated() {
            report.apps[place].enter(tallies[partition] ?? RowTally())
        }
        facts.otherRows = others
    }

    mutating func examineDeeply(_ store: TokenTable, _ stored: [Partition]) throws {
        let deep = try DeepAudit(store, stored, user: store.userColumn()?.name)
        context.progress.show("looking for tokens in several rows", 0, of: nil)
        let shared = try deep.sharedTokens()
        for (place, partition) in stored.enumerated() {
            if context.interrupt.isTripped { throw stopped() }
            var found = DeepTokens()
            found.duplicateTokens = shared.tokens
            found.duplicateRows = shared.rows
            found.tokensOfSeveralUsers = shared.ofSeveralUsers
            found.tokensInBothEnvironments = shared.inSeveralEnvironments
            context.progress.show("counting the tokens of each user", place, of: stored.count)
            if let users = try deep.tokensPerUser(in: partition)?.users {
                found.users = users.values.reduce(0, +)
                found.usersWithoutLivingToken = users[0] ?? 0
                found.tokensPerUser = [
                    NamedCount("0", users[0] ?? 0), NamedCount("1", users[1] ?? 0),
                    NamedCount("2", users[2] ?? 0),
                    NamedCount("3 to 5", (3...5).reduce(0) { $0 + (users[$1] ?? 0) }),
                    NamedCount("over 5", users[TokensPerUser.most] ?? 0),
                ]
            }
            report.apps[place].deep = found
        }
        if let path = wish.usersFile { try listUsers(deep, stored, in: path) }
        do {
            guard try Batches(store).visibility() == .readable else { return }
            context.progress.show("counting the reports of all batches", 0, of: nil)
            facts.unbalanced = try ReportHistory(store).unbalanced(limit: 20)
        } catch {
            skip("the reports of all batches", error)
        }
    }

    /// Writes the users without a living token, a line each: app, environment, user.
    private func listUsers(_ deep: DeepAudit, _ stored: [Partition], in path: String) throws {
        try ReplacedFile(path, of: "the list of users", mode: 0o600).replace { append in
            try append("app,environment,user\n")
            for (app, partition) in zip(settings.apps, stored) {
                try deep.usersWithoutToken(
                    in: partition, shouldStop: { context.interrupt.isTripped }
                ) { user in
                    let cells = [app.name, app.environment.rawValue, user].map(\.inert)
                    try append(CSVRecord.line(cells))
                }
                if context.interrupt.isTripped { throw stopped() }
            }
        }
    }

    // MARK: History, queue, runs

    private mutating func readHistory(_ store: TokenTable, _ stored: [Partition]) {
        let history = EvidenceHistory(store)
        do {
            guard try history.isReadable() else {
                report.gaps.append(
                    "history: the account may not read pushsweep_batch; grant SELECT on it")
                return
            }
            let (first, last) = (String(report.since.prefix(10)), String(report.until.prefix(10)))
            // Days of the period, and as many before it.
            let day: Int64 = 86_400_000
            let begin = max(0, period.since.rawValue) / day
            let count = max(0, period.until.rawValue) / day - begin + 1
            let before = EpochMilliseconds(max(0, begin - count) * day)
            let undone = try store.changingRuns(from: before, to: EpochMilliseconds(.max)).takenBack
            let days = try history.days(
                from: String(before.rfc3339.prefix(10)), to: last, undone: undone.sorted())
            for day in days {
                // The database names apps as the rows of the table do.
                guard let place = stored.firstIndex(of: day.partition) else { continue }
                if day.day >= first {
                    report.apps[place].evidence.append(EvidenceDay(day))
                } else {
                    var earlier =
                        report.apps[place].earlier ?? EvidenceDay(day: day.day, source: "")
                    earlier.add(EvidenceDay(day))
                    report.apps[place].earlier = earlier
                }
            }
        } catch {
            skip("history", error)
        }
    }

    /// The last good sweep of any host, and the longest pause of this one.
    private mutating func readSweeps(_ store: TokenTable, _ now: EpochMilliseconds) {
        do {
            if let difference = try FolderBinding.difference(host, store) {
                report.gaps.append(difference)
            }
            var sweeps = try SweepFacts(&host, store, now, hours: SweepFacts.usualHours)
            sweeps.longestGap = report.runs.longestGap
            report.runs.lastGoodSweep = sweeps.last?.rfc3339
            report.runs.hoursSince = sweeps.hours.map { ($0 * 10).rounded() / 10 }
            facts.sweeps = sweeps
            facts.runs = RunRhythm(&host, now)
        } catch {
            skip("the last sweep", error)
        }
    }

    /// What is not as usual in the evidence.
    private mutating func pulse(_ store: TokenTable) -> PulseLook {
        let pulse = PulseLook(settings, store)
        if let unseen = pulse.unseen { skip("the rhythm of the evidence", unseen) }
        return pulse
    }

    /// The place of an app in the report, by the names in the settings.
    func place(of partition: Partition) -> Int? {
        settings.apps.firstIndex { $0.partition == partition }
    }

    private mutating func listRuns(_ store: TokenTable) {
        do {
            let listed = try store.changingRuns(from: period.since, to: period.until)
            let undone = listed.takenBack
            report.runs.changing = listed.filter { $0.rowsChanged > 0 }.prefix(50).map { run in
                var audited = AuditedRun(
                    run: run.record.id, kind: run.record.kind,
                    started: run.record.started.rfc3339, rows: run.rowsChanged,
                    by: [run.record.operator, run.record.host].compactMap { $0 }
                        .joined(separator: " at "))
                audited.undone = undone.contains(run.record.id)
                return audited
            }
        } catch {
            skip("runs that changed rows", error)
        }
    }
}

extension AuditReport {
    /// Takes what the rules found, gravest first, and writes the headline. What a person decided to live with keeps
    /// no report from being healthy.
    mutating func enter(_ found: [Finding], hoursSinceSweep: Double?) {
        findings = found.map(\.audited).worstFirst
        let high = findings.filter { $0.severity == .high && $0.ignored == nil }
        healthy = high.isEmpty
        if let first = high.first {
            let more = high.count - 1
            headline = "Not healthy: \(first.object): \(first.sentence)"
            if more > 0 { headline += ", and \(more.counting("more grave finding"))" }
            return
        }
        let living = apps.reduce(0) { $0 + $1.tokens.living }
        let stale = apps.reduce(0) { $0 + $1.tokens.stale }
        headline =
            "Healthy: \(living.counting("living token")), \(stale) stale"
            + (hoursSinceSweep.map { ", last good sweep \($0.spanOfHours) ago" } ?? "")
    }
}

extension AuditedApp {
    /// Enters the counts of the token table.
    mutating func enter(_ tally: RowTally) {
        tokens.rows = tally.rows
        tokens.living = tally.count(.living) + tally.count(.revived)
        tokens.revived = tally.count(.revived)
        tokens.stale = tally.count(.stale)
        tokens.empty = tally.count(.empty)
        tokens.truncated = tally.count(.truncated)
        tokens.malformed = tally.count(.malformed) + tally.count(.truncated)
        tokens.neverRegistered = tally.neverRegistered
        tokens.fromTheFuture = tally.fromTheFuture
        tokens.forms = Self.ranked(tally.forms)
        staleAges = Self.aged(tally.staleAges)
        registrationAges = Self.aged(tally.registrationAges)
        staleReasons = Self.ranked(tally.reasons).map {
            NamedCount($0.name.isEmpty ? "no reason" : $0.name, $0.count)
        }
    }

    private static func aged(_ counts: [AgeRange: Int]) -> [NamedCount] {
        AgeRange.allCases.compactMap { range in
            let count = counts[range] ?? 0
            // Times after the present and unknown ones are exceptions.
            return count == 0 && range.days == nil && range != .over2Years
                ? nil : NamedCount(range.words, count)
        }
    }

    private static func ranked(_ counts: [String: Int]) -> [NamedCount] {
        counts.filter { $0.value > 0 }.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { NamedCount($0.key, $0.value) }
    }
}

extension AgeRange {
    /// The range in words.
    fileprivate var words: String {
        switch self {
        case .underADay: "under 1 day"
        case .underAWeek: "1 to 7 days"
        case .under30Days: "7 to 30 days"
        case .under90Days: "30 to 90 days"
        case .underAYear: "90 days to 1 year"
        case .under2Years: "1 to 2 years"
        case .over2Years: "over 2 years"
        case .future: "in the future"
        case .unknown: "unknown"
        }
    }
}

extension EvidenceDay {
    fileprivate init(_ day: DayOfEvidence) {
        self.init(day: day.day, source: day.source)
        (applied, already, newer) = (day.counts.applied, day.counts.already, day.counts.newer)
        (unknown, refused) = (day.counts.unknown, day.counts.refused)
        undone = day.undone > 0 ? day.undone : nil
    }

    fileprivate mutating func add(_ day: EvidenceDay) {
        applied += day.applied
        already += day.already
        newer += day.newer
        unknown += day.unknown
        refused += day.refused
        if let more = day.undone { undone = (undone ?? 0) + more }
    }
}

extension Settings {
    /// SHA-256 over all settings as `check` shows them, the first 16 hex digits; empty where it
    /// cannot be computed. Two reports with the same digest were made under the same settings, but
    /// for secrets, which are not part of it.
    var auditDigest: String {
        let lines = origins.map { "\($0.key)=\($0.shownValue)" }.sorted().joined(separator: "\n")
        guard let digest = try? SHA256Digest(), (try? digest.update(Array(lines.utf8))) != nil,
            let hex = try? digest.hex()
        else { return "" }
        return String(hex.prefix(16))
    }
}

// Takes the reports of other senders: rows of `pushsweep_evidence` within the database, a file sorted on this
// host.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import TokenHygiene
import TokenTable

/// Takes reports of other senders.
struct ReportIntake {
    let folder: StateFolder
    let evidence: EvidenceRun
    let apps: AppWords

    init(folder: StateFolder, evidence: EvidenceRun) {
        (self.folder, self.evidence) = (folder, evidence)
        apps = evidence.plan.apps
    }

    var store: TokenTable { evidence.store }
    var plan: SweepPlan { evidence.plan }
    var context: RunContext { evidence.context }
    var run: String { evidence.run }

    /// Tries of one transaction that takes rows. Between them the database is waited for.
    private static let mostTries = 8

    /// The table of the reports of other senders.
    var intake: EvidenceIntake { EvidenceIntake(store) }

    // MARK: Rows of the table

    /// Gives the table its numbers back where they are used up, so that nothing can be reported any more.
    ///
    /// - Throws: `permission` with the GRANT where the account may not; `busy` where a row with such a
    ///   number came meanwhile; any other failure.
    func mendNumbers() throws {
        guard let sentence = try intake.exhaustion() else { return }
        guard try intake.renumber() else { throw StoreFailure(.busy, sentence) }
        context.log.warning(
            """
            a sender had used up the numbers of pushsweep_evidence with a row of its own number, so that no \
            sender could insert; they go on now; look which sender does so (docs/evidence.md)
            """)
    }

    /// What this run takes out of the table.
    ///
    /// - Throws: failures of looking for undos and discards, which a dry run does where its account sees them.
    func terms() throws -> IntakeTerms {
        IntakeTerms(
            run: run, host: context.host, apps,
            ReportReader(now: evidence.now, mayUseArrival: plan.mayUseArrival),
            refused: try store.refusalTimes(mustSee: !plan.dryRun),
            end: try intake.lastNumber() ?? .min, lease: evidence.lease, name: UUIDText.random)
    }

    /// Takes the first rows, or the next ones behind a number, at most `limit`; nil when none is left there. Where the server refuses
    /// a transaction with so many rows, the limit is halved. After a failure that passes, such as a node that is
    /// gone, half as many are taken again.
    func takeRows(
        _ terms: IntakeTerms, after start: Int64?, atMost limit: inout Int
    ) throws -> TakenRows? {
        var triesLeft = Self.mostTries
        while true {
            let most = limit
            let result = Result { () throws(StoreFailure) in
                try intake.take(
                    terms, after: start, limit: most, at: store.session.databaseTime())
            }
            switch result {
            case .success(let taken): return taken
            case .failure(let failure) where failure.isOfSize && limit > 1: limit /= 2
            case .failure(let failure) where failure.code == .busy && triesLeft > 1:
                triesLeft -= 1
                limit = max(1, limit / 2)
            case .failure(let failure): throw failure
            }
        }
    }

    /// Reads the rows that wait and takes none; nil where there are none. Gives their batches as a run would form
    /// them, and how many rows a run would leave.
    func previewRows() throws -> (batches: [HeardBatch], report: IntakeReport, left: LeftRows)? {
        var reports = newReports()
        let now = try store.session.databaseTime()
        var (last, left) = (Int64?.none, LeftRows())
        let terms = try terms()
        while true {
            let rows = try intake.peek(after: last, limit: 1_000)
            guard let end = rows.last?.id else { break }
            for row in rows {
                switch terms.fate(of: row, at: now) {
                case .left(let unnamed): left.add(unnamed)
                case .taken(let app, let reading):
                    try reports.add(
                        reading, about: app, text: Array(row.line.utf8), place: Int(row.id),
                        refusal: terms.refusal(after: row), heard: row.heard ?? now)
                }
            }
            last = end
        }
        guard reports.counts.reports + left.count > 0 else { return nil }
        var report = IntakeReport(reports.counts)
        report.waiting = reports.counts.reports
        let batches = try reports.sorted().batches.map {
            heard($0, .table, named: UUIDText.random(), from: PushsweepTable.evidence.name)
        }
        return (batches, report, left)
    }

    /// Begins to read reports.
    func newReports() -> ReadReports {
        ReadReports(
            in: folder,
            ReportReader(now: evidence.now, mayUseArrival: plan.mayUseArrival))
    }

    /// A batch of what was read.
    func heard(
        _ read: ReadReports.Sorted.Batch, _ inlet: Inlet, named name: String, from label: String
    ) -> HeardBatch {
        var batch = ReportBatch(
            id: name, run: run, read.partition, read.source, inlet, label: label,
            host: context.host, opened: evidence.now)
        batch.heard = read.heard
        batch.reports = read.evidence.reports
        return HeardBatch(batch, .sorted(read.evidence))
    }
}

/// What became of the reports of other senders: part of the reports of sweeps and imports. The entries
/// of `apps` account for the evidence in them. Fields may be added, never renamed.
package struct IntakeReport: Codable, Hashable, Sendable {
    // By what the reports mean, as `ReportCounts` has them.
    package private(set) var reports, evidence, suspects, other, quarantined: Int
    /// Absent where there are none.
    package private(set) var otherPlatform, unknownReasons: Int?
    /// Rows that still wait, in a dry run; absent otherwise.
    package var waiting: Int?
    /// Whether the same content was imported before, so that nothing of it was taken.
    package var known: Bool?
    /// Bytes of a file that was imported before and has grown, which were not read again; absent otherwise.
    package var knownBytes: Int?
    /// Whether a person discarded that content then; absent otherwise.
    package var discarded: Bool?
    /// Whether a person discarded only some of its batches; absent otherwise.
    package var discardedInPart: Bool?
    /// Whether what a known content brought is held; part of the exit code, and not of JSON.
    var holds = false

    private enum CodingKeys: CodingKey {
        case reports, evidence, suspects, other, quarantined, otherPlatform, unknownReasons, waiting
        case known, knownBytes, discarded, discardedInPart
    }

    package init(_ counts: ReportCounts = ReportCounts()) {
        (reports, evidence, suspects) = (counts.reports, counts.evidence, counts.suspects)
        (other, quarantined) = (counts.other, counts.quarantined)
        otherPlatform = counts.otherPlatform > 0 ? counts.otherPlatform : nil
        unknownReasons = counts.unknownReasons > 0 ? counts.unknownReasons : nil
    }

    /// What became of a known content, for people.
    var knownWords: String {
        var words = "the same content was imported before"
        if discarded == true { words += " and discarded" }
        if discardedInPart == true { words += " in part" }
        return words + "; --again takes it once more"
    }

    /// The counts as text for people.
    var line: String {
        "reports of other senders: \(reports), of which \(evidence) call a token dead, "
            + "\(suspects) suspect one, \(other) say nothing about one, "
            + "\(quarantined) quarantined"
            + (knownBytes.map { ", behind \($0.counting("byte")) that were imported before" } ?? "")
            + (otherPlatform.map { ", \($0) are of another platform" } ?? "")
            + (unknownReasons.map { ", \($0) have a reason that APNs does not have" } ?? "")
    }

    /// Adds the counts of more reports.
    static func += (left: inout IntakeReport, right: IntakeReport) {
        left.reports += right.reports
        left.evidence += right.evidence
        left.suspects += right.suspects
        left.other += right.other
        left.quarantined += right.quarantined
        left.otherPlatform = sum(left.otherPlatform, right.otherPlatform)
        left.unknownReasons = sum(left.unknownReasons, right.unknownReasons)
        left.waiting = right.waiting ?? left.waiting
    }

    private static func sum(_ one: Int?, _ two: Int?) -> Int? {
        one == nil && two == nil ? nil : (one ?? 0) + (two ?? 0)
    }
}

// Takes the reports of other senders into the journal: rows of `pushsweep_evidence`, or a file. The
// steps and their order are those of `EvidenceIntake`. What an earlier run left open is decided first.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Foundation
import TokenHygiene
import TokenTable

/// Takes reports of other senders into a journal.
struct JournalIntake {
    let journal: EvidenceJournal
    let evidence: EvidenceRun

    private var store: TokenTable { evidence.store }
    var plan: SweepPlan { evidence.plan }
    var context: RunContext { evidence.context }
    var run: String { evidence.run }

    /// Tries of one transaction that takes rows. Between them the database is waited for.
    private static let mostTries = 8

    /// The table of the reports of other senders.
    var intake: EvidenceIntake { EvidenceIntake(store) }

    /// Decides what an earlier run left open. Returns the counts of what is taken by it, which no
    /// report has yet; nil where nothing was open.
    ///
    /// - Throws: failures of the journal and of the database. Then the question stays open, and
    ///   nothing else may be taken.
    func settleOpenIntakes() throws -> ReportCounts? {
        var sum: ReportCounts?
        for open in try journal.openIntakes() {
            switch try intake.resolve(open.name, run: open.run) {
            case .taken:
                sum = sum ?? ReportCounts()
                sum? += try intake.counts(of: open.name)
                _ = try journal.confirmIntake(open, at: context.now())
            case .void: try journal.dropIntake(open)
            }
        }
        return sum
    }

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

    /// Takes the next rows, at most `limit`. Returns the names of their feeds, and the counts; nil when no
    /// row waits. Where the server refuses a transaction with so many rows, the limit is halved. After a
    /// failure that passes, such as a node that is gone or a row that somebody holds, the database is asked whether
    /// the rows changed hands, and half as many are taken again where they did not. After another failure the next run asks.
    func takeRows(
        atMost limit: inout Int
    ) throws -> (feeds: [String], counts: ReportCounts)? {
        var triesLeft = Self.mostTries
        while true {
            try journal.folder.ensureRoom()
            let open = newIntake
            do {
                return try takeRows(as: open, atMost: limit)
            } catch let failure as StoreFailure where failure.isOfSize && limit > 1 {
                limit /= 2
            } catch let failure as StoreFailure where failure.code == .busy && triesLeft > 1 {
                triesLeft -= 1
                // The rows before one that somebody holds are not to wait for it.
                limit = max(1, limit / 2)
            }
            switch try intake.resolve(open.name, run: run) {
            case .taken:
                let counts = try intake.counts(of: open.name)
                return (try journal.confirmIntake(open, at: context.now()), counts)
            case .void: try journal.dropIntake(open)
            }
        }
    }

    private func takeRows(
        as open: OpenIntake, atMost limit: Int
    ) throws -> (feeds: [String], counts: ReportCounts)? {
        var capture = newCapture(open, from: "pushsweep_evidence")
        let taken = try intake.take(as: open.name, run: run, limit: limit) { rows in
            for row in rows { try add(row, to: &capture) }
        } seal: {
            try capture.flush()
            return capture.counts
        }
        guard taken > 0 else { return nil }
        return (try journal.confirmIntake(open, at: context.now()), capture.counts)
    }

    /// Copies the rows that wait into the journal of a trial and takes none.
    func previewRows() throws -> (feeds: [String], report: IntakeReport)? {
        let open = newIntake
        var capture = newCapture(open, from: "pushsweep_evidence")
        var last = Int64.min
        while true {
            let rows = try intake.peek(after: last, limit: 1_000)
            guard let end = rows.last?.id else { break }
            for row in rows { try add(row, to: &capture) }
            try capture.flush()
            last = end
        }
        guard capture.counts.reports > 0 else { return nil }
        var report = IntakeReport(capture.counts)
        report.waiting = capture.counts.reports
        return (try journal.confirmIntake(open, at: context.now()), report)
    }

    private func add(_ row: EvidenceRow, to capture: inout ReportCapture) throws {
        let partition = row.partition
        let reading = capture.reader.reading(of: row.report.map { $0 })
        // What is not Apple's needs no app of ours.
        guard plan.partitions[partition] != nil || (try? reading.get()) == .otherPlatform else {
            return try capture.refuse(
                Array(row.line.utf8),
                "row \(row.id): the settings name no \(partition.shortened); name it under apps or correct the "
                    + "sender, then export this feed and import it")
        }
        try capture.add(
            reading, about: partition,
            text: Array(row.line.utf8), place: "row \(row.id)")
    }

    var newIntake: OpenIntake {
        OpenIntake(name: UUID().uuidString.lowercased(), run: run)
    }

    func newCapture(_ intake: OpenIntake, from label: String) -> ReportCapture {
        ReportCapture(
            intake, in: journal, from: label, mayUseArrival: plan.mayUseArrival,
            at: context.now())
    }
}

extension Partition {
    /// The app and environment in words; a long name may be a token in the wrong column.
    var shortened: String {
        let names = [app, environment].map { name in
            name.isEmpty ? "''" : name.count > 20 ? name.prefix(12) + "…" : name
        }
        return "app \(names[0]) in environment \(names[1])"
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
    /// Whether a person discarded that content then; absent otherwise.
    package var discarded: Bool?
    /// Whether a person discarded only some of its feeds; absent otherwise.
    package var discardedInPart: Bool?
    /// Whether what a known content brought is held; part of the exit code, and not of JSON.
    var holds = false

    private enum CodingKeys: CodingKey {
        case reports, evidence, suspects, other, quarantined, otherPlatform, unknownReasons, waiting
        case known, discarded, discardedInPart
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
        return words
    }

    /// The counts as text for people.
    var line: String {
        "reports of other senders: \(reports), of which \(evidence) call a token dead, "
            + "\(suspects) suspect one, \(other) say nothing about one, "
            + "\(quarantined) quarantined"
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

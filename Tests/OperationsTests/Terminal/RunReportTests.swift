import APNsProtocol
import Findings
import PushQueue
import Testing
import TokenHygiene

@testable import Operations

@Suite("The report of a run, line by line")
struct RunReportTests {
    private static let chat = Partition(app: "chat", environment: "sandbox")

    /// A run of the sender in which each figure is another one.
    private static func sent(dryRun: Bool) -> SendReport {
        var report = SendReport(run: "r", dryRun: dryRun, started: EpochMilliseconds(1_000))
        var app = SendReport.App(chat)
        (app.sent, app.gone, app.retry, app.unknown, app.returned) = (1, 2, 3, 4, 5)
        (app.reclaimed, app.late) = (6, 7)
        (app.skipped, app.rejected) = (
            ["stale": 8, "malformed": 9], ["BadTopic": 10, "BadPath": 11]
        )
        app.evidence = Counts(applied: 12, already: 13, newer: 14, unknown: 15)
        (app.evidence.tuples, app.evidence.held) = (99, 16)
        report.apps = [app]
        return report
    }

    @Test("a sender says what became of its rows, and what the answers 410 did")
    func sender() {
        let report = Self.sent(dryRun: false)
        #expect(
            report.lines == [
                "chat/sandbox: sent 1, skipped 9 (malformed), skipped 8 (stale), gone 2, rejected 11 "
                    + "(BadPath), rejected 10 (BadTopic), 3 to retry, 4 of unknown outcome, 5 given back, "
                    + "6 taken over, 7 of the sent ones dropped by the gateway",
                "  of 99 tokens called dead: 12 invalidated, 13 already, 14 registered since, 15 unknown, "
                    + "16 held: pushsweep holds list",
            ])
        #expect(report.closingCounts == ClosingCounts(pending: 8, applied: 12, held: 16))
        #expect(report.apps[0].decided == 31 && !report.hasReadNothing)
        #expect(report.started == "1970-01-01T00:00:01.000Z" && SendReport.lastStage == "send")
        var quiet = Self.sent(dryRun: true)
        quiet.apps = [SendReport.App(Self.chat)]
        quiet.apps[0].evidence.tuples = 1
        #expect(quiet.lines[0] == "chat/sandbox: would send 0")
        #expect(quiet.lines[1].hasPrefix("  of 1 token called dead: 0") && quiet.lines.count == 2)
        quiet.apps = []
        #expect(quiet.lines == ["nothing to send"] && quiet.hasReadNothing)
    }

    @Test("a row is counted by its outcome, and what was given back is no row of the run")
    func outcomes() {
        var app = SendReport.App(Self.chat)
        for number in 0..<SendReport.App.mostReasons {
            app.rejected["reason \(number)"] = 1
        }
        app.count(.sent)
        app.count(.gone(reason: "Unregistered"))
        app.count(.failed(reason: "BadTopic"))
        app.count(.failed(reason: "reason 3"))
        app.count(.skipped(.stale))
        app.count(.skipped(.stale))
        #expect(app.sent == 1 && app.gone == 1 && app.skipped == ["stale": 2])
        #expect(app.rejected["other"] == 1 && app.rejected["reason 3"] == 2)
        app.count(.returned)
        app.count(.unknown(reason: "lease"))
        #expect(app.claimed == 7 && app.returned == 1 && app.unknown == 1)
    }

    @Test("rows that dead senders left of unknown outcome are told, or that they are sent again")
    func reclaimed() {
        #expect(SendWords.warning([:]) == nil && SendWords.warning([.pending: 2]) == nil)
        #expect(
            SendWords.warning([.unknown: 1, .retry: 2])
                == "1 notification of senders that are gone are of unknown outcome: \(SendWords.meaning)"
        )
        #expect(
            SendWords.warning([.retry: 2])?.hasPrefix(
                "2 notifications of senders that are gone are of unknown outcome and are sent again"
            )
                == true)
    }

    @Test("an undo says what it took back, what it did not try, and that a dry run changed nothing")
    func undo() {
        var report = UndoReport(run: "r", dryRun: false, started: "t")
        #expect(report.lines == ["undo: there is nothing to take back"])
        report.exit = 75
        #expect(report.lines == ["undo: nothing was taken back"])
        report.resumed = true
        #expect(report.lines == ["undo: nothing more was taken back"])
        (report.entries, report.restored, report.already, report.runs) = (9, 2, 3, ["a", "b"])
        (report.rowsChanged, report.inserted, report.removed) = (4, 5, 6)
        #expect(
            report.lines == [
                "undo r, continued: 9 changes by 2 runs, 2 taken back, 3 back already",
                "  4 rows changed, 5 of them inserted again, 6 removed again",
            ])
        #expect(report.closingCounts == ClosingCounts(applied: 2))
        (report.dryRun, report.resumed, report.restored, report.untried) = (true, false, 0, 7)
        #expect(
            report.lines == [
                "undo r: 9 changes by 2 runs, 7 would be tried, 3 back already",
                "  4 rows would be changed, 5 of them inserted again, 6 removed again",
                "  7 not tried: nothing in the rows is against it, but whether the table takes them back "
                    + "shows only when it is done", "  no row was changed",
            ])
        report.untried = 0
        #expect(
            report.lines[0] == "undo r: 9 changes by 2 runs, 0 would be taken back, 3 back already")
        #expect(report.closingCounts == ClosingCounts())
    }

    @Test("a purge says what it dropped, or would drop")
    func purge() {
        var report = PurgeReport(dryRun: false, before: "t")
        (report.changes, report.batches, report.runs) = (1, 2, 3)
        let words = "1 change of the ledger, 2 batches and 3 run records from before t"
        #expect(report.lines == ["purge: dropped \(words)"])
        report.dryRun = true
        #expect(report.lines == ["purge: would drop \(words)"])
    }

    /// A list of a gateway in which each figure is another one.
    private static var feed: BatchReport {
        var feed = BatchReport(chat, source: "g:2196", end: .clean)
        (feed.bytes, feed.tuples, feed.applied, feed.already, feed.newer) = (380, 10, 11, 12, 13)
        (feed.unknown, feed.held, feed.quarantined, feed.refused) = (14, 15, 16, 17)
        (feed.spared, feed.quarantinedBytes, feed.detail) = (3, 5, "a detail")
        (feed.state, feed.batch, feed.resumed) = ("held", "f", true)
        (feed.cause, feed.firstLook) = ("too many", true)
        return feed
    }

    @Test("a sweep says of each list how it ended, what became of its tuples, and why it is held")
    func sweep() {
        var report = SweepReport(
            run: "r", kind: "sweep", dryRun: false, started: EpochMilliseconds(0))
        #expect(report.lines == ["sweep: no new evidence"] && report.hasReadNothing)
        report.problems = [RunProblem(stage: "read", message: "m")]
        #expect(report.lines == ["sweep: no evidence was applied"])
        report.apps = [Self.feed]
        #expect(
            report.lines == [
                "chat/sandbox from g:2196: clean, left by an earlier run, held",
                "  380 bytes, 10 tuples: 11 applied if a person released it, 12 already invalid, 10 "
                    + "registered again, 3 refused by a person, 14 unknown, 15 held, 16 quarantined, 17 refused",
                "  quarantined after the last whole tuple: 5 bytes", "  a detail",
                "  held: too many",
                "  look at it with: pushsweep holds show f",
                "  where it is right, apply it with the digest that show prints: pushsweep holds release "
                    + "DIGEST",
                "sweep: 10 tuples, 0 became invalid, 11 would be held, 10 kept because they registered "
                    + "again, 3 because a person undid or discarded them",
            ])
        #expect(report.closingCounts == ClosingCounts(applied: 11, held: 15))
        (report.waiting, report.apps[0].state, report.dryRun) = (4, "pending", true)
        #expect(report.closingCounts == ClosingCounts(pending: 14, held: 15))
        #expect(report.lines[4] == "  would be held: too many" && report.lines.count == 6)
        report.untried = true
        #expect(
            report.lines[5].hasSuffix(
                "; no row was changed, and it was not tried whether the table takes each change, and each "
                    + "removed row back"))
        report.apps = [BatchReport(Self.chat, source: "log", end: .clean)]
        #expect(report.lines.prefix(2) == ["chat/sandbox from log: clean", "  0 tuples"])
        report.apps[0].tuples = 1
        #expect(report.lines[0] == "chat/sandbox from log")
        #expect(
            report.lines[1].hasPrefix("  1 report: 0 would be applied, 0 already invalid, 0 reg"))
        #expect(report.lines[2].hasPrefix("sweep: 1 report, 0 would become invalid, 0 kept"))
    }

    @Test("rows whose grace period has ended are told as such, and apart from what became invalid")
    func grace() {
        var report = SweepReport(
            run: "r", kind: "sweep", dryRun: false, started: EpochMilliseconds(0))
        var feed = Self.feed
        (feed.grace, feed.cause, feed.state) = (true, nil, "applied")
        report.apps = [feed]
        #expect(
            report.lines == [
                "chat/sandbox, marked for long enough: applied",
                "  10 tokens: 11 removed, 13 left, 15 held, 17 refused",
                "sweep: 0 reports, 0 became invalid, 0 kept because they registered again, 11 gone after the "
                    + "grace period",
            ])
        report.apps[0].cause = "too many"
        #expect(
            report.lines[1].hasPrefix("  10 tokens: 11 removed if a person released it, 13 left"))
    }

    @Test("the counts of a list are its figures, both ways")
    func counts() {
        let feed = Self.feed
        var other = BatchReport(Self.chat, source: "g:2196", end: .clean)
        other.counts = feed.counts
        #expect([other.tuples, other.held, other.quarantined] == [10, 15, 16])
        #expect([other.applied, other.already, other.newer, other.unknown] == [11, 12, 13, 14])
        #expect(other.refused == 17 && other.counts == feed.counts && !feed.isApplied)
    }

    @Test("the last line has the code, the stage, the counts, what is next and why")
    func closing() {
        let counts = ClosingCounts(pending: 1, applied: 2, held: 3)
        #expect(
            "\(ClosingLine(.pending, stage: "apply", counts, why: .maxLag))"
                == "code=75 stage=apply pending=1 applied=2 held=3 next=rerun why=max-lag")
        #expect(
            "\(ClosingLine(.done, stage: "done", counts).reportLost)"
                == "code=73 stage=report pending=1 applied=2 held=3 next=disk")
        let worse = ClosingLine(.journal, stage: "state")
        #expect(worse.reportLost == worse)
    }
}

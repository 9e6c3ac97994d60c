import APNsProtocol
import Database
import Findings
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations
@testable import TokenTable

@Suite("Whole reports of a first look, an explanation and an audit")
struct WholeLookTests {
    /// A first look in which each figure is another one.
    private var first: InitReport {
        var report = InitReport()
        (report.database, report.tables) = ("sqlite:/db (3.40)", 2)
        report.unread = ["hidden", "odd.name"]
        report.unnameable = ["odd.name"]
        report.candidates = [
            .init(
                table: "t", column: "c", form: "hex", count: 9, filled: 10, reasons: ["a", "b"],
                doubts: ["d", "e"]),
            .init(
                table: "t", column: "x", form: "hex", count: 1, filled: 1, reasons: [], doubts: []),
        ]
        (report.choice, report.table) = ("c is taken", "t")
        var counts = InitReport.Counts()
        (counts.rows, counts.living, counts.dead, counts.otherPlatforms) = (28, 2, 3, 4)
        (counts.malformed, counts.empty, counts.duplicates) = (5, 6, 8)
        counts.registered = [
            NamedCount("under 1 day", 1), NamedCount("1 to 7 days", 0), NamedCount("unknown", 1),
        ]
        report.counts = counts
        (report.settings, report.next) = ("state: /s\n# ? topic: which\n", ["pushsweep check"])
        return report
    }

    @Test(
        "a first look prints what it saw, what it left out, the rows, the settings and what is next"
    )
    func firstLook() {
        var report = first
        let begin = [
            "2 tables of sqlite:/db (3.40); nothing is written there",
            "not looked at, for want of a right: hidden", InitReport.leftOut(["odd.name"]),
            "columns with values like Apple's tokens:",
            "  t.c: 9 of 10 values read are hex; for it: a, b; against it: d, e",
            "  t.x: 1 of 1 values read are hex", "c is taken", "",
        ]
        let end = [
            "1 question, marked with ? in the settings, for you to decide", "next:",
            "  pushsweep check",
        ]
        let count =
            "t now: 28 rows, 2 living, 3 dead, 4 of other platforms, 5 malformed, 6 empty, 8 with a token "
            + "that another row has"
        let ages = "  living, by registration: under 1 day 1, unknown 1"
        let settings = ["", "settings, for /etc/pushsweep/pushsweep.yaml:", ""]
        #expect(
            report.lines
                == begin + [count, ages] + settings + ["state: /s", "# ? topic: which", ""] + end)
        (report.audit, report.file, report.statements) = ("r.html", "s.yaml", ["ALTER TABLE t"])
        report.counts?.duplicates = nil
        report.counts?.registered = []
        #expect(
            Array(report.lines.dropFirst(begin.count)) == [
                count.replacing(
                    "8 with a token that another row has",
                    with: "those with the same token not counted"),
                "report on these rows: r.html", "",
                "before the settings below are right, as an administrator:", "  ALTER TABLE t;", "",
                "settings: written to s.yaml", "",
            ] + end)
        (report.counts, report.uncounted, report.settings) = (nil, "stopped", "")
        #expect(report.lines[begin.count] == "t was not counted: stopped")
        #expect(report.lines.suffix(3) == ["", "next:", "  pushsweep check"])
    }

    @Test("a first look without a table ends with its candidates, and long lists are cut")
    func noTable() {
        var report = InitReport()
        (report.database, report.tables) = ("db", 1)
        #expect(
            report.lines == [
                "1 table of db; nothing is written there",
                "no column has values like Apple's tokens",
            ])
        for (count, isCut) in [(20, false), (21, true)] {
            report.unread = (1...count).map { "t\($0)" }
            #expect(report.lines[1].hasSuffix("t20" + (isCut ? ", ..." : "")))
            report.unnameable = report.unread
            #expect(report.lines[1].hasSuffix("`t20`" + (isCut ? ", ..." : "")))
            report.unnameable = []
        }
        report.candidates = (1...11).map {
            .init(
                table: "t", column: "c\($0)", form: "hex", count: 1, filled: 1, reasons: [],
                doubts: [])
        }
        #expect(report.lines.last?.hasPrefix("  t.c10:") == true)
    }

    @Test(
        "an explanation prints the user, the events with their times, the present, gaps and notes")
    func explanation() {
        var report = ExplainReport()
        report.user = "ada"
        #expect(report.lines == ["no row of the token table has a token of user ada"])
        var token = ExplainedToken(token: "c9d4…", bytes: 1)
        var event = ExplainedEvent(
            .mark, of: Partition(app: "chat", environment: "sandbox"), at: EpochMilliseconds(1_000))
        event.text = "marked"
        var undated = ExplainedEvent(.notification, of: .noApp, at: nil)
        undated.text = "sent"
        #expect(event.app == "chat" && event.environment == "sandbox" && undated.app == nil)
        (token.events, token.now, token.next) = ([event, undated], "stale", "nothing")
        (report.tokens, report.gaps, report.notes) = ([token], ["a table"], ["an index"])
        #expect(
            report.lines == [
                "user ada: 1 token", "token c9d4…, 1 byte",
                "  1970-01-01T00:00:01.000Z  mark          marked",
                "  (time unknown)            notification  sent", "  now: stale",
                "  next sweep: nothing", "not read: a table", "note: an index",
            ])
    }

    /// A group of rows whose columns say so.
    private func group(
        _ form: RowGroup.Form, _ count: Int, registration: AgeRange? = .underAWeek,
        mark: AgeRange = .unknown, isLater: Bool = false, reason: String? = nil,
        isUpper: Bool? = nil
    ) -> RowGroup {
        RowGroup(
            app: .null, environment: .null, form: form, registration: registration,
            isUnreadable: false, mark: mark, isLater: isLater, isDead: nil, isUpper: isUpper,
            storedReason: reason, count: count)
    }

    @Test("the rows of an app are in one class each, by age, reason and form beside it")
    func tally() {
        var tally = RowTally()
        for group in [
            group(.empty, 1), group(.malformed, 2), group(.truncated, 4),
            group(.token(bytes: 32), 8), group(.token(bytes: 32), 16, registration: .future),
            group(.token(bytes: 32), 32, registration: .unknown, isUpper: true),
            group(.token(bytes: 32), 64, mark: .under30Days, reason: "Unregistered"),
            group(.token(bytes: 100), 128, mark: .underADay),
            group(.token(bytes: 32), 256, mark: .underADay, isLater: true, reason: "old"),
            group(.token(bytes: 32), 512, registration: .over2Years, isUpper: false),
        ] { tally.add(group) }
        var app = AuditedApp(app: "chat", environment: "production")
        app.enter(tally)
        let tokens = app.tokens
        #expect(
            [tokens.rows, tokens.living, tokens.revived, tokens.stale] == [1_023, 824, 256, 192])
        #expect([tokens.empty, tokens.malformed, tokens.truncated] == [1, 6, 4])
        #expect([tokens.neverRegistered, tokens.fromTheFuture] == [32, 16])
        #expect(
            tokens.forms == [
                NamedCount("32 bytes", 856), NamedCount("100 bytes", 128),
                NamedCount("32 bytes, upper-case hex", 32),
            ])
        #expect(
            app.staleAges.map(\.name) == [
                "under 1 day", "1 to 7 days", "7 to 30 days", "30 to 90 days", "90 days to 1 year",
                "1 to 2 years", "over 2 years",
            ])
        #expect(app.staleAges.map(\.count) == [128, 0, 64, 0, 0, 0, 0])
        #expect(app.registrationAges.map(\.count) == [0, 264, 0, 0, 0, 0, 512, 16, 32])
        #expect(app.registrationAges.map(\.name).suffix(2) == ["in the future", "unknown"])
        #expect(
            app.staleReasons == [NamedCount("no reason", 128), NamedCount("Unregistered", 64)])
        var twice = tally
        twice.add(tally)
        app.enter(twice)
        #expect(app.tokens.rows == 2_046 && app.tokens.neverRegistered == 64)
        #expect(app.tokens.fromTheFuture == 32 && app.staleReasons[1].count == 128)
        #expect(app.tokens.forms[2].count == 64 && app.registrationAges[1].count == 528)
        #expect(app.staleAges[2].count == 128)
    }

    @Test("a report's headline counts grave findings that nobody ignores, and else the tokens")
    func headline() {
        var report = AuditReport()
        for (app, living, stale) in [("chat", 3, 1), ("desk", 4, 1)] {
            var app = AuditedApp(app: app, environment: "production")
            (app.tokens.living, app.tokens.stale) = (living, stale)
            report.apps.append(app)
        }
        func high(_ object: String) -> Finding { Finding(.high, object, "it failed", rule: "x") }
        var ignored = high("c")
        ignored.ignored = .init(reason: "r", until: "2026-12-31")
        report.enter([ignored, Finding(.medium, "d", "it is odd")], hoursSinceSweep: nil)
        #expect(report.healthy && report.headline == "Healthy: 7 living tokens, 2 stale")
        report.enter([], hoursSinceSweep: 2.9)
        #expect(report.headline.hasSuffix("2 stale, last good sweep 2 hours ago"))
        report.enter([Finding(.low, "d", "it is odd"), high("a"), ignored], hoursSinceSweep: 1)
        #expect(!report.healthy && report.headline == "Not healthy: a: it failed")
        #expect(report.findings.map(\.object) == ["a", "c", "d"])
        report.enter([high("a"), high("b")], hoursSinceSweep: 1)
        #expect(report.headline == "Not healthy: a: it failed, and 1 more grave finding")
        report.enter([high("a"), high("b"), high("e")], hoursSinceSweep: 1)
        #expect(report.headline.hasSuffix(", and 2 more grave findings"))
    }

    @Test("a baseline compares each figure that a report has of an app")
    func figures() {
        var before = AuditReport()
        before.apps = [AuditedApp(app: "chat", environment: "production")]
        var after = before
        after.apps[0].tokens = AuditedTokens(
            rows: 1, living: 2, stale: 3, revived: 4, neverRegistered: 5, fromTheFuture: 99,
            empty: 6,
            malformed: 7)
        after.apps[0].forecast.waiting = 8
        after.apps[0].queue = AuditedQueue(open: 9, toStale: 10)
        let changes = after.changes(since: before)
        #expect(changes.map(\.after) == Array(1...10) && changes.allSatisfy { $0.before == 0 })
        #expect(
            changes.map(\.figure) == [
                "rows", "living", "stale", "revived", "never registered", "empty", "malformed",
                "waiting", "queued", "queued to stale tokens",
            ])
    }
}

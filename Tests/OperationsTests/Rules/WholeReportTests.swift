import APNsProtocol
import Encodings
import Findings
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("Whole reports, line by line")
struct WholeReportTests {
    private func finding(_ severity: Severity, _ rule: String, _ object: String) -> Finding {
        Finding(severity, object, "\(rule) was found", cure: "cure \(rule)", rule: rule)
    }

    /// A look before a send in which each figure is another one.
    private var preflight: PreflightReport {
        var report = PreflightReport(
            app: "chat", environment: "sandbox", subject: "tokens", readOnly: true,
            started: "2026-11-20T12:00:00.000Z", failOn: "medium")
        var tokens = TokenCounts()
        (tokens.read, tokens.living, tokens.stale, tokens.unknown) = (99, 50, 2, 3)
        (tokens.otherEnvironment, tokens.malformed) = (4, 5)
        (tokens.duplicate, tokens.suspect) = (6, 7)
        report.tokens = tokens
        report.applied = .init(run: "r", batches: 1, applied: 2)
        (report.lastSweep, report.hoursSinceSweep) = ("2026-11-20T11:00:00.000Z", 1.25)
        (report.clockDifference, report.certificateExpires) = (-7, "2027-01-01T00:00:00.000Z")
        report.probe = .init(
            status: 400, reason: "BadDeviceToken", proves: ["credential", "topic"])
        report.findings = [
            finding(.medium, "unknown-tokens", "chat/sandbox"),
            finding(.high, "stop-file", "stop"), finding(.note, "no-tokens", "chat/sandbox"),
            finding(.high, "open-hold", "chat/sandbox"),
        ]
        report.findings[3].ignored = .init(reason: "known", until: "2026-12-31")
        (report.gate, report.exit, report.ended) = ("shut", 2, "2026-11-20T12:00:01.000Z")
        return report
    }

    @Test("a look before a send prints its gate, its findings and every fact in a line")
    func preflightLines() {
        #expect(
            preflight.lines == [
                "chat/sandbox: the gate is shut (1 high, 1 medium, 0 low, 1 note, 1 ignored): stop-file: "
                    + "stop: stop-file was found",
                "  medium: unknown-tokens: chat/sandbox: unknown-tokens was found",
                "    cure unknown-tokens",
                "  high: stop-file: stop: stop-file was found", "    cure stop-file",
                "  note: no-tokens: chat/sandbox: no-tokens was found", "    cure no-tokens",
                "  high: open-hold: chat/sandbox: open-hold was found",
                "    ignored until 2026-12-31: known",
                "  tokens of the list: 99 read, 50 living, 2 stale, 3 unknown, 4 of the other "
                    + "environment, 5 malformed, 6 duplicate, 7 called bad",
                "  applied before: 1 batch, 2 tokens became invalid",
                "  last good sweep: 2026-11-20T11:00:00.000Z",
                "  certificate ends: 2027-01-01T00:00:00.000Z",
                "  clock of the database ahead by: -7 ms",
                "  probe: 400 BadDeviceToken, proves credential and topic",
                "1 high, 1 medium, 1 note: the first is stop: stop-file was found",
            ])
    }

    @Test("a look before a send that knows little prints no line for what it does not know")
    func little() {
        var report = PreflightReport(
            app: "chat", environment: "production", subject: "queue", readOnly: false,
            started: "2026-11-20T12:00:00.000Z", failOn: "never")
        #expect(
            report.lines == [
                "chat/production: the gate is open (0 high, 0 medium, 0 low, 0 note)"
            ])
        report.tokens = TokenCounts()
        report.probe = .init(status: nil, reason: "no answer", proves: [])
        #expect(
            report.lines.dropFirst() == [
                "  tokens of the queue: 0 read, 0 living", "  probe: no answer, proves nothing",
            ])
    }

    @Test("the gate is shut by what is at least as grave as --fail-on, and not by what is ignored")
    func shutting() {
        var report = preflight
        #expect(report.shutting.map(\.rule) == ["unknown-tokens", "stop-file"])
        report.findings[1].ignored = report.findings[3].ignored
        #expect(report.shutting.map(\.rule) == ["unknown-tokens"])
        #expect(
            report.headline.hasSuffix(
                "2 ignored): unknown-tokens: chat/sandbox: unknown-tokens was found"))
        report.findings = [finding(.low, "a", "b"), finding(.note, "c", "d")]
        #expect(report.shutting.isEmpty)
    }

    @Test("a look before a send as Markdown has its findings in a table and its facts in another")
    func markdown() {
        let lines = preflight.markdown.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 18)
        #expect(lines[0].hasPrefix("### chat/sandbox: the gate is shut (1 high, 1 medium"))
        #expect(lines[2] == "| severity | rule | object | finding | what to do |")
        #expect(
            lines[4]
                == "| medium | unknown-tokens | chat/sandbox | unknown-tokens was found | cure unknown-tokens |"
        )
        #expect(
            lines[7]
                == "| high, ignored | open-hold | chat/sandbox | open-hold was found | ignored until "
                + "2026-12-31: known |")
        #expect(lines[8].isEmpty && lines[9] == "| looked at | |" && lines[10] == "| --- | --- |")
        #expect(lines[16] == "| probe | 400 BadDeviceToken, proves credential and topic |")
        #expect(lines[17] == "| from | 2026-11-20T12:00:00.000Z |")
    }

    /// A check in which each part has something.
    private var check: CheckReport {
        var report = CheckReport()
        report.settings = [
            .init(key: "state", value: "/s", origin: "default"),
            .init(key: "store.url", value: "(set)", origin: "file, line 2"),
        ]
        report.certificates = [
            .init(
                app: "chat", environment: "sandbox", file: "/c.pem", subject: "CN=a",
                issuer: "CN=b",
                expires: "2027-01-01T00:00:00.000Z", fingerprint: "ff")
        ]
        (report.grants, report.lacking) = (["GRANT a", "GRANT b"], ["GRANT b"])
        report.well("state", "all is well")
        report.note("no-index", "database", "an index is missing")
        report.fail("missing-file", "settings", .configuration, "a file is missing")
        report.fail("missing-file", "settings", .configuration, "a file is missing")
        report.enter(report.findings)
        report.noteWaiting(isHeld: true)
        report.noteWaiting(isHeld: false)
        report.noteWaiting(isHeld: false)
        return report
    }

    @Test(
        "a check prints its findings, the grants that lack, certificates and, when asked, settings")
    func checkLines() {
        var report = check
        let lines = [
            "findings, each explained by pushsweep help NAME:",
            "  failure: settings: a file is missing [missing-file]",
            "  warning: database: an index is missing [no-index]", "  ok: state: all is well",
            "grants the account lacks (pushsweep check --grants prints all, also those that only a rare "
                + "step needs):", "  GRANT b;", "certificates:",
            "  chat/sandbox: CN=a, valid to 2027-01-01T00:00:00.000Z, issued by CN=b",
            "1 failure, 1 warning: the first is settings: a file is missing",
        ]
        #expect(report.lines == lines)
        report.showsSettings = true
        #expect(
            report.lines
                == lines.dropLast() + [
                    "settings:", "  state      /s  (default)", "  store.url  (set)  (file, line 2)",
                    lines[8],
                ])
        #expect(report.failures == ["a file is missing"] && report.exit == 78)
        report.note("missing-right", "database", "a right is missing")
        #expect(report.lines.contains("grants the account needs; a part of them it lacks:"))
        #expect(report.lines.contains("  GRANT a;"))
        report.named = ["a right is missing"]
        #expect(!report.lines.contains("  GRANT a;"))
    }

    @Test("a check as a document has each part under its key, and what waits by whether it is held")
    func checkDocument() throws {
        let value = try #require(JSONValue(document: Array(JSONLine.bytes(check))))
        #expect(
            value.keys.sorted() == [
                "certificates", "exit", "findings", "grants", "held", "lacking", "pending",
                "settings",
            ])
        #expect(value[["pending"]] == .integer(2) && value[["held"]] == .integer(1))
        #expect(value[["exit"]] == .integer(78) && value[["lacking"]] == .list([.text("GRANT b")]))
        #expect(
            value[["settings"]]?.jsonLine
                == #"[{"key":"state","origin":"default","value":"/s"},{"key":"store.url","origin":"file, line 2","value":"(set)"}]"#
        )
        #expect(
            value[["certificates"]]?.jsonLine
                == #"[{"app":"chat","environment":"sandbox","expires":"2027-01-01T00:00:00.000Z","file":"/c.pem","fingerprint":"ff","issuer":"CN=b","subject":"CN=a"}]"#
        )
        #expect(
            value[["findings"]]?.jsonLine
                == #"[{"area":"settings","exit":78,"message":"a file is missing","rule":"missing-file","severity":"failure"},"#
                + #"{"area":"database","exit":0,"message":"an index is missing","rule":"no-index","severity":"warning"},"#
                + #"{"area":"state","exit":0,"message":"all is well","severity":"ok"}]"#)
    }

    @Test(
        "a finding stands under the area of its object, or of its rule",
        arguments: [
            ("provider", "no-index", "provider"), ("x", "missing-file", "settings"),
            ("x", "ignore-unused", "settings"), ("x", "certificate-ends", "certificate"),
            ("x", "credential-unusable", "certificate"), ("x", "feedback-address", "feedback"),
            ("x", "provider-unreachable", "provider"), ("x", "no-index", "database"),
            ("x", "of-no-book", "database"), ("binary", "no-index", "binary"),
        ])
    func areas(object: String, rule: String, area: String) {
        let finding = finding(.low, rule, object)
        #expect(finding.areaOfCheck == area)
        let words = "\(rule) was found; cure \(rule)"
        #expect(finding.messageOfCheck == (object == "x" ? "x: " : "") + words)
    }
}

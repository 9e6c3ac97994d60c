import Database
import Findings
import Foundation
import TestSupport
import Testing

@testable import Looks
@testable import Operations

/// Lines of reports, and ones that nobody would expect.
private let lines = [
    "", " ", "findings:", "a", String(repeating: "x", count: 300),
    "  warning: database: active_users has no rows; unless no device has registered yet, correct "
        + "store.active-users.table or the database in store.url",
    "  failure: database: the account lacks 2; run GRANT SELECT ON `push`.`a` TO `u`@`%`; GRANT UPDATE "
        + "(`b`) ON `push`.`a` TO `u`@`%`",
    "  GRANT SELECT, INSERT, UPDATE ON `push`.`pushsweep_change` TO `pushsweep`@`%`;",
    "to apply exactly this:  pushsweep holds release \(String(repeating: "ab", count: 32))",
    "make it with `pushsweep schema apply --create-token-table`, or correct store.url",
    "  look at it with: pushsweep holds list; then release or discard it",
    "  2026-11-22T10:00:00.123Z  registered    row 17 registered at 2026-11-22T10:00:00.123Z",
    "run it as that user: su -s /bin/sh nobody -c 'pushsweep import a,  b; c --from rpush'; then look",
    "or as root run: chown -R push '/a b' && chmod 700 '/a b', which gives it to push",
    "text stands before it; cut it off with: sed 's/^[^{]*//' FILE | pushsweep import -",
    "run: pushsweep holds list, then it's yours and the table's again",
    "  推送通知 推送通知 推送通知 推送通知 e\u{301}e\u{301} \u{1F600} \u{1F600}",
    "  " + String(repeating: " ", count: 90) + "far to the right",
    "`open and never closed pushsweep",
]

@Suite("Lines at a terminal")
struct TerminalStyleTests {
    private func rows(
        _ line: String, _ columns: Int?, _ form: PrintedForm = .words, coloured: Bool = false
    ) -> [String] {
        TerminalStyle(columns: columns, isColoured: coloured).rows(line, form)
    }

    /// The words of a line without its gaps.
    private func words(_ text: some Sequence<String>) -> [Substring] {
        text.flatMap { $0.split(separator: " ") }
    }

    @Test("at any width no word is lost or broken, and only one that is longer passes the edge")
    func whole() {
        for line in lines {
            for columns in 1...130 {
                for form in [PrintedForm.exact, .prose] {
                    let rows = rows(line, columns, form)
                    #expect(words(rows) == words([line]), "\(columns): \(rows)")
                    for row in rows where row.columns > columns {
                        let piece = WrappedLine(row).pieces
                        #expect(piece.count == 1, "\(columns): \(rows)")
                    }
                }
            }
        }
    }

    @Test(
        "commands and statements are never broken, however narrow the terminal",
        arguments: [
            "pushsweep holds release \(String(repeating: "ab", count: 32))",
            "GRANT UPDATE (`b`) ON `push`.`a` TO `u`@`%`",
            "GRANT SELECT, INSERT, UPDATE ON `push`.`pushsweep_change` TO `pushsweep`@`%`;",
            "`pushsweep schema apply --create-token-table`,", "pushsweep holds list;",
            "su -s /bin/sh nobody -c 'pushsweep import a,  b; c --from rpush';",
            "chown -R push '/a b' && chmod 700 '/a b',", "pushsweep holds list,",
            "sed 's/^[^{]*//' FILE | pushsweep import -",
        ])
    func copied(_ text: String) {
        for columns in [20, 40, 80] {
            let shown = lines.flatMap { rows($0, columns) }
            #expect(shown.contains { $0.contains(text) }, "\(columns)")
        }
    }

    @Test("what is for copying stays as it is, and so does everything where there is no terminal")
    func untouched() {
        for line in lines {
            #expect(rows(line, 20, .copied, coloured: true) == [line])
            for form in [PrintedForm.words, .exact, .prose] {
                #expect(rows(line, nil, form) == [line])
            }
        }
    }

    @Test(
        "rows go on below the text of the first, and a second column stays one while it has room",
        arguments: [
            (
                "  ok: settings: read from a file", 20,
                ["  ok: settings: read", "    from a file"]
            ),
            (
                "  pushsweep check  examines settings and rows", 40,
                ["  pushsweep check  examines settings and", "                   rows"]
            ),
            (
                "  pushsweep check  examines settings", 30,
                ["  pushsweep check", "    examines settings"]
            ),
            (
                "                 The settings file; else another one", 40,
                ["                 The settings file; else", "                 another one"]
            ),
            (
                "                 The settings file", 20,
                ["    The settings", "    file"]
            ),
        ])
    func hanging(_ line: String, _ columns: Int, _ expected: [String]) {
        #expect(rows(line, columns) == expected)
    }

    @Test(
        "a terminal shows times to the minute and sizes in MB, in words and not in what is copied",
        arguments: [
            (
                "valid to 2026-11-22T10:05:59.999Z, issued by x",
                "valid to 2026-11-22 10:05 UTC, issued by x"
            ),
            ("1234567 bytes, 1 tuple: 1 applied", "1.2 MB, 1 tuple: 1 applied"),
            ("99999 bytes", "99999 bytes"), ("100000 bytes", "0.1 MB"),
            ("1073741824 bytes.", "1073.7 MB."),
            (
                "run: pushsweep undo --since 2026-11-22T10:05:59Z",
                "run: pushsweep undo --since 2026-11-22T10:05:59Z"
            ),
            (
                "`UPDATE a SET b = '2026-11-22T10:05:59Z'`",
                "`UPDATE a SET b = '2026-11-22T10:05:59Z'`"
            ),
            ("bytes", "bytes"), ("2026-11-22", "2026-11-22"),
        ])
    func rounded(_ line: String, _ expected: String) {
        #expect(rows(line, 200) == [expected])
        #expect(rows(line, 200, .exact) == [line])
        #expect(rows(line, nil) == [line])
    }

    @Test(
        "the word of a severity has its colour, and nothing else has one",
        arguments: [
            ("  failure: database: x", "failure", Severity.high),
            ("  warning: database: x", "warning", .medium), ("  ok: x", "ok", .ok),
            ("  high: stale-tokens: x", "high", .high), ("  low: x", "low", .low),
            ("  note: x", "note", .note), ("2 failures, 1 warning: x", "2 failures", .high),
            ("1 warning: x", "1 warning", .medium),
            ("pushsweep: error: x", "error", .high), ("Not healthy: x", "Not healthy", .high),
        ])
    func coloured(_ line: String, _ word: String, _ severity: Severity) {
        let code = TerminalStyle.colour(of: severity)
        let shown = line.replacing(word, with: "\u{1B}[1;38;5;\(code)m\(word)\u{1B}[0m")
        #expect(rows(line, nil, coloured: true) == [shown])
        #expect(rows(line, nil) == [line])
    }

    @Test("other lines have no colour")
    func plain() {
        for line in lines + [
            "failure", "2 tuples: x", "warningly: x", "chat/production: ok: x", ":",
        ]
        where !line.contains("failure:") && !line.contains("warning:") {
            #expect(!rows(line, 80, coloured: true).joined().contains("\u{1B}"), "\(line)")
        }
    }

    @Test("each colour reads on black and on white", arguments: Severity.allCases)
    func contrast(_ severity: Severity) {
        let index = TerminalStyle.colour(of: severity)
        // The cube of 6 by 6 by 6 colours, and the greys behind it, as xterm defines them.
        let steps = [0, 95, 135, 175, 215, 255]
        let cube = index - 16
        let parts =
            index >= 232
            ? Array(repeating: 8 + (index - 232) * 10, count: 3)
            : [cube / 36, cube / 6 % 6, cube % 6].map { steps[$0] }
        // Relative luminance and contrast by WCAG 2.2.
        let linear = parts.map { part in
            let share = Double(part) / 255
            return share <= 0.04045 ? share / 12.92 : pow((share + 0.055) / 1.055, 2.4)
        }
        let luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        #expect((luminance + 0.05) / 0.05 > 3.7 && 1.05 / (luminance + 0.05) > 3.7)
    }

    @Test(
        "colours come at a terminal that can show them, unless NO_COLOR or --color says otherwise",
        arguments: [
            (ColourChoice.auto, true, nil, "xterm", true), (.auto, false, nil, "xterm", false),
            (.auto, true, "1", "xterm", false), (.auto, true, "", "xterm", true),
            (.auto, true, nil, "dumb", false), (.auto, true, nil, nil, false),
            (.always, false, "1", nil, true), (.never, true, nil, "xterm", false),
        ] as [(ColourChoice, Bool, String?, String?, Bool)])
    func choice(
        _ choice: ColourChoice, _ isTerminal: Bool, _ noColor: String?, _ term: String?, _ has: Bool
    ) {
        #expect(choice.allows(isTerminal: isTerminal, noColor: noColor, term: term) == has)
    }
}

@Suite("The order of findings")
struct FindingOrderTests {
    private func finding(_ severity: Severity, _ object: String, exit: Int32 = 0) -> Finding {
        var finding = Finding(severity, object, "doing: it failed; do this next")
        finding.exit = exit
        return finding
    }

    @Test("the worst comes first, then the exit code that asks for more, then the one found first")
    func order() {
        let found = [
            finding(.ok, "a"), finding(.high, "b", exit: 69), finding(.medium, "c"),
            finding(.high, "d", exit: 77), finding(.high, "e", exit: 77), finding(.ok, "f"),
        ]
        #expect(found.worstFirst.map(\.object) == ["d", "e", "b", "c", "a", "f"])
        let line = found.closing(
            { $0 == .ok ? nil : $0.wordOfCheck }, spelled: { $0.counting($1) })
        #expect(line == "3 failures, 1 warning: the first is d: doing: it failed")
    }

    @Test("a single finding is named, and none makes no line")
    func few() {
        func closing(_ findings: Finding...) -> String? {
            findings.closing({ $0 == .ok ? nil : $0.rawValue }, spelled: { "\($0) \($1)" })
        }
        #expect(closing(finding(.low, "a"), finding(.ok, "b")) == "1 low: a: doing: it failed")
        #expect(closing(finding(.ok, "b")) == nil && closing() == nil)
    }

    @Test(
        "a run that is refused for several findings tells all of them, and counts them at the end")
    func refusal() throws {
        let findings: [Finding] = [
            .ok("all is well"), .failure(.configuration, "looking: no column; name it"),
            .warning("no-rows", "odd"),
            .failure(.permission, "reading: no right; grant it", hint: ": see"),
        ]
        let failure = RunFailure.wrapping(try #require(findings.refusal), at: .store)
        #expect(failure.exit == .configuration)
        #expect(
            failure.sentences == [
                "looking: no column; name it", "reading: no right; grant it: see",
            ])
        #expect([failure].closing == "2 failures: the first is looking: no column")
        let other = RunFailure(.journal, .state, "writing: no room; make some")
        #expect([failure, other].gravestFirst.first == other)
        #expect([other].closing == nil)
        #expect([Finding.ok("all is well")].refusal == nil)
    }

    @Test("what a failure lists is printed, and is no failure of its own")
    func details() {
        let failure = RunFailure(
            .usage, .state, "looking: 2 are open, name one:", listing: ["  a", "  b"])
        #expect("\(failure)" == "looking: 2 are open, name one:\n  a\n  b")
        #expect([failure].closing == nil)
        let others = (0..<40).map { RunFailure(.usage, .settings, "reading \($0)") }
        #expect((others + [failure]).closing == "41 failures: the first is reading 0")
        #expect(others.gravestFirst == others)
    }
}

import APNsProtocol
import Database
import Findings
import Foundation
import Settings
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("Findings that a person decided to live with")
struct IgnoreListTests {
    private static let rules = RuleBook.ignorable

    private func list(_ text: String) throws -> IgnoreList {
        try IgnoreList(text: text, name: "ignore.yaml", rules: Self.rules)
    }

    private let stale = Finding(
        .high, "chat/production", "10 of 20 tokens are stale", cure: "leave them out",
        rule: "stale-tokens")

    /// The findings at noon of a day of November 2026.
    private func applied(_ text: String, day: Int = 20) throws -> [Finding] {
        let noon = CivilNoon.november2026(day)
        return try list(text).applied(to: [stale], of: .preflight, at: noon)
    }

    @Test("an entry with rule, object, reason and day has its effect to the end of the day")
    func effect() throws {
        let entry = """
            - rule: stale-tokens
              object: chat/*
              reason: The list is cleaned tomorrow.
              until: 2026-11-20
            """
        let found = try applied(entry)
        #expect(found.count == 1)
        #expect(
            found[0].ignored == .init(reason: "The list is cleaned tomorrow.", until: "2026-11-20"))
        let late = try applied(entry, day: 21)
        #expect(late[0].ignored == nil)
        #expect(late[1].rule == "ignore-past-date" && late[1].severity == .medium)
        #expect(late[1].object == "ignore.yaml:1")
    }

    @Test("an entry without a reason or a day has no effect and is a finding")
    func incomplete() throws {
        let silent = try applied("- {rule: stale-tokens, reason: ' ', until: 2026-12-31}")
        #expect(silent.map(\.rule) == ["stale-tokens", "ignore-without-reason"])
        #expect(silent[0].ignored == nil)
        let endless = try applied("- {rule: stale-tokens, reason: because}")
        #expect(endless.map(\.rule) == ["stale-tokens", "ignore-without-date"])
        #expect(endless[0].ignored == nil)
    }

    @Test("an entry that matches nothing is a note")
    func unused() throws {
        for entry in [
            "- {rule: open-hold, reason: a, until: 2026-12-31}",
            "- {rule: stale-tokens, object: other/*, reason: a, until: 2026-12-31}",
        ] {
            let found = try applied(entry)
            #expect(found.map(\.rule) == ["stale-tokens", "ignore-unused"])
            #expect(found[0].ignored == nil)
            #expect(found[1].severity == .note)
        }
    }

    @Test("an empty file ignores nothing", arguments: ["", "# none yet\n", "[]"])
    func empty(_ text: String) throws {
        #expect(try list(text).entries.isEmpty)
    }

    @Test(
        "a mistake refuses the file and names its line",
        arguments: [
            ("- {rule: stale-token, reason: a, until: 2026-12-31}", "did you mean stale-tokens?"),
            ("- {rule: ignore-past-date, reason: a, until: 2026-12-31}", "name of a rule"),
            ("- {rules: stale-tokens}", "no other keys"),
            ("- {rule: stale-tokens, reason: a, until: 2026-02-30}", "must be a day"),
            ("- {rule: stale-tokens, reason: a, until: tomorrow}", "must be a day"),
            ("- {rule: stale-tokens, reason: [a], until: 2026-12-31}", "each with one text"),
            ("- stale-tokens", "keys with values"), ("rule: stale-tokens", "must be a list"),
            ("- {rule: stale-tokens", "not valid YAML"),
        ])
    func mistakes(_ text: String, _ words: String) throws {
        let failure = try #require(throws: SettingsFailure.self) { try list(text) }
        #expect(failure.description.contains(words), "\(failure)")
        #expect(failure.description.hasPrefix("ignore.yaml"))
    }

    @Test("the gate stays open for what is ignored, and shuts when the day is over")
    func gate() throws {
        let stage = try PreflightStage()
        try stage.registerElsewhere(300..<310)
        let text = "- {rule: other-environment-tokens, reason: a test, until: 2099-12-31}\n"
        let lines = spelled([1]) + spelled(300..<310)
        let report = try stage.look(lines: lines) { $0.ignore = try! list(text) }
        #expect(report.severity("other-environment-tokens") == .high)
        #expect(report.gate == "open" && report.exit == 0)
        let past = text.replacing("2099", with: "2020")
        let shut = try stage.look(lines: lines) { $0.ignore = try! list(past) }
        #expect(shut.severity("ignore-past-date") == .medium)
        #expect(shut.exit == 2)
    }

    @Test("--fail-on decides which severity shuts the gate")
    func failOn() throws {
        let stage = try PreflightStage()
        try stage.recordSweep(hoursAgo: 1)
        // The only finding is a note about one unknown token.
        let lines = spelled(0..<100) + spelled([900])
        for (severity, exit) in [
            (Severity.high, 0), (.medium, 0), (.low, 0), (.note, 2), (nil, 0),
        ] as [(Severity?, Int32)] {
            let report = try stage.look(lines: lines) { $0.failOn = severity }
            #expect(report.exit == exit, "\(report.failOn)")
        }
    }
}

private enum CivilNoon {
    /// 2026-11-01T12:00:00Z is second 1793534400.
    static func november2026(_ day: Int) -> EpochMilliseconds {
        EpochMilliseconds((1_793_534_400 + Int64(day - 1) * 86_400) * 1_000)
    }
}

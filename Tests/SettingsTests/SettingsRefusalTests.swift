import Testing

@testable import Settings

@Suite("Refusing settings")
struct SettingsRefusalTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    @Test(
        "a mistake in the file is reported with line, column and remedy",
        arguments: [
            (
                "polcy: {action: mark}",
                "s.yaml:1:1: unknown key 'polcy'; nearest known key: policy"
            ),
            (
                "policy:\n  acton: mark",
                "s.yaml:2:3: unknown key 'acton' in policy; nearest known key: action"
            ),
            (
                "policy:\n  verbose: 1",
                "s.yaml:2:3: unknown key 'verbose' in policy; known keys: action, clock-skew, "
                    + "delete-after, delete-without-registration-time, keep-ledger"
            ),
            (
                "store:\n  password: hunter2",
                "s.yaml:2:3: unknown key 'password' in store; a secret does not belong in this "
                    + "file, name the file that holds it with password-file or passphrase-file"
            ),
            (
                "policy: {action: remove}",
                "s.yaml:1:18: policy.action must be mark or delete, found 'remove'"
            ),
            (
                "policy: {delete-without-registration-time: yes}",
                "s.yaml:1:44: policy.delete-without-registration-time must be true or false, "
                    + "found 'yes'"
            ),
            (
                "policy: {clock-skew: 2}",
                "s.yaml:1:22: policy.clock-skew must be a time from 0s to 1h with its unit, such "
                    + "as 500ms, 30s or 5m, found '2'"
            ),
            (
                "guard: {floor: -1}",
                "s.yaml:1:16: guard.floor must be a whole number from 0 to 1000000000, found '-1'"
            ),
            (
                "guard: {day-percent: nan}",
                "s.yaml:1:22: guard.day-percent must be a number above 0 and at most 100, such "
                    + "as 2.5, found 'nan'"
            ),
            (
                "policy: mark",
                "s.yaml:1:9: policy must be keys with values, found the text 'mark'"
            ),
            ("- a", "s.yaml:1:1: the settings must be keys with values, found a list"),
            (
                "apps: {name: chat}",
                "s.yaml:1:7: apps must be a list, each item after a -, found keys with values"
            ),
            (
                "state: [a, b]",
                "s.yaml:1:8: state must be one value, path, found a list"
            ),
            ("state:", "s.yaml:1:7: state has no value; give one or remove the key"),
            ("state: ''", "s.yaml:1:8: state is empty"),
            (
                "state: ~/push",
                "s.yaml:1:8: state must be a whole path: ~ means something to a shell only"
            ),
            (
                "state: \"a\\0b\"",
                "s.yaml:1:8: state has an unprintable character in 'a\\0b'"
            ),
            ("state: !!int 5", "s.yaml:1:8: state has a YAML tag; write the value alone"),
            ("state: a\nstate: b", "s.yaml:2:1: key 'state' given twice; keep one"),
            ("!x state: a\nstate: b", "s.yaml:2:1: key 'state' given twice; keep one"),
            ("state: a\n---\nstate: b", "s.yaml:2:1: a second document begins here; keep one"),
            ("state: *x", "s.yaml:1:8: no anchor 'x' stands before this alias"),
            (
                "state: é\u{1}", "s.yaml:1:9: not valid YAML: a character that YAML does not allow"
            ),
            (
                "state: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                "s.yaml:1:39: lists and keys in more than 32 others; write them flatter"
            ),
            (
                "store: {active-users: {table: a.b.c}}",
                "s.yaml:1:31: store.active-users.table must be a table or a database and a table, "
                    + "found 'a.b.c'"
            ),
            (
                "store: {active-users: {key: [id, ' id ']}}",
                "s.yaml:1:29: store.active-users.key names a column twice, found 'id'"
            ),
            (
                "throttle: {replicas: ['mysql://u@a,b/push']}",
                "s.yaml:1:22: throttle.replicas must name each server by an address of its own"
            ),
            (
                "throttle: {replicas: [[a]]}",
                "s.yaml:1:22: throttle.replicas must be a list of texts"
            ),
            (
                "store:\n\turl: x",
                "s.yaml:2:1: a tab where YAML wants spaces; indent with spaces"
            ),
            (
                "state: [a",
                "s.yaml:2:1: not valid YAML: did not find expected ',' or ']'"
            ),
            (
                "apps:\n  - {name: a, topic: t}",
                "s.yaml:2:5: apps[a].environment is missing; give it a value"
            ),
            (
                "apps:\n  - {name: a, topic: t, environment: sandbox, feedback: {port: 1}}",
                "s.yaml:2:57: apps[a].feedback.host is missing; give it a value"
            ),
            (
                "apps:\n  - {name: a/b, topic: t, environment: sandbox}",
                "s.yaml:2:12: apps[#1].name must consist of letters, digits, dots, hyphens and "
                    + "underscores, found 'a/b'"
            ),
            (
                "apps:\n  - {name: a, topic: t, environment: sandbox}\n"
                    + "  - {name: a, topic: u, environment: sandbox}",
                "s.yaml:3:12: app a with environment sandbox is given twice, first at "
                    + "s.yaml:2:12; keep one or name them apart"
            ),
            (
                "apps:\n  - &x {name: a, topic: t, environment: sandbox}\n  - *x",
                "s.yaml:2:15: app a with environment sandbox is given twice, first at "
                    + "s.yaml:2:15; keep one or name them apart"
            ),
            (
                "apps:\n  - {name: a, topic: t, environment: sandbox, provider: {host: h}}",
                "s.yaml:2:57: apps[a].provider needs a certificate or a token-key to send with"
            ),
            (
                "apps:\n  - {name: a, topic: t, environment: sandbox, binary: {host: h}}",
                "s.yaml:2:55: apps[a].binary needs a certificate, by which the gateway knows it"
            ),
            (
                "apps:\n  - {name: a, topic: t, environment: sandbox, certificate: {file: c}, "
                    + "provider: {host: h}, binary: {host: h}}",
                "s.yaml:2:100: apps[a].binary and .provider are both given; an app sends through one "
                    + "of them: remove the other"
            ),
            (
                "store: {active-users: {registered-at: {zone: Europe/Berlin}}}",
                "s.yaml:1:46: store.active-users.registered-at.zone must be UTC or a fixed offset "
                    + "such as +02:00, because in a named zone an hour repeats each year and its "
                    + "times cannot be told apart; let the column hold UTC or a fixed offset, "
                    + "found 'Europe/Berlin'"
            ),
            (
                "store: {active-users: {token: none}}",
                "s.yaml:1:31: store.active-users.token.column must be the name of a column, "
                    + "for the table cannot do without it, found 'none'"
            ),
            (
                "store: {active-users: {reason: device_token}}",
                "s.yaml:1:32: store.active-users.reason.column is the same column as "
                    + "store.active-users.token.column; each needs its own"
            ),
            (
                "store: {active-users: {platform: {column: os}}}",
                "s.yaml:1:43: store.active-users.platform.column needs "
                    + "store.active-users.platform.value too; write both"
            ),
            (
                "store: {active-users: {platform: {column: app_id, value: ios}, app: App_ID}}",
                "s.yaml:1:43: store.active-users.platform.column is the same column as "
                    + "store.active-users.app.column; each needs its own"
            ),
            (
                "store: {active-users: {living: {column: active, living: 1, dead: 1}}}",
                "s.yaml:1:66: store.active-users.living.living and .dead are the same value; give "
                    + "the two that the rows hold"
            ),
            (
                "store: {active-users: {living: {dead: 0, column: active}}}",
                "s.yaml:1:50: store.active-users.living.column needs "
                    + "store.active-users.living.living too; write both"
            ),
            (
                "store: {url: 'mysql://h/p', tls: {mode: off, ca: x}}",
                "s.yaml:1:50: store.tls.ca has no effect while store.tls.mode is off; remove one "
                    + "of them"
            ),
        ])
    func refusals(text: String, expected: String) {
        #expect(fixture.problems(text).first == expected)
    }

    @Test("all mistakes are reported at once, at most twenty and the number of the others")
    func together() throws {
        let problems = fixture.problems("stat: a\nguard: {floor: x, day-percent: 0}\n")
        #expect(problems.count == 3)
        let many = (1...25).map { "zzz\($0): 1\n" }.joined()
        let failure = #expect(throws: SettingsFailure.self) { try fixture.load(many) }
        let lines = failure?.description.split(separator: "\n") ?? []
        #expect(lines.count == 21)
        #expect(lines.last == "and 5 more like these")
    }

    @Test(
        "an unknown variable with our prefix is refused",
        arguments: [
            (
                "PUSHSWEEP_POLICY_ACTON", "mark",
                "unknown variable; nearest known one: PUSHSWEEP_POLICY_ACTION"
            ),
            (
                "PUSHSWEEP_APPS_CHAT_FEEDBACK_HSOT", "h",
                "unknown variable; nearest known one: PUSHSWEEP_APPS_CHAT_FEEDBACK_HOST"
            ),
            (
                "PUSHSWEEP_X", "h",
                "unknown variable; see docs/settings.md for the names of all"
            ),
            ("PUSHSWEEP_STATE", "", "is empty; give it a value or unset it"),
        ])
    func unknownVariables(name: String, value: String, expected: String) {
        let problems = fixture.problems(SettingsLoadingTests.app, environment: [name: value])
        #expect(problems == ["environment '\(name)': \(expected)"])
    }

    @Test("a wrong value of a variable is reported with the variable")
    func wrongVariable() {
        #expect(
            fixture.problems("", environment: ["PUSHSWEEP_GUARD_FLOOR": "many"]) == [
                "environment PUSHSWEEP_GUARD_FLOOR: guard.floor must be a whole number from 0 to "
                    + "1000000000, found 'many'"
            ])
    }

    @Test("two apps whose names are equal in capitals cannot be overridden by a variable")
    func ambiguousVariable() {
        let text = """
            apps:
              - {name: a-b, topic: t, environment: sandbox}
              - {name: a_b, topic: t, environment: sandbox}
            """
        #expect(fixture.problems(text).isEmpty)
        #expect(
            fixture.problems(text, environment: ["PUSHSWEEP_APPS_A_B_SANDBOX_VALUE": "1"]) == [
                "environment 'PUSHSWEEP_APPS_A_B_SANDBOX_VALUE': stands for settings of several "
                    + "apps; give them different names"
            ])
    }
}

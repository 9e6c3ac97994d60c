import Glibc
import Testing

@testable import Settings

@Suite("Secrets in settings")
struct SettingsSecretTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    let text = "store: {password-file: pw}"

    @Test(
        "the password is the file's only line, without its line end",
        arguments: [
            ("hunter2", "hunter2"), ("hunter2\n", "hunter2"), ("hunter2\r\n", "hunter2"),
            (" hunter 2 ", " hunter 2 "),
        ])
    func content(content: String, password: String) throws {
        try fixture.write(content, to: "pw")
        #expect(try fixture.load(text).store.password?.reveal() == password)
    }

    @Test(
        "a password file of several lines or of none is refused",
        arguments: [
            ("", "is empty"), ("\n", "is empty"), ("a\nb", "has several lines"),
            ("a\n\n", "has several lines"), ("a\0", "holds a zero byte"),
        ])
    func badContent(content: String, fault: String) throws {
        try fixture.write(content, to: "pw")
        #expect(
            fixture.problems(text) == [
                "s.yaml:1:24: store.password-file pw \(fault); it must hold the password and "
                    + "nothing else, in one line"
            ])
    }

    @Test(
        "a password file that others can read is an error of permission",
        arguments: [0o640, 0o604, 0o620, 0o601] as [mode_t])
    func readableByOthers(mode: mode_t) throws {
        try fixture.write("hunter2\n", to: "pw", mode: mode)
        let failure = #expect(throws: SettingsFailure.self) { try fixture.load(text) }
        #expect(failure?.kind == .permission)
        #expect(failure?.description.contains("others may read it (mode 0") == true)
        #expect(failure?.description.contains("hunter2") == false)
    }

    @Test("a missing password file is an error of configuration")
    func missing() throws {
        let failure = #expect(throws: SettingsFailure.self) { try fixture.load(text) }
        #expect(failure?.kind == .configuration)
    }

    @Test(
        "files that this user may not read are an error of permission", .enabled(if: geteuid() != 0)
    )
    func denied() throws {
        try fixture.write("hunter2\n", to: "pw", mode: 0)
        let path = try fixture.write("", to: "s.yaml", mode: 0)
        #expect(throws: SettingsFailure.self) { try fixture.load(text) }
        let failure = #expect(throws: SettingsFailure.self) {
            try Settings.load(
                configFile: path, environment: [:], surroundings: fixture.surroundings)
        }
        #expect(failure?.kind == .permission)
    }

    @Test(
        "the environment's password overrides the file; both are listed as set, with their origin")
    func origin() throws {
        for (environment, password, source) in [
            // The file is not there: it is not read.
            (
                ["PUSHSWEEP_STORE_PASSWORD": "hunter3"], "hunter3",
                .environment("PUSHSWEEP_STORE_PASSWORD")
            ), ([:], "hunter2", .contents(of: "store.password-file")),
        ] as [([String: String], String, SettingSource)] {
            if environment.isEmpty { try fixture.write("hunter2\n", to: "pw") }
            let settings = try fixture.load(text, environment: environment)
            #expect(settings.store.password?.reveal() == password)
            let origin = settings.origins.first { $0.key == "store.password" }
            #expect(origin?.shownValue == "(set)" && origin?.origin == source)
        }
    }

    @Test("no printed form of the settings shows a password")
    func printing() throws {
        try fixture.write("hunter2\n", to: "pw")
        let settings = try fixture.load(text)
        var dumped = ""
        dump(settings, to: &dumped)
        #expect(!dumped.contains("hunter2"))
        #expect(!"\(settings)".contains("hunter2"))
        #expect(!String(reflecting: settings).contains("hunter2"))
    }

    @Test("no error shows a password that was written in a wrong place")
    func complaints() throws {
        let wrong = """
            store: {url: "mysql://u:hunter2@h/p", password: hunter2}
            """
        #expect(!fixture.problems(wrong).joined().contains("hunter2"))
        #expect(fixture.problems(wrong).count == 2)
    }

    @Test("a command is never shown, because it may hold a secret address")
    func command() throws {
        let command = "curl https://ping.example.net/f00d"
        let settings = try fixture.load("hooks: {after-run: '\(command)'}")
        #expect(settings.hooks.afterRun == command)
        let origin = settings.origins.first { $0.key == "hooks.after-run" }
        #expect(origin?.shownValue == "(set)")
        for wrong in [
            "\"\\u0007 f00d\"", "\"f00d\\nf00d\"", "'\(String(repeating: "f00d", count: 1025))'",
        ] {
            let problems = fixture.problems("hooks: {after-run: \(wrong)}")
            #expect(problems.count == 1)
            #expect(!problems.joined().contains("f00d"), "\(problems)")
        }
        for empty in ["''", "'  '", "~"] {
            #expect(fixture.problems("hooks: {after-run: \(empty)}").count == 1)
        }
        #expect(fixture.problems("hooks: {after-run: x, timeout: 0s}").count == 1)
    }

    @Test("the variables of a hook set nothing, and the environment of a hook has no password")
    func hookVariables() throws {
        let environment = [
            "PUSHSWEEP_EXIT": "0", "PUSHSWEEP_KIND": "sweep", "PUSHSWEEP_RUN": "r",
            "PUSHSWEEP_STORE_PASSWORD": "hunter2", "PATH": "/bin",
        ]
        #expect(try fixture.load("", environment: environment).store.password != nil)
        let passed = Settings.withoutSecrets(environment)
        #expect(passed.count == environment.count - 1)
        #expect(!passed.values.contains("hunter2"))
    }
}

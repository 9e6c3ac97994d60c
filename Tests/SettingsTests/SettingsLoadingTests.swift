import Database
import Testing

@testable import Settings

@Suite("Loading settings")
struct SettingsLoadingTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    static let app = """
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """

    func load(
        configFile: String? = nil, _ environment: [String: String] = [:]
    ) throws(SettingsFailure) -> Settings {
        try Settings.load(
            configFile: configFile, environment: environment, surroundings: fixture.surroundings)
    }

    @Test("without a file the defaults apply and there is no app")
    func defaults() throws {
        let settings = try load()
        #expect(settings.file == nil)
        #expect(settings.apps.isEmpty)
        #expect(settings.state == "\(fixture.folder)/.local/state/pushsweep")
        #expect(settings.store.location == .sqlite(path: "\(settings.state)/tokens.sqlite"))
        #expect(settings.policy.action == .mark)
        #expect(settings.policy.skew == 2_000)
        #expect(!settings.policy.deletesWithoutRegistrationTime)
        #expect(settings.store.mapping.app == .detect("app_id"))
        #expect(settings.store.mapping.registeredAt.column == .detect("registered_at"))
        #expect(settings.store.mapping.longestToken == 100)
        #expect(settings.store.password == nil)
        #expect(settings.origins.allSatisfy { $0.origin == .builtIn })
    }

    @Test("root uses the machine's state folder, other users follow XDG_STATE_HOME")
    func stateFolder() throws {
        var surroundings = fixture.surroundings
        let state = { (environment: [String: String]) throws(SettingsFailure) -> String in
            try Settings.load(
                configFile: nil, environment: environment, surroundings: surroundings
            ).state
        }
        #expect(try state(["XDG_STATE_HOME": "/x"]) == "/x/pushsweep")
        #expect(
            try state(["XDG_STATE_HOME": "x"]) == "\(fixture.folder)/.local/state/pushsweep")
        surroundings.isRoot = true
        #expect(try state(["XDG_STATE_HOME": "/x"]) == "/var/lib/pushsweep")
    }

    @Test("--config overrides PUSHSWEEP_CONFIG, which overrides the machine's file")
    func whichFile() throws {
        try fixture.write("state: /from-system", to: "system.yaml")
        let variable = try fixture.write("state: /from-variable", to: "variable.yaml")
        let option = try fixture.write("state: /from-option", to: "option.yaml")
        #expect(try load().state == "/from-system")
        #expect(try load(["PUSHSWEEP_CONFIG": variable]).state == "/from-variable")
        let settings = try load(configFile: option, ["PUSHSWEEP_CONFIG": variable])
        #expect(settings.state == "/from-option")
        #expect(settings.file == option)
        #expect(try load(configFile: "option.yaml").state == "/from-option")
    }

    @Test("a named file that is missing is an error, and so is an empty name")
    func missingFile() throws {
        let missing = "\(fixture.folder)/nowhere.yaml"
        let failure = #expect(throws: SettingsFailure.self) { try load(configFile: missing) }
        #expect(
            failure?.description
                == "settings file \(missing): there is no such file; create it or correct the path")
        #expect(failure?.kind == .configuration)
        #expect(throws: SettingsFailure.self) { try load(["PUSHSWEEP_CONFIG": missing]) }
        #expect(throws: SettingsFailure.self) { try load(["PUSHSWEEP_CONFIG": ""]) }
        #expect(throws: SettingsFailure.self) { try load(configFile: fixture.folder) }
    }

    @Test("a file that is not UTF-8 is refused")
    func notUTF8() throws {
        let path = try fixture.write([0x73, 0x3a, 0x20, 0xff], to: "latin.yaml")
        let failure = #expect(throws: SettingsFailure.self) { try load(configFile: path) }
        #expect(failure?.description.hasSuffix("it is not valid UTF-8; save it as UTF-8") == true)
    }

    @Test("relative paths start at the settings file's folder, wherever they are written")
    func relativePaths() throws {
        let settings = try fixture.load(
            """
            state: here
            store: {url: "sqlite://tokens.sqlite"}
            apps:
              - {name: a, topic: t, environment: sandbox, certificate: {file: a.pem, key: /k.pem}}
            """, environment: ["PUSHSWEEP_REPORT_METRICS_FILE": "out/m.prom"])
        #expect(settings.state == "\(fixture.folder)/here")
        #expect(settings.store.location == .sqlite(path: "\(fixture.folder)/tokens.sqlite"))
        #expect(settings.apps[0].certificate?.file == "\(fixture.folder)/a.pem")
        #expect(settings.apps[0].certificate?.key == "/k.pem")
        #expect(settings.metricsFile == "\(fixture.folder)/out/m.prom")
    }

    @Test("a variable overrides the file, and each value knows its origin")
    func origins() throws {
        let settings = try fixture.load(
            "policy:\n  action: delete\nstate: /s\n" + Self.app,
            environment: [
                "PUSHSWEEP_STATE": "/t", "PUSHSWEEP_APPS_CHAT_FEEDBACK_HOST": "f.example.net",
                "PUSHSWEEP_TEST_ANYTHING": "x", "HOME": "/h",
            ])
        #expect(settings.state == "/t")
        #expect(settings.policy.action == .delete)
        #expect(settings.apps[0].feedback?.host == "f.example.net")
        #expect(settings.apps[0].feedback?.hostName == "f.example.net")
        let origins = Dictionary(uniqueKeysWithValues: settings.origins.map { ($0.key, $0) })
        #expect(origins["state"]?.origin == .environment("PUSHSWEEP_STATE"))
        #expect(origins["policy.action"]?.origin == .file(line: 2))
        #expect(origins["policy.clock-skew"]?.origin == .builtIn)
        #expect(origins["policy.clock-skew"]?.shownValue == "2s")
        #expect(
            origins["apps[chat].feedback.host"]?.origin
                == .environment("PUSHSWEEP_APPS_CHAT_FEEDBACK_HOST"))
        #expect(origins["apps[chat].feedback.max-bytes"]?.shownValue == "1GiB")
    }

    @Test("origins come in the order of the table, app after app")
    func originOrder() throws {
        let settings = try fixture.load(
            """
            apps:
              - {name: b, topic: t, environment: sandbox}
              - {name: a, topic: t, environment: sandbox}
            """)
        let keys = settings.origins.map(\.key)
        #expect(keys.first == "state")
        #expect(keys.last == "hooks.timeout")
        #expect(
            keys.filter { $0.hasPrefix("apps") } == [
                "apps[b].name", "apps[b].topic", "apps[b].environment", "apps[b].value",
                "apps[a].name", "apps[a].topic", "apps[a].environment", "apps[a].value",
            ])
    }

    @Test("the environment distinguishes two entries of one app")
    func bothEnvironments() throws {
        let text = """
            apps:
              - {name: my-chat, topic: t, environment: production}
              - {name: my-chat, topic: t, environment: sandbox}
            """
        let settings = try fixture.load(
            text, environment: ["PUSHSWEEP_APPS_MY_CHAT_SANDBOX_VALUE": "7"])
        #expect(settings.apps.map(\.value) == ["my-chat", "7"])
        #expect(settings.origins.contains { $0.key == "apps[my-chat/sandbox].topic" })
        #expect(
            fixture.problems(text, environment: ["PUSHSWEEP_APPS_MY_CHAT_VALUE": "7"]).count == 1)
    }

    @Test(
        "a column is detected, named or absent",
        arguments: [
            ("", .detect("registered_at")), ("registered-at: ~", .absent),
            ("registered-at: none", .absent), ("registered-at:", .absent),
            ("registered-at: {column: null}", .absent), ("registered-at: seen", .named("seen")),
            ("registered-at: {column: seen}", .named("seen")),
            ("registered-at: 'none'", .named("none")),
            ("registered-at: {type: epoch-seconds}", .named("registered_at")),
        ] as [(String, OptionalColumn)])
    func columns(line: String, expected: OptionalColumn) throws {
        let text = line.isEmpty ? "" : "store:\n  active-users:\n    \(line)\n"
        let settings = try fixture.load(text)
        #expect(settings.store.mapping.registeredAt.column == expected)
    }

    @Test("a value that the table itself gives is absent until the settings name one")
    func detection() throws {
        let silent = try fixture.load("")
        #expect(silent.store.mapping.key == nil)
        #expect(silent.store.mapping.encoding == nil)
        #expect(silent.store.mapping.registeredAt.type == nil)
        #expect(silent.store.mapping.invalidatedAt.type == nil)
        let detected = silent.origins.filter { $0.shownValue == "found in the table" }
        #expect(
            detected.map(\.key) == [
                "store.active-users.key", "store.active-users.token.encoding",
                "store.active-users.user.column", "store.active-users.registered-at.type",
                "store.active-users.invalidated-at.type", "store.push-queue.key",
                "store.push-queue.token.encoding", "store.push-queue.queued-at",
                "store.push-queue.time-type",
            ])
        #expect(silent.store.queue == QueueMapping())
        let users = try fixture.load(
            """
            store:
              active-users:
                key: id
                token: {encoding: binary}
                registered-at: {type: datetime, zone: "+02:00"}
            """, environment: ["PUSHSWEEP_STORE_ACTIVE_USERS_INVALIDATED_AT_TYPE": "epoch-seconds"]
        ).store.mapping
        #expect(users.key == ["id"])
        #expect(users.encoding == .binary)
        #expect(users.registeredAt.type == .datetime)
        #expect(users.registeredAt.zone == ZoneOffset(seconds: 7_200))
        #expect(users.invalidatedAt.type == .epochSeconds)
    }

    @Test("without settings about the table, the store gets the mapping that it assumes itself")
    func usualMapping() throws {
        var usual = TableMapping()
        usual.environmentValues = ["production": "production", "sandbox": "sandbox"]
        #expect(try fixture.load("").store.mapping == usual)
    }

    @Test("a variable can name a column, declare it absent, and list the key")
    func columnVariables() throws {
        let users = try fixture.load(
            "store: {active-users: {app: app_id}}",
            environment: [
                "PUSHSWEEP_STORE_ACTIVE_USERS_APP_COLUMN": "none",
                "PUSHSWEEP_STORE_ACTIVE_USERS_REASON_COLUMN": "why",
                "PUSHSWEEP_STORE_ACTIVE_USERS_KEY": "user, device",
            ]
        ).store.mapping
        #expect(users.app == .absent)
        #expect(users.reason == .named("why"))
        #expect(users.key == ["user", "device"])
    }

    @Test("groups without content and anchors are read, comments alone are an empty file")
    func yamlForms() throws {
        #expect(try fixture.load("# nothing\n").apps.isEmpty)
        #expect(try fixture.load("policy:\nstore:\napps:\n").apps.isEmpty)
        #expect(try fixture.load("\u{FEFF}state: /s\r\nguard: {floor: 7}\r\n").state == "/s")
        let settings = try fixture.load(
            """
            apps:
              - {name: a, topic: t, environment: sandbox, feedback: &gate {host: g, port: 1}}
              - {name: b, topic: t, environment: sandbox, feedback: *gate}
            """)
        #expect(settings.apps[1].feedback?.port == 1)
    }

    @Test(
        "TLS is checked over TCP unless switched off, and not elsewhere",
        arguments: [
            ("mysql://h/p", .verify), ("mysql+unix:///s?db=p", .off), ("sqlite:///t", .off),
        ] as [(String, StoreTLS.Mode)])
    func tlsMode(url: String, expected: StoreTLS.Mode) throws {
        #expect(try fixture.load("store: {url: '\(url)'}").store.tls.mode == expected)
        let ca = try fixture.load("store: {url: '\(url)', tls: {ca: /ca.pem}}").store
        #expect(ca.tls.ca == "/ca.pem")
    }

    @Test("the time to load many apps grows with their number")
    func manyApps() throws {
        let text = { (apps: Int) -> String in
            "apps:\n"
                + (1...apps).map {
                    "  - {name: a\($0), topic: t, environment: sandbox, feedback: {host: h}}\n"
                }.joined()
        }
        let environment = ["PUSHSWEEP_APPS_A7_VALUE": "x"]
        let clock = ContinuousClock()
        let time = { (apps: Int) throws in
            try clock.measure { _ = try fixture.load(text(apps), environment: environment) }
        }
        // 16 times as many apps; a quadratic walk would take 256 times as long. Another process
        // may use the processor for a moment, but not three times.
        let isInProportion = try (1...3).contains { _ in try time(800) < time(50) * 80 }
        #expect(isInProportion)
    }

    @Test("a setting of the queue says nothing about the queue's optional columns")
    func queueColumns() throws {
        let settings = try fixture.load("store: {push-queue: {zone: \"+02:00\"}}")
        for (key, column) in [
            ("reason", settings.store.queue.reason), ("state", settings.store.queue.state),
        ] {
            #expect(column == .detect(key), "\(key)")
        }
    }
}

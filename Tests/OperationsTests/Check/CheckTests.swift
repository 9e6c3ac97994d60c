import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Logging
import Looks
import Operations
import SecureTransport
import Settings
import TestSupport
import Testing

extension ToolStage {
    /// What `check` reports about the settings, or about such as a text has them.
    func check(_ text: String? = nil) throws -> CheckReport {
        Check.run(try loaded(text), try .silent())
    }

    /// Expects each row's exit code and words in the findings of its area, with each of its edits of the
    /// settings: the old text and the new one.
    fileprivate func expect(
        _ rows: [(edits: [(String, String)], exit: Int32, area: String, words: [String])]
    ) throws {
        let base = try settingsText
        for (edits, exit, area, words) in rows {
            let text = edits.reduce(base) { text, edit in
                #expect(text.contains(edit.0), "\(edit.0)")
                return text.replacing(edit.0, with: edit.1)
            }
            let report = try check(text)
            #expect(report.exit == exit, "\(edits): \(report.findings)")
            let found = report.of(area)
            for word in words {
                #expect(found.contains { $0.contains(word) }, "\(edits): \(report.findings)")
            }
        }
    }
}

extension CheckReport {
    /// The findings of an area that are not ok.
    func of(_ area: String) -> [String] {
        findings.filter { $0.areaOfCheck == area && $0.severity != .ok }.map(\.messageOfCheck)
    }
}

@Suite("What check finds")
struct CheckTests {
    @Test(
        "check compares the clocks of host and database, with the sentence of preflight",
        arguments: TestEngine.available)
    func clocks(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 1)
        for (ahead, words) in [
            (-3_600_000, "3600 s ahead of this host's"), (3_600_000, "3600 s behind this host's"),
            (0, nil),
        ] as [(Int64, String?)] {
            let context = RunContext(
                now: { EpochMilliseconds.current.advanced(by: ahead) }, interrupt: try Interrupt(),
                log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let found = Check.run(try stage.loaded(), context).of("database")
                .filter { $0.contains("the clock of the database is") }
            #expect(found.count == (words == nil ? 0 : 1), "\(found)")
            guard let words else { continue }
            // The test may lose a second on the way.
            let seconds = try #require(found.first?.firstMatch(of: /is (\d+) s/)?.1)
            #expect(abs((Int(seconds) ?? 0) - 3_600) < 30, "\(found)")
            #expect(found[0].contains(words.drop { $0 != "s" }), "\(found)")
            #expect(found[0].hasSuffix("synchronize both with NTP"))
        }
    }

    /// A sender's stage with a feedback gateway beside its provider.
    private static func stage(
        _ engine: TestEngine = .sqlite
    ) throws -> (stage: SendStage, feedback: FeedbackGateway) {
        let stage = try SendStage(engine)
        let feedback = try FeedbackGateway(
            certificates: SweepStage.certificates.get(),
            feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        let authority = try SweepStage.certificates.get().authority
        stage.credential +=
            "\n    feedback: {host: 127.0.0.1, port: \(feedback.port), ca: \(authority)}"
        return (stage, feedback)
    }

    @Test("each mistake is found in its area, and leads to its setting")
    func mistakes() throws {
        let (stage, feedback) = try Self.stage()
        let certificates = try SweepStage.certificates.get()
        let folder = stage.folder
        let pem = String(decoding: try SigningKey().pem(), as: UTF8.self)
        let key = try folder.write("AuthKey.p8", pem, mode: 0o644)
        let notes = try folder.write("notes.txt", String(repeating: "no database ", count: 99))
        let (port, list) = ("port: \(stage.port)", "port: \(feedback.port)")
        let gateway = "feedback: {host: 127.0.0.1"
        let provider = "provider: {host: 127.0.0.1, \(port), ca: \(certificates.authority)}"
        let (client, expired) = (
            SimulatorCertificates.Name.client, SimulatorCertificates.Name.expiredClient
        )
        let topic = ("topic: com.example.chat", "topic: com.example.other")
        let apple = "Apple closed this gateway in 2021"
        func metrics(_ file: String) -> (String, String) {
            ("apps:", "report: {metrics-file: \(folder.file(file))}\napps:")
        }
        try stage.expect([
            (
                [(port, "port: 1")], 69, "provider",
                [
                    "chat/production: connecting to 127.0.0.1:1: connection refused",
                    "(apps[chat/production].provider.host, apps[chat/production].provider.port)",
                ]
            ),
            (
                [
                    (
                        "\(port), ca: \(certificates.authority)",
                        "\(port), ca: \(certificates.foreignAuthority)"
                    )
                ], 78, "provider", ["is not trusted", "production].provider.ca)"]
            ),
            ([(gateway, "feedback: {host: feedback.push.apple.com")], 78, "feedback", [apple]),
            (
                [(gateway, "feedback: {host: feedback.sandbox.push.apple.com")], 78, "feedback",
                [apple]
            ),
            (
                [(gateway, "feedback: {host: API.push.apple.com")], 78, "feedback",
                ["Apple takes notifications over HTTP/2"]
            ),
            ([(list, port)], 78, "feedback", ["has the same address"]),
            ([(list, "port: 2197")], 0, "feedback", ["a port of HTTP/2 gateways"]),
            (
                [topic], 78, "certificate",
                [
                    "is for com.example.chat, and the topic is com.example.other",
                    "apps[chat/production].topic",
                ]
            ),
            // Apple's suffixes belong to the same app, and a private gateway may know its clients by
            // other names.
            ([(topic.0, topic.0 + ".voip")], 0, "certificate", []),
            ([topic, (provider, "")], 0, "certificate", ["is for com.example.chat"]),
            (
                [
                    (certificates.certificate(client), certificates.certificate(expired)),
                    (certificates.key(client), certificates.key(expired)),
                ], 78, "certificate", ["expired"]
            ),
            (
                [
                    (
                        stage.credential,
                        "token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}"
                    )
                ], 77, "certificate", ["AuthKey.p8"]
            ),
            (
                [("state: \(stage.state)", "state: \(notes)")], 73, "state",
                ["is no folder; move it away"]
            ),
            ([(stage.store, "url: sqlite://\(notes)")], 78, "database", ["correct store.url"]),
            ([metrics("metrics.txt")], 0, "report", ["report.metrics-file is"]),
            ([metrics("missing/pushsweep.prom")], 73, "report", ["report.metrics-file"]),
        ])
        #expect(stage.gateway.log.totals.requests == 0 && feedback.records.isEmpty)
    }

    @Test("a feedback gateway given as provider is named, and keeps its list")
    func feedbackAsProvider() throws {
        let (stage, feedback) = try Self.stage()
        stage.port = feedback.port
        let report = try stage.check()
        #expect(report.exit == 78)
        let failure = try #require(report.of("provider").first)
        #expect(failure.contains("h2 was offered and the server did not agree on it"))
        #expect(failure.contains("127.0.0.1:\(feedback.port)"))
        #expect(feedback.records(atLeast: 1).allSatisfy { $0.bytes == 0 })
    }

    @Test("a mistake about the connection to the database leads to its setting", .needsServer)
    func connections() throws {
        let stage = try SweepStage(.mariaDB)
        let account = try ServerAccount(of: stage.database)
        let certificates = try SweepStage.certificates.get()
        let server = try #require(MariaDBServer.fromEnvironment)
        let plain = try SilentServer(saying: MySQLPacket.greeting(offersTLS: false))
        let other = try EncryptedGreeter(
            showing: .wrongHostServer, of: certificates,
            greeting: MySQLPacket.greeting(offersTLS: true))
        let right = try stage.folder.write("right", "p")
        let wrong = try stage.folder.write("wrong", "wrong")
        let user = ("mysql://\(server.user)@", "mysql://\(account.name)@")
        let password = stage.folder.file("db-password")
        let address = "localhost:\(server.port)"
        let advice = "correct the database name in store.url, or give the account rights on it"
        try stage.expect([
            (
                [user, (password, wrong)], 77, "database",
                ["(1045); check the user in store.url and the password (store.password-file)"]
            ),
            ([user, (password, right)], 77, "database", ["(1044); " + advice]),
            ([(stage.database.name, "ps_nowhere")], 78, "database", ["(1049); " + advice]),
            (
                [("ca: \(server.ca)", "ca: \(certificates.foreignAuthority)")], 78, "database",
                [
                    "no credentials were sent; name the file of the authority that signed the "
                        + "server's certificate in store.tls.ca"
                ]
            ),
            (
                [(address, "127.0.0.1:\(plain.port)")], 78, "database",
                [
                    "no credentials were sent; give the server a certificate (ssl_cert",
                    "store.tls.mode: off",
                ]
            ),
            (
                [
                    (address, "127.0.0.1:\(other.port)"),
                    ("ca: \(server.ca)", "ca: \(other.authority)"),
                ], 78, "database",
                ["write the host name of the server's certificate into store.url"]
            ),
        ])
    }

    @Test("settings that contradict themselves are refused")
    func refusedSettings() throws {
        let stage = try SendStage()
        let base = try stage.settingsText
        for (line, words) in [
            ("policy: {action: delete, delete-after: 30d}", "policy.delete-after"),
            ("policy: {action: delete, delete-after: 5m}", "policy.delete-after"),
        ] {
            let failure = #expect(throws: SettingsFailure.self) {
                try stage.loaded(line + "\n" + base)
            }
            #expect(failure.map { "\($0)".contains(words) } == true, "\(failure.debugDescription)")
        }
    }

    @Test(
        "a healthy sender is told its gateway, its queue and all grants, and nothing is changed",
        arguments: TestEngine.available)
    func healthy(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        let report = try stage.check()
        #expect(report.exit == 0, "\(report.findings)")
        let messages = report.findings.map(\.sentence)
        let gateway = "chat/production sends to 127.0.0.1:\(stage.port) with its certificate, "
        #expect(messages.contains(gateway + "connections: 2"), "\(messages)")
        #expect(
            messages.contains {
                $0.hasPrefix("table push_queue: key id") && $0.hasSuffix("state in the row")
            })
        #expect(report.of("database").contains { $0.hasPrefix("active_users has no rows; ") })
        if engine == .mariaDB {
            for table in ["active_users", "push_queue", "pushsweep_claim", "pushsweep_queue"] {
                #expect(report.grants.contains { $0.contains("`\(table)`") }, "\(report.grants)")
            }
            #expect(Set(report.grants).count == report.grants.count)
        } else {
            let authorities = report.settings.first { $0.key == "store.tls.ca" }
            #expect(authorities?.value == "the system's authorities")
        }
        #expect(stage.gateway.log.totals.requests == 0)
        #expect(try stage.check() == report, "the check has changed something")
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        #expect(try !stage.check().of("database").contains { $0.contains("has no rows") })
        try stage.database.execute("DROP TABLE active_users")
        let missing = try stage.check()
        #expect(missing.exit == 78 && missing.of("database").count == 1, "\(missing.findings)")
    }

    @Test("every missing file is named once, and the rest is still examined")
    func missingFiles() throws {
        let stage = try SweepStage()
        let nowhere = stage.folder.file("nowhere")
        stage.lines.ca = "\(nowhere)/feedback.pem"
        stage.lines.certificate =
            "certificate: {file: \(nowhere)/chat.pem, key: \(nowhere)/chat.key}"
        stage.lines.apps = """
              - name: mail
                topic: com.example.mail
                environment: production
                token-key: {file: \(nowhere)/mail.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ}
                provider: {host: 127.0.0.1, ca: \(nowhere)/provider.pem}
            """
        let report = try stage.check()
        #expect(report.exit == 78)
        let failures = report.failures
        for name in ["chat.pem", "chat.key", "feedback.pem", "mail.p8", "provider.pem"] {
            #expect(failures.count { $0.contains("\(nowhere)/\(name)") } == 1, "\(failures)")
        }
        #expect(failures.count == 5, "\(failures)")
        #expect(report.findings.contains { $0.object == "database" && $0.severity == .ok })
    }

    @Test("the worst finding stands first, the last line counts them, and settings come when asked")
    func order() throws {
        let stage = try SweepStage()
        stage.lines.certificate =
            "certificate: {file: \(stage.folder.file("a.pem")), key: \(stage.folder.file("a.key"))}"
        var report = try stage.check()
        let severities = report.findings.map(\.severity)
        #expect(severities == severities.sorted(by: >))
        #expect(Set(severities) == [.high, .medium, .ok])
        let lines = report.lines
        let words = lines.dropFirst().prefix(severities.count).map {
            $0.drop { $0 == " " }.prefix { $0 != ":" }
        }
        #expect(words.prefix(3) == ["failure", "failure", "warning"] && words.last == "ok")
        #expect(
            lines.last
                == "2 failures, 1 warning: the first is settings: opening "
                + "\(stage.folder.file("a.pem")) of apps[chat/production].certificate.file: no such file"
        )
        #expect(!lines.contains("settings:"))
        report.showsSettings = true
        #expect(report.lines.contains("settings:") && report.lines.last == lines.last)
        let printed = try JSONSerialization.jsonObject(with: JSONEncoder().encode(report))
        let json = try #require(printed as? [String: Any])
        #expect((json["settings"] as? [Any])?.count == report.settings.count)
        let first = (json["findings"] as? [[String: Any]])?.first
        #expect(first?.keys.sorted() == ["area", "exit", "message", "rule", "severity"])
        #expect(first?["area"] as? String == "settings" && first?["exit"] as? Int == 78)
        #expect(first?["severity"] as? String == "failure")
    }

    @Test(
        "a warning that a person lives with counts no more, in check and audit, and a failure does")
    func decided() throws {
        let stage = try SweepStage()
        let ignore = try stage.folder.write(
            "ignore.yaml",
            """
            - {rule: no-rows, reason: the app starts tomorrow, until: 2099-12-31}
            - {rule: missing-file, reason: it comes, until: 2099-12-31}
            """)
        let plain = try stage.run("check").ends(0, "warning: database: active_users has no rows")
        #expect(plain.output.contains("1 warning"))
        let list = ["--ignore", ignore]
        try stage.run(["check"] + list).ends(
            0, "ignored: database: active_users has no rows",
            "ignored until 2099-12-31: the app starts tomorrow",
            "no finding of missing-file about * to ignore")
        try stage.run(["audit"] + list).ends(0, "Decided to live with")
        #expect(try !stage.run(["audit"]).ends(0).output.contains("Decided to live with"))
        stage.lines.certificate =
            "certificate: {file: \(stage.folder.file("a.pem")), key: \(stage.folder.file("a.key"))}"
        try stage.run(["check"] + list).ends(
            78, "failure: settings: opening", "no entry has an effect on a failure")
        try stage.run(["check", "--grants"] + list).ends(64, "--ignore goes with neither")
    }

    @Test("a forgotten stop file is told by check, audit and the gate, and an audit runs beside it")
    func stopFile() throws {
        let stage = try SweepStage(feeds: [.tuples([])])
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        try stage.swept().ends(0)
        try stage.database.report(DeviceToken.numbered(1).hex)
        let file = stage.state + "/stop"
        try stage.folder.write("state/stop", "")
        try stage.run("sweep").ends(75, "the stop file \(file) exists")
        let words = "it stops sweeps and whatever else changes rows, since 20"
        try stage.run("check").ends(0, "warning: database: \(file): \(words)", "[stop-file]")
        try stage.run("audit").ends(0, "[stop-file]", "1 report waits for the next sweep")
        try stage.run("preflight", "--read-only", "--app", "chat").says(
            "medium: stop-file: \(file)")
        try FileManager.default.removeItem(atPath: file)
        #expect(try !stage.run("check").ends(0).output.contains("stop-file"))
    }

    @Test("a check that finds nothing wrong says so in its last line")
    func calm() throws {
        let stage = try SweepStage()
        let yesterday = Int64(Date.now.timeIntervalSince1970 - 86_400) * 1_000
        try stage.database.register(0..<1, at: yesterday)
        let lines = try stage.check().lines
        #expect(lines.last == "no failure and no warning", "\(lines)")
    }

    @Test("the evidence of a sender that has ended is reported, and not touched")
    func abandonedSender() throws {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        #expect(try stage.sweep("--dry-run").exit == 75)
        #expect(try stage.check().pending == 1)
        // A journal with a feed that waits, where a killed sender would have it.
        try stage.moveStateToSender()
        for _ in 1...2 {
            let warnings = try stage.check().of("state")
            try #require(warnings.count == 1, "\(warnings)")
            #expect(warnings[0].contains("38 bytes, is pending; the next send or sweep applies"))
        }
    }
}

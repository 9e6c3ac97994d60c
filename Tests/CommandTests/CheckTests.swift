import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("The command check")
struct CheckTests {
    private func check(_ stage: SendStage) throws -> ToolResult {
        try stage.start(["check", "--format", "json"]).wait()
    }

    /// `severity message` of all findings in an area.
    private func findings(_ result: ToolResult, _ area: String) -> [String] {
        let findings = result.json["findings"] as? [[String: Any]] ?? []
        return findings.filter { $0["area"] as? String == area }.map {
            "\($0["severity"] ?? "") \($0["message"] ?? "")"
        }
    }

    @Test(
        "check for a sender examines provider and queue, lists all grants, sends no request",
        arguments: TestEngine.available)
    func sender(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        let result = try check(stage)
        #expect(result.exit == 0, "\(result.error)")
        #expect(
            findings(result, "provider") == [
                "ok chat/production sends to 127.0.0.1:\(stage.gateway.port) with its certificate, "
                    + "connections: 2"
            ])
        #expect(
            findings(result, "database").contains {
                $0.hasPrefix("ok table push_queue: key id") && $0.hasSuffix("state in the row")
            })
        let grants = result.json["grants"] as? [String] ?? []
        if engine == .mariaDB {
            for table in ["active_users", "push_queue", "pushsweep_claim", "pushsweep_queue"] {
                #expect(grants.contains { $0.contains("`\(table)`") }, "\(grants)")
            }
            #expect(Set(grants).count == grants.count)
        }
        #expect(stage.gateway.log.totals.requests == 0)
        #expect(try check(stage).output == result.output, "the check has changed something")
    }

    @Test("check for a sender finds a missing table of the queue before anything is sent")
    func missingTable() throws {
        let stage = try SendStage()
        try stage.database.execute("DROP TABLE pushsweep_claim")
        let result = try check(stage)
        #expect(result.exit == 78)
        #expect(
            findings(result, "database").contains {
                $0.hasPrefix("failure") && $0.contains("pushsweep_claim")
            })
    }

    @Test("check of a database that is locked tries once more, and not for half a minute")
    func brief() throws {
        let stage = try SendStage()
        try stage.database.execute("BEGIN EXCLUSIVE")
        let result = try check(stage)
        #expect(result.exit == 69)
        let failures = findings(result, "database").filter { $0.hasPrefix("failure") }
        #expect(failures.contains { $0.contains("database is locked") }, "\(failures)")
        // SQLite itself waits five seconds for the lock, each time.
        let seconds = try failures.compactMap {
            try /tried again for (\d+) s/.firstMatch(in: $0).flatMap { Int($0.1) }
        }
        #expect(!seconds.isEmpty && seconds.allSatisfy { $0 < 20 }, "\(failures)")
    }

    @Test("check for a sender names the token key in use, and refuses one that others can read")
    func tokenKey() throws {
        let stage = try SendStage()
        let pem = String(decoding: try SigningKey().pem(), as: UTF8.self)
        let key = try stage.folder.write("AuthKey.p8", pem, mode: 0o600)
        let gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .token([:])))
        stage.port = gateway.port
        let settings = try stage.settings()
        let text = try String(contentsOfFile: settings, encoding: .utf8).replacing(
            "    provider:",
            with: "    token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}\n"
                + "    provider:")
        let file = try stage.folder.write("with-key.yaml", text)
        let good = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(good.exit == 0, "\(good.error)")
        #expect(findings(good, "provider").first?.contains("key ABC123DEFG of team") == true)

        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: key)
        let open = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(open.exit == 77)
        #expect(findings(open, "provider").first?.contains("AuthKey.p8") == true)
    }

    @Test("check reports an expired certificate of a sender once")
    func expiredCertificate() throws {
        let stage = try SendStage()
        let certificates = try SweepStage.certificates.get()
        let good = SimulatorCertificates.Name.client
        let expired = SimulatorCertificates.Name.expiredClient
        let text = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing(certificates.certificate(good), with: certificates.certificate(expired))
            .replacing(certificates.key(good), with: certificates.key(expired))
        let file = try stage.folder.write("expired.yaml", text)
        let result = try Tool.pushsweep("check", "--format", "json", "--config", file)
        #expect(result.exit == 78)
        #expect(findings(result, "certificate").count == 1)
        #expect(findings(result, "provider").isEmpty)
    }

    @Test("check names every missing file once and still examines the rest")
    func missingFiles() throws {
        let stage = try SweepStage(feeds: [])
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
        let result = try stage.run("check", "--format", "json")
        #expect(result.exit == 78)
        let failures = ["settings", "certificate", "provider", "database", "state"].flatMap {
            findings(result, $0).filter { $0.hasPrefix("failure") }
        }
        for name in ["chat.pem", "chat.key", "feedback.pem", "mail.p8", "provider.pem"] {
            #expect(failures.count { $0.contains("\(nowhere)/\(name)") } == 1, "\(failures)")
        }
        #expect(failures.count == 5, "\(failures)")
        #expect(findings(result, "database").contains { $0.hasPrefix("ok") })
    }

    @Test("check finds a file in place of the state folder")
    func stateIsFile() throws {
        let stage = try SendStage(.sqlite)
        try stage.folder.write("state", "")
        let result = try check(stage)
        #expect(result.exit == 73, "\(result.error)")
        #expect(findings(result, "state").contains { $0.contains("is no folder; move it away") })
    }

    @Test("check without a provider requires no queue")
    func sweeper() throws {
        let stage = try SweepStage(feeds: [])
        try stage.database.execute("DROP TABLE push_queue")
        let result = try stage.run("check", "--format", "json")
        #expect(result.exit == 0, "\(result.error)")
        #expect(findings(result, "provider").isEmpty)
        #expect(!findings(result, "database").contains { $0.contains("push_queue") })
    }

    @Test("check reports the evidence of a sender that has ended, and does not touch it")
    func abandonedSender() throws {
        let stage = try SweepStage(feeds: [.tuples([.dead(1, at: 1_700_000_000)])])
        #expect(try stage.sweep("--dry-run").exit == 75)
        // A journal with a feed that waits, where a killed sender would have it.
        let files = FileManager.default
        let aside = stage.folder.file("aside")
        try files.moveItem(atPath: stage.state, toPath: aside)
        try files.createDirectory(
            atPath: stage.state + "/send", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        try files.moveItem(atPath: aside, toPath: stage.state + "/send/1")
        for _ in 1...2 {
            let warnings = findings(try stage.run("check", "--format", "json"), "state")
                .filter { $0.hasPrefix("warning") }
            try #require(warnings.count == 1, "\(warnings)")
            #expect(warnings[0].contains("38 bytes, is pending; the next send or sweep applies"))
        }
    }
}

import APNsProtocol
import Encodings
import Findings
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations
@testable import Settings
@testable import TokenTable

@Suite("The rules about gateways, batches and what was looked at")
struct GatewayRuleTests {
    private static func app(_ fill: (inout Settings.App) -> Void = { _ in }) -> Settings.App {
        var app = Settings.App()
        (app.name, app.topic, app.environment) = ("chat", "com.example.chat", .sandbox)
        fill(&app)
        return app
    }

    /// The findings of a look, each as one text.
    private func told(
        _ look: Look, _ app: Settings.App = app(), _ fill: (inout Facts) -> Void = { _ in }
    ) -> [String] {
        var facts = Facts(look, apps: [app], now: EpochMilliseconds(0))
        fill(&facts)
        return RuleBook.findings(facts).map { finding in
            "\(finding.rule) \(finding.severity.rawValue) \(finding.object): \(finding.sentence)"
                + (finding.cause.map { " (\($0))" } ?? "")
                + (finding.exit == 0 ? "" : " \(finding.exit)")
                + " -> \(finding.cure)"
        }
    }

    @Test("a feedback gateway without a certificate, or at a port of HTTP/2, is told by check")
    func feedback() {
        for (port, isOdd) in [(443, true), (2_197, true), (2_196, false), (2_198, false)] {
            let app = Self.app { $0.feedback = .init(host: "g", port: port) }
            let missing =
                "certificate-missing medium chat/sandbox: it has a feedback gateway and no client "
                + "certificate -> name one in apps[chat/sandbox].certificate"
            let odd =
                "feedback-port medium apps[chat/sandbox].feedback: g:\(port) has a port of HTTP/2 gateways "
                + "-> if it is one, give its address to provider"
            #expect(told(.check, app) == [missing] + (isOdd ? [odd] : []))
            #expect(told(.audit, app) == [])
        }
        #expect(told(.check) == [])
    }

    @Test(
        "Apple's gateway of the other environment is told, whatever the capitals of its name are",
        arguments: [
            ("api.push.apple.com", "production"), ("API.push.apple.com", "production"),
            ("api.sandbox.push.apple.com", nil), ("api.development.push.apple.com", nil),
            ("proxy.example.com", nil),
        ])
    func environments(host: String, theirs: String?) {
        let app = Self.app { $0.provider = .init(host: host, port: 443) }
        let expected = theirs.map {
            "\(host):443: the provider is Apple's for \($0), and the environment is sandbox -> correct "
                + "apps[chat/sandbox].provider.host or apps[chat/sandbox].environment"
        }
        for (look, severity) in [(Look.check, "medium"), (.audit, "high"), (.preflight, "high")] {
            #expect(
                told(look, app)
                    == (expected.map { ["provider-environment \(severity) \($0)"] } ?? []))
        }
    }

    /// What a look says of one gateway that gave a probe some answer.
    private func probed(
        _ probe: Result<ProviderAnswer, Refusal>?, isBinary: Bool = false
    ) -> [String] {
        let app = Self.app { if !isBinary { $0.provider = .init(host: "g", port: 443) } }
        return told(.preflight, app) {
            var gateway = GatewayFacts(app: app, object: "g:443")
            gateway.probe = probe
            $0.gateways = [gateway]
        }
    }

    private static func answer(_ status: Int, _ reason: ProviderReason?) -> ProviderAnswer {
        ProviderAnswer(status: status, body: AnswerBody(reason: reason))
    }

    @Test("the answer to a probe is a fault of the credential, of the topic, or of whoever answers")
    func probes() {
        #expect(probed(nil) == [] && probed(.success(Self.answer(400, .badDeviceToken))) == [])
        #expect(
            probed(.success(Self.answer(403, ProviderReason("InvalidProviderToken")))) == [
                "probe-credential high g:443: the provider answered 403 InvalidProviderToken to a made-up "
                    + "token -> correct apps[chat/sandbox].certificate or apps[chat/sandbox].token-key, and "
                    + "this host's clock"
            ])
        #expect(
            probed(.success(Self.answer(400, ProviderReason("TopicDisallowed")))) == [
                "probe-topic high g:443: the provider answered 400 TopicDisallowed to a made-up token for the "
                    + "topic com.example.chat -> correct apps[chat/sandbox].topic, or use a credential for "
                    + "this topic"
            ])
        let again = "-> run again; where it stays so, check who answers at g:443"
        #expect(
            probed(.success(Self.answer(503, ProviderReason("Shutdown")))) == [
                "probe-inconclusive high g:443: the provider answered 503 Shutdown to a made-up token \(again)"
            ])
        #expect(
            probed(.success(Self.answer(502, nil))) == [
                "probe-inconclusive high g:443: the provider gave no answer of APNs (HTTP 502) to a made-up "
                    + "token \(again)"
            ])
        let none = "probe-inconclusive high g:443: no answer \(again)"
        #expect(probed(.failure(Refusal("no answer"))) == [none])
        #expect(
            probed(.failure(Refusal("no answer")), isBinary: true)
                == [none.replacing(" high ", with: " medium ")])
    }

    @Test(
        "a gateway that cannot be reached leads to its address, and a refused credential to its file"
    )
    func unreachable() {
        let failure = RunFailure(.unreachable, .send, "connecting to g:443: refused")
        for isBinary in [false, true] {
            let app = Self.app {
                if isBinary {
                    $0.binary = .init(host: "g", port: 443)
                } else {
                    $0.provider = .init(host: "g", port: 443)
                }
            }
            var gateway = GatewayFacts(app: app, object: "g:443")
            gateway.unreachable = failure
            let cure =
                isBinary
                ? "apps[chat/sandbox].binary and the network"
                : "apps[chat/sandbox].provider, the network and the certificate"
            let words = "provider-unreachable high g:443: connecting to g:443: refused"
            #expect(
                told(.preflight, app) { $0.gateways = [gateway] } == ["\(words) -> check \(cure)"])
            #expect(
                told(.check, app) { $0.gateways = [gateway] } == ["\(words) 69 -> check \(cure)"])
        }
        var refused = GatewayFacts(app: Self.app(), object: "g:443")
        refused.refused = RunFailure(.configuration, .send, "reading key.p8: no key")
        #expect(
            told(.audit) {
                $0.gateways = [refused]
            } == [
                "credential-unusable high g:443: nothing can be sent with the credential (reading key.p8: no "
                    + "key) -> correct apps[chat/sandbox].certificate or apps[chat/sandbox].token-key"
            ])
    }

    @Test("a credential that cannot be used is told once, with its file")
    func credentials() {
        let failure = RunFailure(.configuration, .identity, "reading /c.pem: no certificate")
        var app = Self.app()
        app.provider = .init(host: "g", port: 443)
        let facts = CredentialFacts(
            app: app, kind: "certificate", file: "/etc/c.pem", identity: nil, problem: failure,
            invalidity: nil)
        #expect(facts.object == "chat/sandbox c.pem" && facts.isShown && facts.isUsed)
        var gateway = GatewayFacts(app: app, object: "g:443")
        gateway.refused = failure
        #expect(
            told(.preflight, app) { ($0.credentials, $0.gateways) = ([facts], [gateway]) } == [
                "credential-unusable high chat/sandbox c.pem: the certificate cannot be used (reading /c.pem: "
                    + "no certificate) -> correct the file, or apps[chat/sandbox] in the settings"
            ])
        app.tokenKey = .init(file: "/k.p8", keyIdentifier: "K", teamIdentifier: "T")
        let unused = CredentialFacts(app: app, kind: "certificate", file: "/c.pem")
        #expect(!unused.isShown && !unused.isUsed)
        app.binary = .init(host: "b", port: 1)
        let both = CredentialFacts(app: app, kind: "certificate", file: "/c.pem")
        #expect(both.isShown && both.isUsed)
    }

    @Test("of batches it is told that nothing is held and quarantined, or that nobody could look")
    func batches() {
        #expect(
            told(.audit) { $0.batches = BatchFacts() } == [
                "open-hold ok holds: nothing waits for a decision -> ",
                "quarantined-evidence ok quarantine: nothing is quarantined -> ",
            ])
        for (said, found, words) in [
            (1, 0, "1 report that should be there, and 0 are"),
            (3, 1, "3 reports that should be there, and 1 is"),
        ] {
            #expect(
                told(.audit) {
                    $0.unbalanced = [UnbalancedBatch(batch: "b", said: said, found: found)]
                }
                    == [
                        "unbalanced-batch high batch b: it has taken in \(words) (another program changed "
                            + "pushsweep_report, or a part of a backup was restored) -> look who may write "
                            + "there; what is missing nobody judges any more, and what is too much goes with the "
                            + "next pushsweep purge"
                    ])
        }
    }

    @Test("a first look at a table says so, and that living and dead may be exchanged")
    func firstLook() {
        func look(_ living: Int, _ stale: Int) -> String {
            told(.audit) {
                var app = AuditedApp(app: "chat", environment: "sandbox")
                (app.tokens.rows, app.tokens.living, app.tokens.stale) = (9, living, stale)
                var report = AuditReport()
                report.apps = [app]
                ($0.report, $0.firstLook) = (report, "t")
            }.first { $0.hasPrefix("first-look") } ?? ""
        }
        #expect(look(2, 2).hasPrefix("first-look low t: this is a first look at the table alone: "))
        #expect(
            look(2, 3).hasPrefix(
                "first-look high t: 3 of 5 rows are dead by these settings: living and dead may be exchanged"
            ))
    }

    @Test(
        "newest registrations in the future are grave where they are more than half",
        arguments: [(1, 2, "medium"), (2, 3, "high"), (2, 4, "medium"), (3, 5, "high")])
    func future(ahead: Int, rows: Int, severity: String) {
        let found = told(.preflight) {
            $0.registrations = (RegistrationClock(rows: rows, ahead: ahead, farthest: 119_999), "t")
        }
        #expect(
            found == [
                "registered-in-future \(severity) t: \(ahead) of the newest \(rows) registrations lie in the "
                    + "future, up to 1 minutes: such a row is never stale -> correct "
                    + "store.active-users.registered-at.zone, or the clock of the program that writes it"
            ])
    }

    @Test("a gate that reads a replica says so, and what is of no app is told by its number")
    func others() {
        #expect(
            told(.preflight) { $0.isReplica = true }.first?.hasPrefix("old-rows medium : a replica")
                == true)
        func rows(_ count: Int) -> [String] {
            told(.audit) { ($0.report, $0.otherRows) = (AuditReport(), count) }
        }
        #expect(rows(0) == [])
        #expect(
            rows(1).first?.contains(": 1 row of the token table belongs to no app and environment")
                == true)
    }
}

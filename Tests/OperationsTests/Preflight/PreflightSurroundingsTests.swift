import APNsProtocol
import APNsSimulator
import Database
import Foundation
import SecureTransport
import Settings
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("What preflight says about evidence, credentials and clocks")
struct PreflightSurroundingsTests {
    /// A client certificate of the stage's authority would need its key; a foreign one serves where no
    /// connection is made.
    private func credential(_ request: CertificateRequest, on stage: PreflightStage) throws
        -> String
    {
        let folder = stage.sender.folder
        try CertificateAuthority().issue(request).write(
            certificate: folder.file("own.pem"), key: folder.file("own.key"))
        return "certificate: {file: \(folder.file("own.pem")), key: \(folder.file("own.key"))}"
    }

    @Test(
        "a healthy app has no finding above a note, and the gate is open",
        arguments: TestEngine.available)
    func healthy(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.recordSweep(hoursAgo: 2)
        try stage.sender.queue(0..<50)
        let report = try stage.look()
        #expect(report.findings.isEmpty, "\(report.findings)")
        #expect(report.gate == "open" && report.exit == 0)
        #expect(report.tokens?.living == 50)
        let hours = try #require(report.hoursSinceSweep)
        #expect(hours > 1.9 && hours < 2.1)
        #expect(stage.sender.gateway.log.totals.requests == 0, "a request was sent")
    }

    // MARK: Evidence

    @Test(
        "what waits is applied before the look, and its tokens are stale then",
        arguments: TestEngine.available)
    func applies(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.report(0..<10)
        let report = try stage.look(lines: spelled(0..<20))
        #expect(report.applied?.applied == 10)
        #expect(report.tokens?.stale == 10)
        #expect(report.severity("waiting-evidence") == nil)
        #expect(report.severity("stale-tokens") == .high)
    }

    @Test("a look that only reads leaves what waits, and says so", arguments: TestEngine.available)
    func readOnly(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.report(0..<10)
        let before = try stage.sender.database.marks()
        let report = try stage.look(lines: spelled(0..<20)) { $0.readOnly = true }
        #expect(report.applied == nil)
        #expect(report.tokens?.stale == 0)
        #expect(report.severity("waiting-evidence") == .medium)
        #expect(try stage.sender.database.marks() == before)
        #expect(try stage.sender.database.rows(of: "pushsweep_evidence") == 10)
        #expect(!FileManager.default.fileExists(atPath: stage.sender.folder.file("state")))
    }

    @Test("a removal that the guard stops is an open hold, also for a look that only reads")
    func hold() throws {
        let stage = try PreflightStage()
        stage.sender.lines = "guard: {floor: 1}"
        try stage.report(0..<50)
        #expect(try stage.look(lines: spelled(90..<100)).severity("open-hold") == .high)
        let again = try stage.look(lines: spelled(90..<100)) { $0.readOnly = true }
        #expect(again.severity("open-hold") == .high)
        #expect(again.gate == "shut" && again.exit == 2)
    }

    @Test("while another run is at work the look goes on and says that nothing was applied")
    func locked() throws {
        let stage = try PreflightStage()
        let report = try withExtendedLifetime(
            try StateFolderLock(stage.sender.folder.file("state"))
        ) {
            try stage.look(lines: spelled(0..<5))
        }
        #expect(report.severity("waiting-evidence") == .medium)
        #expect(report.tokens?.living == 5)
    }

    @Test("quarantined bytes and a damaged journal are findings")
    func doubtfulState() throws {
        let stage = try PreflightStage()
        let feed = try stage.sender.folder.write("feed.bin", [0x65, 0x53, 0xF1, 0x00, 0x00])
        try stage.sender.replayed(feed).ends(65)
        #expect(try stage.look(lines: spelled([1])).severity("quarantined-evidence") == .low)
        let journal = stage.sender.folder.file("state/journal.sqlite")
        try Data("no journal".utf8).write(to: URL(fileURLWithPath: journal))
        let report = try stage.look(lines: spelled([1])) { $0.readOnly = true }
        #expect(report.severity("unreadable-state") == .high)
    }

    @Test("a journal whose records of runs cannot be read shuts the gate, and the rest is judged")
    func unreadableRecords() throws {
        let stage = try PreflightStage()
        try stage.sender.swept().ends(0)
        let journal = SQLiteConnection(
            path: stage.sender.folder.file("state/journal.sqlite"), .existing, busySeconds: 1)
        try journal.connect()
        try journal.run("ALTER TABLE run RENAME TO elsewhere")
        journal.close()
        let report = try stage.look(lines: spelled([900])) { $0.readOnly = true }
        #expect(report.severity("unreadable-state") == .high)
        #expect(report.severity("no-living-tokens") != nil)
    }

    @Test("the last good sweep is known from the journal or the database, and its age is judged")
    func sweepAge() throws {
        let stage = try PreflightStage()
        #expect(try stage.look(lines: spelled([1])).severity("no-recent-sweep") == .medium)
        try stage.recordSweep(hoursAgo: 30)
        #expect(try stage.look(lines: spelled([1])).severity("no-recent-sweep") == .medium)
        #expect(
            try stage.look(lines: spelled([1])) { $0.mostHours = 48 }.severity("no-recent-sweep")
                == nil)
        // A preflight applies what waits and is no sweep.
        #expect(try stage.look(lines: spelled([1])).severity("no-recent-sweep") == .medium)
        try stage.sender.swept().ends(0)
        let report = try stage.look(lines: spelled([1]))
        #expect(report.severity("no-recent-sweep") == nil)
        #expect(try #require(report.hoursSinceSweep) < 1)
    }

    @Test("a state folder that cannot be seen shuts the gate, and one that does not exist does not")
    func unseenState() throws {
        let stage = try PreflightStage()
        let look = { try stage.look(lines: spelled([1])) { $0.readOnly = true } }
        let state = stage.sender.folder.file("state")
        #expect(try look().severity("unreadable-state") == nil)
        // Open to others, so that a run refuses it whoever the user is.
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o755])
        let open = try look()
        #expect(open.severity("unreadable-state") == .high)
        #expect(open.gate == "shut" && open.exit == 2)
        #expect(open.findings.count { $0.rule == "unreadable-state" } == 1, "\(open.findings)")
        // A link without a target, as to a volume that is not mounted.
        try FileManager.default.removeItem(atPath: state)
        try FileManager.default.createSymbolicLink(
            atPath: state, withDestinationPath: state + "-elsewhere")
        #expect(try look().severity("unreadable-state") == .high)
    }

    @Test("a sweep in the future is no success, in the database and in the journal")
    func futureSweep() throws {
        let stage = try PreflightStage()
        try stage.recordSweep(hoursAgo: -400 * 24)
        let recorded = try stage.look(lines: spelled([1]))
        #expect(recorded.severity("no-recent-sweep") == .medium)
        #expect(recorded.lastSweep == nil)
        #expect(recorded.findings.contains { $0.sentence.contains("in the future") })
        // Seen from a clock that is far behind, the sweep of today lies in the future.
        try stage.sender.swept().ends(0)
        #expect(try stage.look(lines: spelled([1])).severity("no-recent-sweep") == nil)
        stage.clockAhead = -40 * 86_400_000
        #expect(try stage.look(lines: spelled([1])).severity("no-recent-sweep") == .medium)
    }

    @Test("the gravest finding is in the first line, also of Markdown")
    func headline() throws {
        let stage = try PreflightStage()
        let report = try stage.look(lines: spelled(0..<90) + spelled(900..<910) + ["x", "y", "z"])
        #expect(report.shutting.isEmpty)
        #expect(report.headline.hasSuffix(" note)"))
        let shut = try stage.look(lines: spelled(900..<910) + ["x"])
        let cause = "no-living-tokens: chat/production: 11 of 11 tokens"
        #expect(shut.lines[0].contains("the gate is shut (") && shut.lines[0].contains(cause))
        #expect(shut.markdown.prefix { $0 != "\n" }.contains("no-living-tokens: chat/production"))
    }

    @Test("what cannot be read ends the look before anything is applied")
    func argumentsFirst() throws {
        let stage = try PreflightStage()
        try stage.report(0..<10)
        #expect(throws: RunFailure.self) { try stage.look(.lines("/nonexistent/tokens")) }
        let foreign = try stage.sender.folder.write(
            "foreign",
            [0xFF, 0xFE] + spelled(0..<3).joined(separator: "\n").utf8.flatMap { [$0, 0] })
        #expect(throws: RunFailure.self) { try stage.look(.lines(foreign)) }
        let context = try RunContext.silent()
        for source in ["/nonexistent/tokens", foreign] {
            let plan = try stage.plan(.lines(source))
            #expect(throws: RunFailure.self) {
                try TokenFilter.run(plan, context) { _ in true }
            }
        }
        #expect(try stage.sender.database.rows(of: "pushsweep_evidence") == 10)
    }

    // MARK: Credentials

    @Test("an expired certificate and one that ends soon are findings")
    func certificateEnds() throws {
        let stage = try PreflightStage()
        var request = CertificateRequest.client()
        request.notAfter = 20 * 86_400
        stage.sender.credential = try credential(request, on: stage)
        #expect(try stage.look(lines: spelled([1])).severity("certificate-ends") == .low)
        request.notAfter = 86_400
        stage.sender.credential = try credential(request, on: stage)
        #expect(try stage.look(lines: spelled([1])).severity("certificate-ends") == .medium)
        (request.notBefore, request.notAfter) = (-86_400, -3_600)
        stage.sender.credential = try credential(request, on: stage)
        let report = try stage.look(lines: spelled([1]))
        #expect(report.severity("certificate-expired") == .high)
        #expect(report.severity("credential-unusable") == nil, "said twice")
        #expect(report.gate == "shut")
        #expect(report.certificateExpires != nil)
    }

    @Test("a certificate that cannot be loaded is a finding")
    func unusable() throws {
        let stage = try PreflightStage()
        let broken = try stage.sender.folder.write("broken.pem", "no certificate")
        stage.sender.credential = "certificate: {file: \(broken)}"
        #expect(try stage.look(lines: spelled([1])).severity("credential-unusable") == .high)
    }

    @Test("a certificate of another topic is a finding; one with a suffix of Apple's is none")
    func topic() throws {
        let stage = try PreflightStage()
        stage.sender.topic = "com.example.other"
        #expect(try stage.look(lines: spelled([1])).severity("certificate-topic") == .high)
        stage.sender.topic = "com.example.chat.voip"
        #expect(try stage.look(lines: spelled([1])).severity("certificate-topic") == nil)
    }

    @Test(
        "a certificate of the other environment is a finding; one for both is none",
        arguments: [
            ("Apple Development IOS Push Services: com.example.chat", "production", true),
            ("Apple Development IOS Push Services: com.example.chat", "sandbox", false),
            ("Apple Production IOS Push Services: com.example.chat", "sandbox", true),
            ("Apple Push Services: com.example.chat", "sandbox", false),
            ("a private gateway's client", "sandbox", false),
        ])
    func environment(_ name: String, _ environment: String, _ isFound: Bool) throws {
        let stage = try PreflightStage()
        stage.sender.environment = environment
        stage.sender.credential = try credential(
            CertificateRequest(commonName: name, usage: .client), on: stage)
        let severity = try stage.look(lines: spelled([1])).severity("certificate-environment")
        #expect(severity == (isFound ? .high : nil))
    }

    @Test(
        "Apple's provider of the other environment, and its closed feedback gateway, are findings")
    func addresses() throws {
        let stage = try PreflightStage()
        let text = try stage.sender.settingsText
        let path = try stage.sender.folder.write(
            "other.yaml",
            text.replacing("host: 127.0.0.1", with: "host: api.sandbox.push.apple.com")
                .replacing(
                    "environment: production",
                    with: "environment: production\n    feedback: {host: feedback.push.apple.com}"))
        let settings = try Settings.load(configFile: path, environment: [:])
        var plan = try PreflightPlan(
            settings, app: nil, environment: nil, subject: PreflightPlan.Subject.none)
        plan.readOnly = true
        let context = try RunContext.silent()
        let report = try Preflight.run(plan, context).report
        #expect(report.severity("provider-environment") == .high)
        #expect(report.severity("feedback-address") == .low)
        #expect(report.tokens == nil && report.subject == "none")
    }

    // MARK: Clocks

    @Test("a look begins before what waits is applied, and ends after it")
    func times() throws {
        let stage = try PreflightStage()
        try stage.report(0..<1)
        // A clock that goes on by a second whenever somebody looks at it.
        let clock = Mutex(EpochMilliseconds.current)
        let silent = try RunContext.silent()
        let context = RunContext(
            now: {
                clock.withLock { time in
                    time = time.advanced(by: 1_000)
                    return time
                }
            }, interrupt: silent.interrupt, log: silent.log)
        let look = try Preflight.run(try stage.plan(PreflightPlan.Subject.none), context)
        let applied = try #require(look.applied?.report)
        #expect(applied.apps.map(\.applied) == [1])
        // Times of one form are in the order of their texts.
        #expect(look.report.started < applied.started && applied.started < applied.ended)
        #expect(applied.ended < look.report.ended)
    }

    @Test("a difference of the clocks is medium, above five minutes high")
    func clocks() throws {
        let stage = try PreflightStage()
        try stage.recordSweep(hoursAgo: 1)
        stage.clockAhead = 60_000
        let report = try stage.look(lines: spelled([1]))
        #expect(report.severity("clock-difference") == .medium)
        #expect(abs(try #require(report.clockDifference) + 60_000) < 10_000)
        stage.clockAhead = -3_600_000
        #expect(try stage.look(lines: spelled([1])).severity("clock-difference") == .high)
    }

    @Test("registrations in the future show a wrong zone", arguments: TestEngine.available)
    func registrations(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine, living: 0..<10)
        let soon = EpochMilliseconds.current.rawValue + 7_200_000
        for number in 10..<15 { try stage.sender.database.register(.numbered(number), at: soon) }
        #expect(try stage.look(lines: spelled([1])).severity("registered-in-future") == .medium)
        for number in 15..<30 { try stage.sender.database.register(.numbered(number), at: soon) }
        let report = try stage.look(lines: spelled([1]))
        #expect(report.severity("registered-in-future") == .high)
        #expect(
            report.findings.contains {
                $0.sentence.contains("119 minutes") || $0.sentence.contains("120 minutes")
            })
    }

    // MARK: The provider

    @Test("a provider that does not answer, or refuses the certificate, is unreachable")
    func provider() throws {
        let stage = try PreflightStage()
        let certificates = try SweepStage.certificates.get()
        stage.sender.credential =
            "certificate: {file: \(certificates.certificate(.foreignClient)), "
            + "key: \(certificates.key(.foreignClient))}"
        #expect(try stage.look(lines: spelled([1])).severity("provider-unreachable") == .high)
        stage.sender.port = 1
        #expect(try stage.look(lines: spelled([1])).severity("provider-unreachable") == .high)
    }

    @Test(
        "the answer to a probe proves what it can, never the environment",
        arguments: [
            (ScriptedReply(.badDeviceToken), ["credential", "topic"], nil),
            (ScriptedReply(.deviceTokenNotForTopic), ["credential"], nil),
            (ScriptedReply(.topicDisallowed), ["credential"], "probe-topic"),
            (ScriptedReply(.badTopic), ["credential"], "probe-topic"),
            (ScriptedReply(.badCertificateEnvironment), [], "probe-credential"),
            (ScriptedReply(.invalidProviderToken), [], "probe-credential"),
            (ScriptedReply.accepted, [], "probe-inconclusive"),
            (ScriptedReply(.unregistered), [], "probe-inconclusive"),
            (ScriptedReply(.serviceUnavailable), [], "probe-inconclusive"),
            (ScriptedReply(.tooManyRequests), [], "probe-inconclusive"),
            (
                ScriptedReply(status: 404, body: Array("<html>".utf8)), [], "probe-inconclusive"
            ),
            (ScriptedReply(status: 403, body: Array("<html>".utf8)), [], "probe-inconclusive"),
            (ScriptedReply(status: 500), [], "probe-inconclusive"),
        ] as [(ScriptedReply, [String], String?)])
    func probe(_ reply: ScriptedReply, _ proves: [String], _ rule: String?) throws {
        var script = ProviderScript()
        script.usual = .reply(reply)
        let stage = try PreflightStage(script: script)
        try stage.recordSweep(hoursAgo: 1)
        let report = try stage.look(lines: spelled([1])) { $0.probes = true }
        #expect(report.probe?.proves == proves)
        #expect(report.probe?.proves.contains("environment") == false)
        #expect(report.findings.map(\.rule) == [rule].compactMap { $0 })
        #expect(report.findings.allSatisfy { $0.severity == .high })
        #expect(report.gate == (rule == nil ? "open" : "shut"))
        #expect(stage.sender.gateway.log.totals.requests == 1)
    }
}

/// The lock of a state folder, as another run holds it.
private final class StateFolderLock {
    private let process: RunningTool

    /// Starts `flock` on the folder's lock and waits until it holds it.
    init(_ state: String) throws {
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        process = try RunningTool(
            program: URL(fileURLWithPath: "/usr/bin/flock"),
            ["\(state)/lock", "/bin/sh", "-c", "echo held; exec sleep 60"])
        _ = process.firstLine()
    }

    deinit { process.signal(SIGKILL) }
}

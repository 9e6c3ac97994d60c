// A demonstration of the main job with real parts: settings, journal, database, reports, and for its
// last lines certificates, TLS and HTTP/2 gateways on loopback. Only the users are invented.
//
// It tells one story: a sender reports an answer 410, a sweep takes it, a device that came back is kept,
// a person asks why, and takes the change back. Gateways come last, since few have one.

import APNsProtocol
import APNsSimulator
import Encodings
import FoundationEssentials
import Glibc
import Looks
import Operations
import Settings
import TokenHygiene
import TokenTable

struct Demo {
    let context: RunContext
    /// Whether the reports of the runs are printed as JSON, and nothing else.
    let isJSON: Bool
    let now: EpochMilliseconds
    private let folder: String
    private let table: DemoTable
    private let settings: Settings

    /// Writes the settings and fills the table.
    init(folder: String, context: RunContext, isJSON: Bool) throws {
        self.folder = folder
        self.context = context
        self.isJSON = isJSON
        now = context.now()
        settings = try Self.settings(in: folder)
        table = try DemoTable(settings, now: now)
        try table.fill(DemoDevice.cast)
    }

    private static func settings(in folder: String, gateways: String = "") throws -> Settings {
        let file = folder + "/pushsweep.yaml"
        try """
        state: state
        store: {url: "sqlite://tokens.sqlite"}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
        \(gateways)
        """.write(toFile: file, atomically: true, encoding: .utf8)
        return try Settings.load(configFile: file, environment: [:])
    }

    private func time(before days: Double) -> EpochMilliseconds {
        now.advanced(by: -Int64(days * 86_400_000))
    }

    private func day(before days: Double) -> Substring { time(before: days).rfc3339.prefix(10) }

    /// Runs the demonstration and returns the exit status of the worst run.
    func play() throws -> ExitStatus {
        .worse(try playEvidence(), try playGateways())
    }

    /// What a sender of one's own sees.
    private func playEvidence() throws -> ExitStatus {
        let dead = DemoDevice.cast.filter(\.isDead)
        say(
            "APNs answered 410 for two devices of a table: gone since \(day(before: DemoDevice.deadFor))."
        )
        for device in dead {
            say(
                "  \(device.user)  \(device.token)  registered \(day(before: device.registered))"
                    + (device.registered < DemoDevice.deadFor ? ", so it came back" : ""))
        }
        say("Their sender: INSERT INTO pushsweep_evidence (app, device_token, status, ...)")
        for device in dead { try table.report(device.token, time(before: DemoDevice.deadFor)) }
        say("$ pushsweep sweep")
        let (swept, run) = sweep(settings)
        for device in dead {
            say("$ pushsweep explain \(device.token.hex.prefix(8))")
            try explain(device)
        }
        say("$ pushsweep undo \(run.prefix(8))")
        let marked = try dead.filter { try !table.isLiving($0) }
        let undo = Undo.run(settings, .run(run), dryRun: false, nil, context)
        if isJSON { report(undo.report, []) }
        undo.failures.forEach(tell)
        let living = try marked.filter { try table.isLiving($0) }.map(\.user)
        say(
            "  \(undo.report.restored) of \(undo.report.entries.counting("change")) taken back, "
                + "living again: \(living.joined(separator: ", "))")
        return .worse(swept, undo.exit)
    }

    private func explain(_ device: DemoDevice) throws {
        guard let beginning = TokenBeginning("\(device.token)") else { return }
        let found = try Explain.run(
            settings, .beginning(beginning), wholeTokens: false, context)
        if isJSON { report(found, []) }
        guard let token = found.tokens.first, let app = token.apps.first else { return }
        let isNewer = token.events.compactMap(\.rule).last == .newer
        say(
            "  \(app.state): a sender would \(app.sends ? "" : "not ")send to it, because it registered "
                + "\(isNewer ? "after" : "before") the 410")
    }

    /// The same with gateways, on simulated ones.
    private func playGateways() throws -> ExitStatus {
        let certificates = try SimulatorCertificates(directory: folder + "/certificates")
        let list = DemoDevice.cast.filter(\.isDead).map { device in
            FeedbackTuple(
                time: EpochSeconds(UInt32(time(before: DemoDevice.deadFor).rawValue / 1000)),
                token: device.token)
        }
        let gateway = try FeedbackGateway(certificates: certificates, feeds: [.tuples(list)])
        let provider = try provider(certificates)
        defer {
            gateway.stop()
            provider.stop()
        }
        let settings = try Self.settings(
            in: folder,
            gateways: """
                    certificate: {file: \(certificates.certificate(.client)), \
                key: \(certificates.key(.client))}
                    feedback: {host: 127.0.0.1, port: \(gateway.port), ca: \(certificates.authority)}
                    provider: {host: 127.0.0.1, port: \(provider.port), ca: \(certificates.authority)}
                """)
        // The queue has a table of its own.
        _ = try SchemaWork.apply(settings, creatingTokens: false)
        say("")
        say("A private gateway (simulated) lists the same two, once:")
        say("$ pushsweep sweep")
        let (swept, _) = sweep(settings)
        return .worse(swept, try send(settings, provider))
    }

    private func send(_ settings: Settings, _ provider: ProviderGateway) throws -> ExitStatus {
        say("Another one takes notifications as APNs does, and answers 410 for eve:")
        say("Their application: INSERT INTO push_queue (app_id, device_token, payload) ...")
        for device in DemoDevice.cast { try table.queue(device.token) }
        say("  one notification for each of \(DemoDevice.cast.map(\.user).joined(separator: ", "))")
        say("$ pushsweep send")
        let sent = tell({ () throws(RunFailure) in
            Send.run(try SendPlan(settings, apps: [], context), context)
        }) { Array($0.lines.prefix(1)) }
        let wire = provider.log.requestsByToken
        let unsent = DemoDevice.cast.filter { wire[$0.token] == nil }.map(\.user)
        let dead = try DemoDevice.cast.filter { try !table.isLiving($0) }.map(\.user)
        say("  never on the wire: \(unsent.joined(separator: ", "))")
        say("  marked now: \(dead.joined(separator: ", "))")
        return sent?.exit ?? .invariant
    }

    /// An HTTP/2 gateway that answers 410 for the devices that are gone.
    private func provider(_ certificates: SimulatorCertificates) throws -> ProviderGateway {
        var script = ProviderScript()
        for device in DemoDevice.cast where device.isGone {
            script.tokens[device.token] = .reply(
                ScriptedReply(.unregistered, timestamp: time(before: 0.04).rawValue))
        }
        return try ProviderGateway(
            certificates: certificates,
            rules: ProviderRules(authentication: .certificate, script: script))
    }
}

extension Demo {
    /// Sweeps and prints the closing sentence. Returns the exit status and the name of the run.
    private func sweep(_ settings: Settings) -> (ExitStatus, run: String) {
        let outcome = tell({ () throws(RunFailure) in
            let plan = try SweepPlan(sweeping: settings, apps: [], dryRun: false, context)
            return Sweep.run(plan, context)
        }) { Array($0.lines.suffix(1)) }
        return (outcome?.exit ?? .invariant, outcome?.report.run ?? "")
    }

    /// Prints the end of a run, or why it did not begin; nil then.
    private func tell<Report>(
        _ run: () throws(RunFailure) -> RunOutcome<Report>, _ lines: (Report) -> [String]
    ) -> RunOutcome<Report>? {
        do {
            let outcome = try run()
            report(outcome.report, lines(outcome.report))
            outcome.failures.forEach(tell)
            return outcome
        } catch {
            tell(error)
            return nil
        }
    }

    private func tell(_ failure: RunFailure) {
        say("  error: \(failure)")
        if isJSON { context.log.error("\(failure)") }
    }

    /// Prints a report as JSON, or lines of it.
    private func report(_ report: some Encodable, _ lines: [String]) {
        if isJSON { StandardStreams.result(document: report) }
        for line in lines { say("  " + line) }
    }

    /// Prints a line of text, unless the output is JSON.
    private func say(_ line: String) {
        if !isJSON { StandardStreams.show([line]) }
    }
}

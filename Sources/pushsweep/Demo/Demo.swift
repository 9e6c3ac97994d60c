// A demonstration of the main job with real parts: certificates, TLS and HTTP/2 gateways on
// loopback, settings, journal, database and report. Only the users are invented.

import APNsProtocol
import APNsSimulator
import Encodings
import Foundation
import Operations
import Settings
import TokenHygiene
import TokenTable

struct Demo {
    let context: RunContext
    /// Whether the reports of the runs are printed as JSON, and nothing else.
    let isJSON: Bool
    let now: EpochMilliseconds
    let provider: ProviderGateway
    let settings: Settings
    private let gateway: FeedbackGateway

    /// Makes certificates, starts the gateways with their lists and answers, and writes the
    /// settings.
    init(folder: String, context: RunContext, isJSON: Bool) throws {
        self.context = context
        self.isJSON = isJSON
        now = context.now()
        let certificates = try SimulatorCertificates(directory: folder + "/certificates")
        let now = now
        let tuples = DemoDevice.cast.flatMap { device in
            device.dead.map { days in
                FeedbackTuple(
                    time: EpochSeconds(UInt32(Self.time(now, before: days).rawValue / 1000)),
                    token: device.token)
            }
        }
        gateway = try FeedbackGateway(certificates: certificates, feeds: [.tuples(tuples)])
        provider = try Self.provider(certificates, now)
        let file = folder + "/pushsweep.yaml"
        try Self.settingsText(certificates, feedback: gateway.port, provider: provider.port)
            .write(toFile: file, atomically: true, encoding: .utf8)
        settings = try Settings.load(configFile: file, environment: [:])
    }

    static func time(_ now: EpochMilliseconds, before days: Double) -> EpochMilliseconds {
        now.advanced(by: -Int64(days * 86_400_000))
    }

    private static func settingsText(
        _ certificates: SimulatorCertificates, feedback: UInt16, provider: UInt16
    ) -> String {
        """
        state: state
        store: {url: "sqlite://tokens.sqlite"}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: \(certificates.certificate(.client)), \
        key: \(certificates.key(.client))}
            feedback: {host: 127.0.0.1, port: \(feedback), ca: \(certificates.authority)}
            provider: {host: 127.0.0.1, port: \(provider), ca: \(certificates.authority)}
        """ + "\n"
    }

    /// Runs the demonstration and returns the exit status of the worst run.
    func play() throws -> ExitStatus {
        say("1. A gateway that speaks the feedback protocol listens on 127.0.0.1:\(gateway.port).")
        say("   It asks for a client certificate and hands out its list once:")
        for device in DemoDevice.cast where !device.dead.isEmpty {
            let times = device.dead.map { Self.time(now, before: $0).rfc3339.prefix(16) }
            say("     \(device.token) dead at \(times.joined(separator: " and at "))")
        }
        let table = try DemoTable(settings, now: now)
        try table.fill(DemoDevice.cast)
        headline("2. The table active_users:")
        try table.rows().forEach { say("     " + $0) }

        headline("3. pushsweep sweep")
        let first = sweep()
        headline("4. The table afterwards, and why:")
        for line in try table.rows(explaining: DemoDevice.cast) { say("     " + line) }

        headline("5. pushsweep sweep, once more: the gateway has forgotten its list")
        let before = try table.rows()
        let second = sweep()
        let unchanged = try table.rows() == before
        say("   rows changed by the second run: \(unchanged ? "none" : "some, which is a defect")")
        gateway.stop()
        guard unchanged else { return .invariant }
        return .worse(.worse(first, second), try playSending(table))
    }

    private func sweep() -> ExitStatus {
        tell { () throws(RunFailure) in
            let plan = try SweepPlan(sweeping: settings, apps: [], dryRun: false, context)
            return Sweep.run(plan, context)
        }
    }

    /// Prints the end of a run, or why it did not begin. Returns its exit status.
    private func tell<Report>(
        _ run: () throws(RunFailure) -> RunOutcome<Report>
    ) -> ExitStatus {
        do {
            let outcome = try run()
            report(outcome.report, outcome.report.lines)
            for failure in outcome.failures { tell(failure) }
            return outcome.exit
        } catch {
            tell(error)
            return error.exit
        }
    }

    private func tell(_ failure: RunFailure) {
        say("   error: \(failure)")
        if isJSON { context.log.error("\(failure)") }
    }

    /// Prints a report as JSON, or its lines.
    func report(_ report: some Encodable, _ lines: [String]) {
        if isJSON { StandardStreams.result(document: report) }
        for line in lines { say("   " + line) }
    }

    /// Prints a line of text, unless the output is JSON.
    func say(_ line: String) {
        if !isJSON { StandardStreams.result(line) }
    }

    /// Prints an empty line and a line of text, unless the output is JSON.
    func headline(_ line: String) {
        if !isJSON { StandardStreams.result(["", line]) }
    }
}

/// The second half of the demo: sends to the tokens that the sweep left in the table.
extension Demo {
    /// Starts the HTTP/2 gateway, which answers 410 for devices that are gone.
    static func provider(
        _ certificates: SimulatorCertificates, _ now: EpochMilliseconds
    ) throws -> ProviderGateway {
        var script = ProviderScript()
        for device in DemoDevice.cast {
            guard let hours = device.gone else { continue }
            let time = time(now, before: hours / 24).rawValue
            script.tokens[device.token] = .reply(ScriptedReply(.unregistered, timestamp: time))
        }
        return try ProviderGateway(
            certificates: certificates,
            rules: ProviderRules(authentication: .certificate, script: script))
    }

    /// Queues and sends notifications, and prints the results.
    func playSending(_ table: DemoTable) throws -> ExitStatus {
        defer { provider.stop() }
        let queued = DemoDevice.cast.filter { $0.sending != nil }
        headline("6. Another gateway speaks HTTP/2, as APNs does, on 127.0.0.1:\(provider.port).")
        for device in queued {
            guard let hours = device.gone else { continue }
            let time = Self.time(now, before: hours / 24).rfc3339.prefix(16)
            say("   It takes every notification but that for \(device.token), gone since \(time).")
        }
        headline("7. pushsweep enqueue, for \(queued.map(\.user).joined(separator: ", "))")
        let queue = try Enqueue.run(
            Enqueue.Content(payload: Array(#"{"aps":{"alert":"Hello"}}"#.utf8), from: "the demo"),
            to: .tokens(queued.map(\.token.hex)), app: nil, environment: nil, settings, context)
        report(queue, queue.lines)

        headline("8. pushsweep send")
        let status = tell { () throws(RunFailure) in
            Send.run(try SendPlan(settings, apps: [], context), context)
        }
        headline("9. The queue afterwards, and the table:")
        for line in try table.queue(explaining: queued) { say("     " + line) }
        say("")
        for line in try table.rows() { say("     " + line) }
        let wire = provider.log.requestsByToken
        let unsent = queued.filter { wire[$0.token] == nil }.map(\.user)
        say("   never on the wire: \(unsent.joined(separator: ", "))")
        return status
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import Operations
import TokenHygiene

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
        report(queue, ["\(queue.app)/\(queue.environment): queued \(queue.queued)"])

        headline("8. pushsweep send")
        let status = send()
        headline("9. The queue afterwards, and the table:")
        for line in try table.queue(explaining: queued) { say("     " + line) }
        say("")
        for line in try table.rows() { say("     " + line) }
        let wire = provider.log.requestsByToken
        let unsent = queued.filter { wire[$0.token] == nil }.map(\.user)
        say("   never on the wire: \(unsent.joined(separator: ", "))")
        return status
    }

    private func send() -> ExitStatus {
        do {
            return tell(Send.run(try SendPlan(settings, apps: [], context), context))
        } catch {
            return tell(error)
        }
    }
}

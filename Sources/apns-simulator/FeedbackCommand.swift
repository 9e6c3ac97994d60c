import APNsSimulator
import ArgumentParser
import SecureTransport

/// `apns-simulator feedback`: the feedback service (port 2196).
struct FeedbackCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feedback",
        abstract: "Serve feedback lists over TLS, each list once.",
        discussion: """
            Requires a client certificate of its own authority, sends a list directly after the \
            handshake, and ends with close_notify. Each list is sent on one connection; later \
            connections get an empty list. Several lists are sent on successive connections, in \
            the order: --feed, --hex, --tuples, --generate.

            The first line on standard output is one JSON object: `listening`, `ca`, \
            `certificate`, `key`, `pkcs12`, `passphrase-file`. Then one JSON object per ended \
            connection: `connection` (its number), `peer`, `subject`, `tls`, `list` (number from \
            0, absent when none was left), `bytes` (sent), `end` (\(ends)), `error`.

            Ends with exit status 0 on SIGTERM or SIGINT.
            """)

    private static let ends = [
        FeedbackRecord.End.closeNotify, .noCloseNotify, .reset, .heldOpen, .plaintext,
        .handshakeFailed, .unfinished,
    ].map(\.rawValue).joined(separator: ", ")

    @OptionGroup var listener: ListenerOptions

    @Flag(help: "End after one list has been served.")
    var once = false

    @OptionGroup(title: "Lists")
    var lists: FeedOptions

    @OptionGroup(title: "Behaviour")
    var behaviour: BehaviourOptions

    func run() throws {
        let stop = try Interrupt()
        try StopSignals.trip(stop)
        let certificates = try SimulatorCertificates(directory: listener.directory)
        let endsAfterOne = once
        let gateway = try FeedbackGateway(
            certificates: certificates, feeds: lists.sources(), behaviour: behaviour.behaviour(),
            host: listener.host, port: listener.port
        ) { record in
            // A closed standard output does not stop the gateway.
            try? Output.line(record)
            if endsAfterOne, record.list != nil {
                stop.trip()
            }
        }
        try Output.line(Greeting(gateway, certificates))
        _ = stop.wait(until: .never)
        gateway.stop()
    }

    /// The first line of output.
    private struct Greeting: Encodable {
        let listening: String
        let paths: CertificatePaths

        init(_ gateway: FeedbackGateway, _ certificates: SimulatorCertificates) {
            listening = gateway.address.description
            paths = CertificatePaths(certificates)
        }

        enum CodingKeys: String, CodingKey {
            case listening
        }

        func encode(to encoder: any Encoder) throws {
            try paths.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(listening, forKey: .listening)
        }
    }
}

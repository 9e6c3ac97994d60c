import APNsProtocol
import APNsSimulator
import ArgumentParser
import Encodings
import SecureTransport

/// `apns-simulator binary`: the binary provider service (port 2195).
struct BinaryGatewayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "binary",
        abstract: "Accept notifications of the older binary interface, and feed back dead tokens.",
        discussion: discussion(
            PackageResources.binary_txt, ends: BinaryConnectionRecord.End.allCases.map(\.rawValue)))

    @OptionGroup var listener: ListenerOptions

    @Option(
        help: help(
            "Port of the feedback service; 0 takes a free one. Without it there is none.", "port"))
    var feedbackPort: UInt16?

    @OptionGroup(title: "Answers")
    var answers: AnswerOptions

    @OptionGroup(title: "Behaviour")
    var behaviour: BinaryBehaviourOptions

    func run() throws {
        var feedback: FeedbackGateway?
        let gateway = try listener.serve { certificates, _ in
            let dead = DeadTokens()
            // A closed standard output does not stop the gateway.
            let gateway = try BinaryGateway(
                certificates: certificates,
                rules: behaviour.rules(script: answers.script(), known: answers.knownTokens()),
                dead: dead, keepsRecords: false, host: listener.host, port: listener.port,
                onEnd: { try? Output.line($0) })
            feedback = try feedbackPort.map { port in
                try FeedbackGateway(
                    certificates: certificates, dead: dead, host: listener.host, port: port
                ) { try? Output.line(["feedback": $0]) }
            }
            return (gateway, feedback.map { ["feedback": $0.address.description] } ?? [:])
        }
        feedback?.stop()
        try? Output.line(["totals": gateway.log.totals])
    }
}

/// The options of the gateway's behaviour; by default that of APNs.
struct BinaryBehaviourOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Milliseconds of silence after which a packet that waits for later frames is sent.",
            valueName: "ms"))
    var quiet: Int = 100

    @Option(help: help("Bytes of an error packet per TLS record.", "bytes"))
    var packetPiece: Int?

    @Option(help: help("Close after this many bytes of a packet.", "bytes"))
    var packetBytes: Int?

    @Flag(help: "Reset the connection behind an error packet, which may then be lost.")
    var resetBehindPacket = false

    @Option(help: help("Shut each connection down with status 10 at its n-th frame.", "n"))
    var shutdownAt: Int?

    @Option(help: help("Close each connection at its n-th frame, without a packet.", "n"))
    var closeAt: Int?

    @Option(help: help("Reset each connection at its n-th frame.", "n"))
    var resetAt: Int?

    @Option(
        help: ArgumentHelp(
            "Apply --shutdown-at, --close-at and --reset-at to this many first connections.",
            valueName: "count"))
    var connections: Int?

    func validate() throws {
        try refuse([
            ("--shutdown-at", shutdownAt, 1), ("--close-at", closeAt, 1),
            ("--reset-at", resetAt, 1), ("--packet-piece", packetPiece, 1), ("--quiet", quiet, 0),
            ("--packet-bytes", packetBytes, 0), ("--connections", connections, 0),
        ])
    }

    /// The rules of the options. Throws `Refusal`.
    func rules(script: BinaryScript, known: Set<DeviceToken>?) throws -> BinaryRules {
        var rules = BinaryRules()
        rules.script = script
        rules.known = known
        rules.quiet = .milliseconds(quiet)
        rules.packetPiece = packetPiece
        rules.packetBytes = packetBytes
        rules.resetsBehindPacket = resetBehindPacket
        rules.shutdownAt = shutdownAt
        rules.closeAt = closeAt
        rules.resetAt = resetAt
        rules.connections = connections
        return rules
    }
}

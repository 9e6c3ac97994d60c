import APNsSimulator
import ArgumentParser
import SecureTransport

/// How it is served. Without any of these: as Apple did.
struct BehaviourOptions: ParsableArguments {
    @Option(help: "What happens first.")
    var opening = FeedbackBehaviour.Opening.normal

    @Option(help: "What happens after the last byte.")
    var ending = FeedbackBehaviour.Ending.closeNotify

    @Option(help: ArgumentHelp("Bytes per write and TLS record; 1 is a drip.", valueName: "bytes"))
    var writeSize: Int?

    @Option(help: ArgumentHelp("Milliseconds between two writes.", valueName: "ms"))
    var delay: Int = 0

    @Option(
        help: ArgumentHelp(
            "Fall silent after this many bytes, for the time of --pause.", valueName: "bytes"))
    var pauseAfter: Int?

    @Option(help: ArgumentHelp("Milliseconds of silence at --pause-after.", valueName: "ms"))
    var pause: Int = 1000

    @Option(
        help: ArgumentHelp(
            "End after this many bytes, even inside a tuple; then as --ending says.",
            valueName: "bytes"))
    var closeAfter: Int?

    @Option(help: ArgumentHelp("Reset the connection after this many bytes.", valueName: "bytes"))
    var resetAfter: Int?

    @Option(
        help: ArgumentHelp(
            "Send these bytes, in hex, in place of the list, which is lost.", valueName: "hex"))
    var instead: String?

    @Option(help: ArgumentHelp("Send these bytes, in hex, after the list.", valueName: "hex"))
    var append: String?

    @Flag(help: "Start the list over on the same connection until the client leaves.")
    var endless = false

    @Flag(name: .customLong("repeat"), help: "Serve the lists again, in turn, not each once.")
    var repeats = false

    @Option(help: "Certificate to show.")
    var certificate = FeedbackBehaviour.Certificate.valid

    @Flag(help: "Refuse every client certificate, with a TLS alert.")
    var refuseClient = false

    @Option(help: "Least TLS version.")
    var tlsMin = VersionName.tls12

    @Option(help: "Highest TLS version; 1.1 lowers --tls-min too.")
    var tlsMax = VersionName.tls13

    func validate() throws {
        for (name, value) in [
            ("--write-size", writeSize.map { $0 - 1 }), ("--delay", delay),
            ("--pause-after", pauseAfter), ("--pause", pause), ("--close-after", closeAfter),
            ("--reset-after", resetAfter),
        ] {
            if let value, value < 0 {
                throw ValidationError("\(name) is too small")
            }
        }
    }

    /// The behaviour asked for.
    func behaviour() throws -> FeedbackBehaviour {
        var behaviour = FeedbackBehaviour()
        behaviour.opening = opening
        behaviour.ending = ending
        behaviour.writeSize = writeSize
        behaviour.delay = .milliseconds(delay)
        behaviour.pause = pauseAfter.map { .init(afterByte: $0, duration: .milliseconds(pause)) }
        behaviour.closeAfter = closeAfter
        behaviour.resetAfter = resetAfter
        behaviour.replacement = try instead.map(FeedbackBehaviour.bytes(hex:))
        behaviour.appendix = try append.map(FeedbackBehaviour.bytes(hex:)) ?? []
        behaviour.isEndless = endless
        behaviour.repeats = repeats
        behaviour.certificate = certificate
        behaviour.refusesClients = refuseClient
        behaviour.versions = min(tlsMin.version, tlsMax.version)...tlsMax.version
        return behaviour
    }
}

/// TLS versions as people call them.
enum VersionName: String, CaseIterable, ExpressibleByArgument {
    case tls11 = "1.1"
    case tls12 = "1.2"
    case tls13 = "1.3"

    var version: TLSServerContext.Version {
        switch self {
        case .tls11: .tls11
        case .tls12: .tls12
        case .tls13: .tls13
        }
    }
}

extension FeedbackBehaviour.Opening: ExpressibleByArgument {}
extension FeedbackBehaviour.Ending: ExpressibleByArgument {}
extension FeedbackBehaviour.Certificate: ExpressibleByArgument {}

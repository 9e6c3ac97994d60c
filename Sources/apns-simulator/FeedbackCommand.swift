import APNsSimulator
import ArgumentParser
import Encodings
import FoundationEssentials
import SecureTransport

/// `apns-simulator feedback`: the feedback service (port 2196).
struct FeedbackCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feedback",
        abstract: "Serve feedback lists over TLS, each list once.",
        discussion: discussion(
            PackageResources.feedback_txt, ends: FeedbackRecord.End.allCases.map(\.rawValue)))

    @OptionGroup var listener: ListenerOptions

    @Flag(help: "End after one list has been served.")
    var once = false

    @OptionGroup(title: "Lists")
    var lists: ListOptions

    @OptionGroup(title: "Behaviour")
    var behaviour: BehaviourOptions

    func run() throws {
        let endsAfterOne = once
        _ = try listener.serve { certificates, stop in
            let gateway = try FeedbackGateway(
                certificates: certificates, feeds: lists.sources(),
                behaviour: behaviour.behaviour(), host: listener.host, port: listener.port
            ) { record in
                // A closed standard output does not stop the gateway.
                try? Output.line(record)
                if endsAfterOne, record.list != nil { stop.trip() }
            }
            return (gateway, [:])
        }
    }
}

/// The options of the gateway's behaviour; by default that of Apple's gateway.
struct BehaviourOptions: ParsableArguments {
    @Option(help: "Beginning of each connection.")
    var opening = FeedbackBehaviour.Opening.normal

    @Option(help: "End of each connection, after the last byte.")
    var ending = FeedbackBehaviour.Ending.closeNotify

    @Option(help: help("Bytes per write and TLS record.", "bytes"))
    var writeSize: Int?

    @Option(help: help("Milliseconds between two writes.", "ms"))
    var delay: Int = 0

    @Option(help: help("Pause after this many bytes, for the time of --pause.", "bytes"))
    var pauseAfter: Int?

    @Option(help: help("Milliseconds of the pause at --pause-after.", "ms"))
    var pause: Int = 1000

    @Option(
        help: help("End after this many bytes, even inside a tuple, as --ending says.", "bytes"))
    var closeAfter: Int?

    @Option(help: help("Reset the connection after this many bytes.", "bytes"))
    var resetAfter: Int?

    @Option(help: help("Send these bytes, in hex, instead of the list, which is lost.", "hex"))
    var instead: String?

    @Option(help: help("Send these bytes, in hex, after the list.", "hex"))
    var append: String?

    @Flag(help: "Repeat the list on the same connection until the client closes it.")
    var endless = false

    @Flag(
        name: .customLong("repeat"), help: "Serve the lists again, in turn, instead of once each.")
    var repeats = false

    @Option(help: "Certificate to send.")
    var certificate = FeedbackBehaviour.Certificate.valid

    @Flag(help: "Refuse every client certificate, with a TLS alert.")
    var refuseClient = false

    @Option(help: "Lowest TLS version.")
    var tlsMin = TLSServerContext.Version.tls12

    @Option(help: "Highest TLS version; 1.1 lowers --tls-min too.")
    var tlsMax = TLSServerContext.Version.tls13

    func validate() throws {
        try refuse([
            ("--write-size", writeSize, 1), ("--delay", delay, 0), ("--pause-after", pauseAfter, 0),
            ("--pause", pause, 0), ("--close-after", closeAfter, 0),
            ("--reset-after", resetAfter, 0),
        ])
    }

    /// The behaviour of the options.
    func behaviour() throws -> FeedbackBehaviour {
        var behaviour = FeedbackBehaviour()
        behaviour.opening = opening
        behaviour.ending = ending
        behaviour.writeSize = writeSize
        behaviour.delay = .milliseconds(delay)
        behaviour.pause = pauseAfter.map { .init(afterByte: $0, duration: .milliseconds(pause)) }
        behaviour.closeAfter = closeAfter
        behaviour.resetAfter = resetAfter
        behaviour.replacement = try instead.map(ListSource.hexBytes)
        behaviour.appendix = try append.map(ListSource.hexBytes) ?? []
        behaviour.isEndless = endless
        behaviour.repeats = repeats
        behaviour.certificate = certificate
        behaviour.refusesClients = refuseClient
        behaviour.versions = min(tlsMin, tlsMax)...tlsMax
        return behaviour
    }
}

extension TLSServerContext.Version: ExpressibleByArgument {}
extension FeedbackBehaviour.Opening: ExpressibleByArgument {}
extension FeedbackBehaviour.Ending: ExpressibleByArgument {}
extension FeedbackBehaviour.Certificate: ExpressibleByArgument {}

/// The options of the lists to serve.
struct ListOptions: ParsableArguments {
    @Option(help: help("Serve the bytes of this file. May be given several times.", "file"))
    var feed: [String] = []

    @Option(help: "Serve these bytes, in hex. May be given several times.")
    var hex: [String] = []

    @Option(
        help: ArgumentHelp(
            "Serve the tuples in this file. May be given several times.",
            discussion: "One `<seconds since 1970> <token in hex>` per line; # starts a comment.",
            valueName: "file"))
    var tuples: [String] = []

    @Option(help: help("Serve this many computed tuples.", "count"))
    var generate: Int?

    @Option(help: "Seed of the computed tokens.")
    var seed: UInt64 = 1

    @Option(
        help: help(
            "Bytes per computed token; given several times, lengths are used in turn.", "bytes"))
    var length: [UInt16] = [32]

    @Option(help: help("Time of the first computed tuple, in seconds since 1970.", "seconds"))
    var from: UInt32 = 1_700_000_000

    @Option(help: help("Seconds after which the computed times repeat.", "seconds"))
    var span: UInt32 = 86400

    func validate() throws { try refuse([("--generate", generate, 0)]) }

    /// The lists in the order of the help text.
    func sources() throws -> [ListSource] {
        var sources: [ListSource] = []
        for path in feed {
            guard FileManager.default.isReadableFile(atPath: path) else {
                throw Refusal("opening the feed \(path): no such readable file")
            }
            sources.append(.file(path))
        }
        sources += try hex.map { .bytes(try ListSource.hexBytes($0)) }
        sources += try tuples.map { try .lines(text(of: $0, "tuples"), of: $0) }
        if let generate {
            let feed = GeneratedList(
                count: generate, seed: seed, lengths: length, firstTime: from, timeSpan: span)
            sources.append(.generated(feed))
        }
        return sources
    }
}

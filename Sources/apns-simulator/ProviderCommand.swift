import APNsProtocol
import APNsSimulator
import ArgumentParser
import Encodings
import FoundationEssentials
import Glibc
import SecureTransport

/// `apns-simulator provider`: the HTTP/2 provider service (port 443).
struct ProviderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider",
        abstract: "Accept notifications over HTTP/2, and answer or misbehave as the options say.",
        discussion: discussion(PackageResources.provider_txt))

    @OptionGroup var listener: ListenerOptions

    @Flag(help: "Require a client certificate in place of provider tokens.")
    var clientCertificate = false

    @Option(help: help("Id of the token key.", "id"))
    var keyID = "ABC123DEFG"

    @Option(help: help("Id of the token key's team.", "id"))
    var teamID = "DEF123GHIJ"

    @Option(
        name: .customLong("bundle-id"),
        help: ArgumentHelp(
            "Existing bundle id; without this option all bundle ids exist. May be given several times.",
            valueName: "id"))
    var bundleIDs: [String] = []

    @OptionGroup(title: "Answers")
    var answers: AnswerOptions

    @OptionGroup(title: "Behaviour")
    var behaviour: ProviderBehaviourOptions

    func run() throws {
        let gateway = try listener.serve { certificates, _ in
            var authentication = ProviderAuthentication.certificate
            var more: [String: String] = [:]
            if !clientCertificate {
                _ = try ProviderTokenClaims(
                    keyID: keyID, teamID: teamID, issuedAt: EpochSeconds(0))
                let path = "\(listener.directory)/AuthKey_\(keyID).p8"
                if !FileManager.default.fileExists(atPath: path) {
                    try CertificateMint.write(try SigningKey().pem(), to: path, mode: 0o600)
                }
                authentication = .token([
                    keyID: .init(key: try SigningKey(file: path).verificationKey, teamID: teamID)
                ])
                more = ["token-key": path, "key-id": keyID, "team-id": teamID]
            }
            // A closed standard output does not stop the gateway.
            var rules = ProviderRules(
                authentication: authentication,
                bundleIDs: bundleIDs.isEmpty ? nil : Set(bundleIDs), script: try answers.script())
            rules.known = try answers.knownTokens()
            let gateway = try ProviderGateway(
                certificates: certificates, rules: rules,
                scenario: behaviour.scenario(), settings: behaviour.settings(),
                keepsRecords: false, host: listener.host, port: listener.port
            ) { try? Output.line($0) }
            return (gateway, more)
        }
        try? Output.line(["totals": gateway.log.totals])
    }
}

/// The options of the gateway's behaviour; by default that of APNs.
struct ProviderBehaviourOptions: ParsableArguments {
    @Option(help: help("Most streams that a client may have open.", "count"))
    var maxStreams: UInt32 = 1000

    @Option(help: help("Bytes that a client may send on a new stream.", "bytes"))
    var initialWindow: UInt32 = 65_535

    @Flag(help: "Never send WINDOW_UPDATE.")
    var closedWindows = false

    @Option(
        help: ArgumentHelp(
            "Change the number of streams at the n-th request of a connection. May be given "
                + "several times.", valueName: "n=count"))
    var maxStreamsAt: [String] = []

    @Option(help: help("Send GOAWAY at the n-th request of a connection, then close it.", "n"))
    var goAwayAt: Int?

    @Option(help: help("Requests that are not processed at GOAWAY.", "count"))
    var goAwayUnprocessed = 0

    @Option(help: help("Requests that are processed and not answered at GOAWAY.", "count"))
    var goAwayUnanswered = 0

    @Option(help: help("Last stream in GOAWAY, instead of the true one.", "id"))
    var goAwayLastStream: Int32?

    @Option(help: help("Error code of GOAWAY.", "code"))
    var goAwayCode: UInt32 = 0

    @Option(help: help("Answer no request from the n-th of a connection on.", "n"))
    var stallAt: Int?

    @Option(help: help("Reset each connection at its n-th request.", "n"))
    var resetAt: Int?

    @Option(
        help: help("Apply --go-away-at and --reset-at to this many first connections.", "count"))
    var connections: Int?

    func validate() throws {
        try refuse([
            ("--go-away-at", goAwayAt, 1), ("--stall-at", stallAt, 1), ("--reset-at", resetAt, 1),
            ("--go-away-unprocessed", goAwayUnprocessed, 0),
            ("--go-away-unanswered", goAwayUnanswered, 0), ("--connections", connections, 0),
        ])
    }

    /// The HTTP/2 settings of the options.
    func settings() -> HTTP2ServerSettings {
        var settings = HTTP2ServerSettings()
        settings.maximumStreams = maxStreams
        settings.initialWindow = initialWindow
        settings.opensWindows = !closedWindows
        return settings
    }

    /// What the gateway does to each connection. Of two faults at one request the last of the help
    /// counts. Throws `Refusal`.
    func scenario() throws -> ProviderScenario {
        var usual = ProviderScenario.Connection()
        for text in maxStreamsAt {
            let halves = text.split(separator: "=", omittingEmptySubsequences: false)
            guard halves.count == 2, let request = Int(halves[0]), request > 0,
                let count = UInt32(halves[1])
            else {
                throw Refusal(
                    "reading --max-streams-at \(text): give two numbers as in 500=1")
            }
            usual.set(.changeStreams(count), at: request)
        }
        if let stallAt {
            usual.set(.noAnswer, at: stallAt)
            usual.actions.removeSubrange(stallAt...)
            usual.rest = .noAnswer
        }
        var faulty = usual
        if let resetAt { faulty.set(.resetConnection, at: resetAt) }
        faulty.goAway = goAwayAt.map {
            var goAway = ProviderScenario.GoAway(
                atRequest: $0, unprocessed: goAwayUnprocessed, unanswered: goAwayUnanswered)
            goAway.lastStreamID = goAwayLastStream
            goAway.code = HTTP2ErrorCode(rawValue: goAwayCode)
            return goAway
        }
        guard let connections else { return ProviderScenario([faulty]) }
        return ProviderScenario(Array(repeating: faulty, count: connections) + [usual])
    }
}

import APNsProtocol
import APNsSimulator
import ArgumentParser
import Foundation
import SecureTransport

/// `apns-simulator provider`: the HTTP/2 provider service (port 443).
struct ProviderCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider",
        abstract: "Accept notifications over HTTP/2, and answer or misbehave as the options say.",
        discussion: """
            Checks every request as APNs does: method, path, credential, headers, topic, payload \
            and token, and refuses an invalid one with APNs' reason. Valid ones get the answer of \
            --answer, else of --at, else of --share; all others are accepted.

            An answer is `ok`, a reason such as BadDeviceToken, a reason of a 410 with its time as in \
            Unregistered@1700000000123 (milliseconds), `stall` (never answered), `reset:CODE` (a \
            number of RFC 9113 section 7; 7 means unprocessed), or `body:STATUS:TEXT`.

            Clients send a provider token, signed with the key whose path is printed, or with \
            --client-certificate a certificate.

            The first line on standard output is one JSON object: `listening`, `ca`, \
            `certificate`, `key`, `pkcs12`, `passphrase-file`, and for tokens `token-key`, \
            `key-id`, `team-id`. Then one JSON object per ended connection: `connection`, `peer`, \
            `subject`, `requests`, `end`; and at the end one with `totals`: `requests`, \
            `answered` (by status), `unanswered`, `unprocessed`.

            Ends with exit status 0 on SIGTERM or SIGINT.
            """)

    @OptionGroup var listener: ListenerOptions

    @Flag(help: "Require a client certificate in place of provider tokens.")
    var clientCertificate = false

    @Option(help: ArgumentHelp("Id of the token key.", valueName: "id"))
    var keyID = "ABC123DEFG"

    @Option(help: ArgumentHelp("Id of the token key's team.", valueName: "id"))
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
        let stop = try Interrupt()
        try StopSignals.trip(stop)
        let certificates = try SimulatorCertificates(directory: listener.directory)
        let tokenKey =
            clientCertificate ? nil : try TokenKeyFile(directory: listener.directory, keyID: keyID)
        let authentication: ProviderAuthentication =
            if let tokenKey {
                .token([
                    keyID: .init(key: tokenKey.key.verificationKey, teamID: teamID)
                ])
            } else {
                .certificate
            }
        let gateway = try ProviderGateway(
            certificates: certificates,
            rules: ProviderRules(
                authentication: authentication,
                bundleIDs: bundleIDs.isEmpty ? nil : Set(bundleIDs), script: answers.script()),
            misbehaviour: behaviour.misbehaviour(), settings: behaviour.settings(),
            keepsRecords: false, host: listener.host, port: listener.port
        ) { record in
            // A closed standard output does not stop the gateway.
            try? Output.line(record)
        }
        var greeting = certificates.paths
        greeting["listening"] = gateway.address.description
        if let tokenKey {
            greeting["token-key"] = tokenKey.path
            greeting["key-id"] = keyID
            greeting["team-id"] = teamID
        }
        try Output.line(greeting)
        _ = stop.wait(until: .never)
        gateway.stop()
        try? Output.line(["totals": gateway.log.totals])
    }
}

/// The signing key of the simulator's clients, stored in the directory of the certificates.
struct TokenKeyFile {
    let path: String
    let key: SigningKey

    init(directory: String, keyID: String) throws {
        _ = try ProviderTokenClaims(
            keyID: keyID, teamID: "DEF123GHIJ", issuedAt: EpochSeconds(0))
        path = "\(directory)/AuthKey_\(keyID).p8"
        if !FileManager.default.fileExists(atPath: path) {
            try CertificateMint.write(try SigningKey().pem(), to: path, mode: 0o600)
        }
        key = try SigningKey(file: path)
    }
}

/// The options of the gateway's behaviour; by default that of APNs.
struct ProviderBehaviourOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Most streams that a client may have open.", valueName: "count"))
    var maxStreams: UInt32 = 1000

    @Option(
        help: ArgumentHelp("Bytes that a client may send on a new stream.", valueName: "bytes"))
    var initialWindow: UInt32 = 65_535

    @Flag(help: "Never send WINDOW_UPDATE.")
    var closedWindows = false

    @Option(
        help: ArgumentHelp(
            "Change the number of streams at the n-th request of a connection. May be given "
                + "several times.", valueName: "n=count"))
    var maxStreamsAt: [String] = []

    @Option(
        help: ArgumentHelp(
            "Send GOAWAY at the n-th request of a connection, then close it.", valueName: "n"))
    var goAwayAt: Int?

    @Option(
        help: ArgumentHelp("Requests that are not processed at GOAWAY.", valueName: "count"))
    var goAwayUnprocessed = 0

    @Option(
        help: ArgumentHelp(
            "Requests that are processed and not answered at GOAWAY.", valueName: "count"))
    var goAwayUnanswered = 0

    @Option(help: ArgumentHelp("Last stream in GOAWAY, instead of the true one.", valueName: "id"))
    var goAwayLastStream: Int32?

    @Option(help: ArgumentHelp("Error code of GOAWAY.", valueName: "code"))
    var goAwayCode: UInt32 = 0

    @Option(
        help: ArgumentHelp(
            "Answer no request from the n-th of a connection on.", valueName: "n"))
    var stallAt: Int?

    @Option(help: ArgumentHelp("Reset each connection at its n-th request.", valueName: "n"))
    var resetAt: Int?

    @Option(
        help: ArgumentHelp(
            "Apply --go-away-at and --reset-at to this many first connections.", valueName: "count")
    )
    var connections: Int?

    func validate() throws {
        for (name, value) in [
            ("--go-away-at", goAwayAt), ("--stall-at", stallAt), ("--reset-at", resetAt),
        ] {
            if let value, value < 1 {
                throw ValidationError("\(name) counts requests from 1")
            }
        }
        guard goAwayUnprocessed >= 0, goAwayUnanswered >= 0 else {
            throw ValidationError("--go-away-unprocessed and --go-away-unanswered take counts")
        }
    }

    /// The HTTP/2 settings of the options.
    func settings() -> HTTP2ServerSettings {
        var settings = HTTP2ServerSettings()
        settings.maximumStreams = maxStreams
        settings.initialWindow = initialWindow
        settings.opensWindows = !closedWindows
        return settings
    }

    /// The misbehaviour of the options. Throws `SimulatorFailure`.
    func misbehaviour() throws -> ProviderMisbehaviour {
        var misbehaviour = ProviderMisbehaviour()
        if let goAwayAt {
            var goAway = ProviderMisbehaviour.GoAway(atRequest: goAwayAt)
            goAway.unprocessed = goAwayUnprocessed
            goAway.unanswered = goAwayUnanswered
            goAway.lastStreamID = goAwayLastStream
            goAway.code = HTTP2ErrorCode(rawValue: goAwayCode)
            misbehaviour.goAway = goAway
        }
        misbehaviour.stallAtRequest = stallAt
        misbehaviour.resetAtRequest = resetAt
        misbehaviour.connections = connections
        for text in maxStreamsAt {
            let halves = text.split(separator: "=", omittingEmptySubsequences: false)
            guard halves.count == 2, let request = Int(halves[0]), let count = UInt32(halves[1])
            else {
                throw SimulatorFailure(
                    "reading --max-streams-at \(text): give two numbers as in 500=1")
            }
            misbehaviour.settingsChanges.append(
                .init(atRequest: request, maximumStreams: count))
        }
        return misbehaviour
    }
}

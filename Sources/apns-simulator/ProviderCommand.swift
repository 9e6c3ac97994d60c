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
        try Output.line(
            Greeting(
                listening: gateway.address.description, paths: CertificatePaths(certificates),
                tokenKey: tokenKey?.path, keyID: tokenKey.map { _ in keyID },
                teamID: tokenKey.map { _ in teamID }))
        _ = stop.wait(until: .never)
        gateway.stop()
        try? Output.line(Farewell(totals: .init(gateway.log.totals)))
    }

    /// The first line of output.
    private struct Greeting: Encodable {
        let listening: String
        let paths: CertificatePaths
        let tokenKey: String?
        let keyID: String?
        let teamID: String?

        enum CodingKeys: String, CodingKey {
            case listening
            case tokenKey = "token-key"
            case keyID = "key-id"
            case teamID = "team-id"
        }

        func encode(to encoder: any Encoder) throws {
            try paths.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(listening, forKey: .listening)
            try container.encodeIfPresent(tokenKey, forKey: .tokenKey)
            try container.encodeIfPresent(keyID, forKey: .keyID)
            try container.encodeIfPresent(teamID, forKey: .teamID)
        }
    }

    /// The last line of output.
    private struct Farewell: Encodable {
        let totals: Totals

        struct Totals: Encodable {
            let requests: Int
            let answered: [String: Int]
            let unanswered: Int
            let unprocessed: Int

            init(_ totals: RequestLog.Totals) {
                requests = totals.requests
                answered = Dictionary(
                    uniqueKeysWithValues: totals.answered.map { ("\($0.key)", $0.value) })
                unanswered = totals.unanswered
                unprocessed = totals.unprocessed
            }
        }
    }
}

/// The signing key of the simulator's clients, stored in the directory of the certificates.
struct TokenKeyFile {
    let path: String
    let key: SigningKey

    /// Makes the key when it is missing.
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

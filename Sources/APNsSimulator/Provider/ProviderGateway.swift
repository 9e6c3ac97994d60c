import SecureTransport

/// An HTTP/2 provider gateway (ports 443 and 2197) on this machine. It checks every request as APNs
/// does, answers by its script, misbehaves on request, and logs the requests.
///
/// It serves from its init until `stop` or its deinit. One thread accepts connections, and each
/// connection has a thread of its own.
package final class ProviderGateway: Sendable {
    private let acceptor: ClientAcceptor

    /// The requests received.
    package let log: RequestLog

    /// Starts serving; port 0 takes a free one. `keepsRecords` keeps every request in the log, at
    /// some 100 bytes each; without it the log only counts. `onEnd` is called on the connection's
    /// thread at its end. Throws `TransportFailure` or `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, rules: ProviderRules,
        misbehaviour: ProviderMisbehaviour = ProviderMisbehaviour(),
        scenario: ProviderScenario? = nil,
        settings: HTTP2ServerSettings = HTTP2ServerSettings(), keepsRecords: Bool = true,
        host: String = "127.0.0.1", port: UInt16 = 0,
        onEnd: (@Sendable (ProviderConnectionRecord) -> Void)? = nil
    ) throws {
        let needsCertificate = if case .certificate = rules.authentication { true } else { false }
        var contexts: [ProviderScenario.Opening: TLSServerContext] = [:]
        for opening in Set(scenario?.connections.map(\.opening) ?? [.normal]) {
            guard let credentials = opening.credentials else { continue }
            contexts[opening] = try TLSServerContext(
                identity: certificates.identity(credentials.certificate),
                clients: needsCertificate
                    ? .required(authorities: certificates.authority) : .notAsked,
                alpn: credentials.protocols)
        }
        let stopping = try Interrupt()
        let log = RequestLog(keepsRecords: keepsRecords)
        let server = ProviderServer(
            rules: rules, misbehaviour: misbehaviour, scenario: scenario, settings: settings,
            contexts: contexts, log: log, stop: stopping)
        self.log = log
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            let record = server.serve(client, number: number)
            onEnd?(record)
        } refuse: { client, _, _ in
            client.reset()
        }
    }

    deinit {
        stop()
    }

    /// The address it listens on.
    package var address: SocketAddress { acceptor.listener.address }

    /// The port it listens on.
    package var port: UInt16 { acceptor.listener.port }

    /// Ends all connections with GOAWAY and waits for them.
    package func stop() {
        acceptor.stop()
    }
}

/// One ended connection to the provider gateway.
package struct ProviderConnectionRecord: Sendable, Equatable, Encodable {
    /// The number of the connection, counted from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate, if it sent one.
    package internal(set) var subject: String?
    /// The number of complete requests.
    package internal(set) var requests = 0
    /// The end of the connection, in words.
    package internal(set) var end = ""
}

/// Serves the clients of a provider gateway, with the values that all connections share.
struct ProviderServer: Sendable {
    let rules: ProviderRules
    let misbehaviour: ProviderMisbehaviour
    let scenario: ProviderScenario?
    let settings: HTTP2ServerSettings
    let contexts: [ProviderScenario.Opening: TLSServerContext]
    let log: RequestLog
    let stop: Interrupt
    let sequence = RequestSequence()

    /// The time limit for a handshake, so that no client blocks a thread for ever.
    private static let handshakeTimeout = Duration.seconds(30)

    /// Serves one client to the end of its connection.
    func serve(_ client: AcceptedConnection, number: Int) -> ProviderConnectionRecord {
        var record = ProviderConnectionRecord(connection: number, peer: client.peer)
        let opening = scenario?.connection(number).opening ?? .normal
        switch opening {
        case .reset: client.reset()
        case .plaintext: _ = client.sendPlaintext(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        case .silent: _ = client.staySilent(deadline: .in(Self.handshakeTimeout), interrupt: stop)
        default: break
        }
        guard let context = contexts[opening] else {
            record.end = "\(opening)"
            return record
        }
        do throws(TransportFailure) {
            let connection = try client.handshake(
                context: context, timeout: Self.handshakeTimeout, interrupt: stop)
            record.subject = connection.peerSubject
            guard opening != .close else {
                connection.close()
                record.end = "closed after the handshake"
                return record
            }
            var handler = ProviderConnectionHandler(
                try HTTP2ServerSession(connection, settings: settings), server: self,
                number: number, certificateTopic: Self.bundleID(record.subject))
            record.end = handler.serve(stop: stop)
            record.requests = handler.received
        } catch {
            record.end = error.description
        }
        return record
    }

    /// The UID of a subject in the form of RFC 2253, where Apple puts the bundle id.
    static func bundleID(_ subject: String?) -> String? {
        subject?.split(separator: ",").first { $0.hasPrefix("UID=") }
            .map { String($0.dropFirst("UID=".count)) }
    }
}

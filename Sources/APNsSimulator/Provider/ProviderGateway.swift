import SecureTransport

/// The HTTP/2 provider service (ports 443 and 2197) on this machine: judges every request as APNs
/// does, answers by script, misbehaves on request, and keeps book.
///
/// It serves from the moment it is made until `stop` or until it is dropped; one thread accepts,
/// and each connection has its own.
package final class ProviderService: Sendable {
    private let reception: Reception

    /// Everything it was sent.
    package let book: ProviderBook

    /// Starts serving; port 0 takes a free one. `keepsRecords` keeps every request in the book, at
    /// some 100 bytes each; without it the book only counts. `onEnd` is called on the connection's
    /// thread at its end. Throws `TransportFailure` or `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, gateway: ProviderGateway,
        misbehaviour: ProviderMisbehaviour = ProviderMisbehaviour(), plot: ProviderPlot? = nil,
        settings: HTTP2ServerSettings = HTTP2ServerSettings(), keepsRecords: Bool = true,
        host: String = "127.0.0.1", port: UInt16 = 0,
        onEnd: (@Sendable (ProviderConnectionRecord) -> Void)? = nil
    ) throws {
        let needsCertificate = if case .certificate = gateway.authentication { true } else { false }
        let context = try TLSServerContext(
            identity: certificates.identity(.server),
            clients: needsCertificate
                ? .required(authorities: certificates.authority) : .notAsked,
            alpn: ["h2"])
        let stopping = try Interrupt()
        let book = ProviderBook(keepsRecords: keepsRecords)
        let desk = ProviderDesk(
            gateway: gateway, misbehaviour: misbehaviour, plot: plot, settings: settings,
            context: context, book: book, stop: stopping)
        self.book = book
        reception = try Reception(host: host, port: port, stopping: stopping) { client, number in
            let record = desk.serve(client, number: number)
            onEnd?(record)
        } turnAway: { client, _, _ in
            client.reset()
        }
    }

    deinit {
        stop()
    }

    /// Where it listens.
    package var address: SocketAddress { reception.listener.address }

    /// The port it listens on.
    package var port: UInt16 { reception.listener.port }

    /// Ends all connections with GOAWAY and waits for them.
    package func stop() {
        reception.stop()
    }
}

/// What became of one connection to the provider listener.
package struct ProviderConnectionRecord: Sendable, Equatable, Encodable {
    /// Counts accepted connections from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate, if it showed one.
    package internal(set) var subject: String?
    /// Whole requests.
    package internal(set) var requests = 0
    /// How it ended, in words.
    package internal(set) var end = ""
}

/// What all connections of a provider service share.
struct ProviderDesk: Sendable {
    let gateway: ProviderGateway
    let misbehaviour: ProviderMisbehaviour
    let plot: ProviderPlot?
    let settings: HTTP2ServerSettings
    let context: TLSServerContext
    let book: ProviderBook
    let stop: Interrupt
    let sequence = RequestSequence()

    /// A client that does not finish its handshake must not hold a thread for ever.
    private static let handshakeTimeout = Duration.seconds(30)

    /// Runs to the end of the connection.
    func serve(_ client: AcceptedConnection, number: Int) -> ProviderConnectionRecord {
        var record = ProviderConnectionRecord(connection: number, peer: client.peer)
        let greeting = plot?.scene(number).greeting ?? .welcome
        switch greeting {
        case .welcome, .leave: break
        case .hangUp: client.reset()
        case .plaintext: _ = client.sendPlaintext(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        case .mute: _ = client.staySilent(deadline: .in(Self.handshakeTimeout), interrupt: stop)
        }
        guard greeting == .welcome || greeting == .leave else {
            record.end = "\(greeting)"
            return record
        }
        do throws(TransportFailure) {
            let connection = try client.handshake(
                context: context, timeout: Self.handshakeTimeout, interrupt: stop)
            record.subject = connection.peerSubject
            guard greeting == .welcome else {
                connection.close()
                record.end = "left after the handshake"
                return record
            }
            var served = ProviderConnection(
                try HTTP2ServerSession(connection, settings: settings), desk: self,
                number: number, certificateTopic: Self.bundleID(record.subject))
            record.end = served.serve(stop: stop)
            record.requests = served.received
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

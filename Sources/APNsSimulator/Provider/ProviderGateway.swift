import APNsProtocol
import SecureTransport

/// An HTTP/2 provider gateway (ports 443 and 2197) on this machine. It checks every request as APNs
/// does, answers by its script, misbehaves on request, and logs the requests.
package final class ProviderGateway: LocalGateway {
    package let acceptor: ClientAcceptor

    /// The requests received.
    package let log: RequestLog

    /// Starts serving; port 0 takes a free one. `keepsRecords` keeps every request in the log, at
    /// some 100 bytes each; without it the log only counts. `onEnd` is called on the connection's
    /// thread at its end. Throws `TransportFailure` or `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, rules: ProviderRules,
        scenario: ProviderScenario = ProviderScenario(),
        settings: HTTP2ServerSettings = HTTP2ServerSettings(), keepsRecords: Bool = true,
        host: String = "127.0.0.1", port: UInt16 = 0,
        onEnd: (@Sendable (ProviderConnectionRecord) -> Void)? = nil
    ) throws {
        let needsCertificate = if case .certificate = rules.authentication { true } else { false }
        var contexts: [ProviderScenario.Opening: TLSServerContext] = [:]
        for opening in Set(scenario.connections.map(\.opening)) {
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
            rules: rules, scenario: scenario, settings: settings, contexts: contexts, log: log,
            stop: stopping)
        self.log = log
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            let record = server.serve(client, number: number)
            log.add(record)
            onEnd?(record)
        }
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
    let scenario: ProviderScenario
    let settings: HTTP2ServerSettings
    let contexts: [ProviderScenario.Opening: TLSServerContext]
    let log: RequestLog
    let stop: Interrupt

    /// Serves one client to the end of its connection.
    func serve(_ client: AcceptedConnection, number: Int) -> ProviderConnectionRecord {
        var record = ProviderConnectionRecord(connection: number, peer: client.peer)
        let opening = scenario.connection(number).opening
        switch opening {
        case .reset: client.reset()
        case .plaintext: _ = client.sendPlaintext(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        case .silent:
            _ = client.staySilent(deadline: .in(AcceptedConnection.usualTimeout), interrupt: stop)
        default: break
        }
        guard let context = contexts[opening] else {
            record.end = "\(opening)"
            return record
        }
        do throws(TransportFailure) {
            let connection = try client.handshake(context: context, interrupt: stop)
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

/// One request and its treatment by the gateway.
package struct ProviderRecord: Sendable, Equatable {
    /// The end of a request.
    package enum End: Sendable, Equatable {
        /// It was answered with this status.
        case answered(status: Int)
        /// It was processed, and the client got no answer.
        case unanswered
        /// It was not processed, and the client can see that: its stream is above the last one of a
        /// GOAWAY, or was reset with REFUSED_STREAM.
        case unprocessed
    }

    /// The number of its connection, counted from 1.
    package let connection: Int
    /// The device token in its path; nil where it cannot be read.
    package let token: DeviceToken?
    /// Its `apns-id`.
    package let id: APNsID
    package let end: End
    /// Whether the gateway accepted the notification (status 200, or a 200 that was not sent).
    package let isAccepted: Bool
}

/// Counts of requests to a provider gateway.
package struct RequestTotals: GatewayTotals, Equatable {
    /// Requests of any kind.
    package internal(set) var requests = 0
    /// Answered requests by status.
    package internal(set) var answered: [Int: Int] = [:]
    /// Requests that were processed and got no answer.
    package internal(set) var unanswered = 0
    /// Requests that were not processed.
    package internal(set) var unprocessed = 0

    package typealias Connection = ProviderConnectionRecord

    package init() {}

    /// Adds one request with how it ended.
    package mutating func count(_ record: ProviderRecord) {
        requests += 1
        switch record.end {
        case .answered(let status): answered[status, default: 0] += 1
        case .unanswered: unanswered += 1
        case .unprocessed: unprocessed += 1
        }
    }
}

package typealias RequestLog = GatewayLog<RequestTotals>

extension RequestLog {
    /// The number of requests for each token, unprocessed ones included.
    package var requestsByToken: [DeviceToken: Int] {
        records.reduce(into: [:]) { counts, record in
            if let token = record.token { counts[token, default: 0] += 1 }
        }
    }
}

import APNsProtocol
import Foundation
import SecureTransport

/// A binary provider gateway (port 2195) on this machine. It requires a client certificate, reads
/// frames of commands 0, 1 and 2, answers nothing but errors, and logs the notifications.
///
/// It serves from its init until `stop` or its deinit. One thread accepts connections, and each
/// connection has a thread of its own.
package final class BinaryGateway: Sendable {
    private let acceptor: ClientAcceptor

    /// The notifications received.
    package let log: BinaryLog
    /// The dead tokens, to be shared with a feedback gateway.
    package let dead: DeadTokens

    /// Starts serving; port 0 takes a free one. `keepsRecords` keeps every notification in the log,
    /// at some 300 bytes each; without it the log only counts. `now` is the time of a sending to a
    /// dead token. `onEnd` is called on the connection's thread at its end. Throws
    /// `TransportFailure` or `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, rules: BinaryRules = BinaryRules(),
        dead: DeadTokens = DeadTokens(),
        certificate: FeedbackBehaviour.Certificate = .valid, refusesClients: Bool = false,
        keepsRecords: Bool = true, host: String = "127.0.0.1", port: UInt16 = 0,
        now: @escaping @Sendable () -> EpochSeconds = BinaryGateway.wallClock,
        onEnd: (@Sendable (BinaryConnectionRecord) -> Void)? = nil
    ) throws {
        let context = try TLSServerContext(
            identity: certificates.identity(certificate.name),
            clients: refusesClients
                ? .refused(authorities: certificates.authority)
                : .required(authorities: certificates.authority))
        let stopping = try Interrupt()
        let log = BinaryLog(keepsRecords: keepsRecords)
        let server = BinaryServer(
            rules: rules, dead: dead, context: context, log: log, now: now, stop: stopping)
        (self.log, self.dead) = (log, dead)
        let ended: @Sendable (BinaryConnectionRecord) -> Void = { record in
            log.add(record)
            onEnd?(record)
        }
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            ended(server.serve(client, number: number))
        } refuse: { client, number, failure in
            var record = BinaryConnectionRecord(connection: number, peer: client.peer)
            record.error = failure.description
            ended(record)
        }
    }

    deinit {
        stop()
    }

    /// The time of the system.
    package static let wallClock: @Sendable () -> EpochSeconds = {
        EpochSeconds(UInt32(clamping: Int64(Date().timeIntervalSince1970)))
    }

    /// The address it listens on.
    package var address: SocketAddress { acceptor.listener.address }

    /// The port it listens on.
    package var port: UInt16 { acceptor.listener.port }

    /// Ends all connections and waits for them.
    package func stop() {
        acceptor.stop()
    }
}

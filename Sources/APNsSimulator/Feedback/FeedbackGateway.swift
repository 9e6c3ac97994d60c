import Foundation
import SecureTransport

/// A feedback gateway (port 2196) on this machine. It requires a client certificate, serves each
/// list once, and misbehaves on request.
///
/// It serves from its init until `stop` or its deinit. One thread accepts connections, and each
/// connection has a thread of its own.
package final class FeedbackGateway: Sendable {
    private let queue: FeedQueue
    private let log: ConnectionLog
    private let acceptor: ClientAcceptor

    /// Starts serving.
    ///
    /// Each of `feeds` is served to one connection, in order. Later connections get an empty list,
    /// unless the behaviour repeats or `dead` has tokens; then they get these. Port 0 takes a free one. `onEnd` is called on the connection's
    /// thread as soon as the gateway has finished its side. Throws `TransportFailure` or
    /// `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, feeds: [FeedSource] = [],
        dead: DeadTokens? = nil, behaviour: FeedbackBehaviour = FeedbackBehaviour(),
        host: String = "127.0.0.1",
        port: UInt16 = 0, onEnd: (@Sendable (FeedbackRecord) -> Void)? = nil
    ) throws {
        let context = try TLSServerContext(
            identity: certificates.identity(behaviour.certificate.name),
            clients: behaviour.refusesClients
                ? .refused(authorities: certificates.authority)
                : .required(authorities: certificates.authority),
            versions: behaviour.versions)
        let stopping = try Interrupt()
        let queue = FeedQueue(feeds, repeats: behaviour.repeats, dead: dead)
        let log = ConnectionLog(onEnd: onEnd)
        let server = FeedbackServer(
            behaviour: behaviour, context: context, queue: queue, stop: stopping)
        self.queue = queue
        self.log = log
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            server.serve(client, number: number, ended: log.add)
        } refuse: { client, number, failure in
            var record = FeedbackRecord(connection: number, peer: client.peer)
            record.error = failure.description
            log.add(record)
        }
    }

    deinit {
        stop()
    }

    /// The address it listens on.
    package var address: SocketAddress { acceptor.listener.address }

    /// The port it listens on.
    package var port: UInt16 { acceptor.listener.port }

    /// Adds a list for a later connection.
    package func add(_ feed: FeedSource) {
        queue.add(feed)
    }

    /// The records so far, in the order of their ends.
    package var records: [FeedbackRecord] { log.records }

    /// Waits until `count` connections have ended or `timeout` has passed. Returns the records so
    /// far.
    package func records(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> [FeedbackRecord] {
        log.wait(for: count, until: .in(timeout))
    }

    /// Ends all connections and waits for them. Lists that are being sent stay unfinished.
    package func stop() {
        acceptor.stop()
    }
}

/// One ended connection to the feedback gateway.
package struct FeedbackRecord: Sendable, Equatable, Encodable {
    /// The end of a connection.
    package enum End: String, Sendable, Encodable {
        /// The list was served, and the connection closed with close_notify.
        case closeNotify = "close-notify"
        /// The connection was closed without close_notify.
        case noCloseNotify = "no-close-notify"
        /// The gateway reset the connection.
        case reset
        /// The connection stayed open until the client closed it or the gateway stopped.
        case heldOpen = "held-open"
        /// The gateway answered without TLS.
        case plaintext
        /// The handshake failed; `error` holds the reason.
        case handshakeFailed = "handshake-failed"
        /// The client closed or the gateway stopped before the end; `error` holds the reason.
        case unfinished
    }

    /// The number of the connection, counted from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate; nil before a handshake.
    package internal(set) var subject: String?
    /// The negotiated TLS version.
    package internal(set) var tls: String?
    /// The number of the list, from 0; nil when there was none left.
    package internal(set) var list: Int?
    /// The number of bytes written: to TLS, or to the socket in plaintext.
    package internal(set) var bytes = 0
    /// The end of the connection.
    package internal(set) var end = End.unfinished
    /// The message of a failure.
    package internal(set) var error: String?

    init(connection: Int, peer: String) {
        self.connection = connection
        self.peer = peer
    }
}

/// The log of ended connections; a caller can wait for records.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class ConnectionLog: @unchecked Sendable {
    private let changed = NSCondition()
    private var kept: [FeedbackRecord] = []
    private let onEnd: (@Sendable (FeedbackRecord) -> Void)?

    init(onEnd: (@Sendable (FeedbackRecord) -> Void)?) {
        self.onEnd = onEnd
    }

    var records: [FeedbackRecord] {
        changed.withLock { kept }
    }

    /// Adds the record of a connection on which the gateway has finished its side.
    func add(_ record: FeedbackRecord) {
        changed.withLock {
            kept.append(record)
            changed.broadcast()
        }
        onEnd?(record)
    }

    /// Waits until there are `count` records, at most until the deadline.
    func wait(for count: Int, until deadline: Deadline) -> [FeedbackRecord] {
        changed.withLock {
            while kept.count < count, !deadline.hasPassed {
                // Short waits, because NSCondition uses the wall clock, which may jump.
                _ = changed.wait(until: Date(timeIntervalSinceNow: 0.2))
            }
            return kept
        }
    }
}

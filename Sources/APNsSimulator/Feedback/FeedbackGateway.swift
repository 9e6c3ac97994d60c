import Foundation
import SecureTransport

/// A feedback service (port 2196) on this machine: requires a client certificate, hands out each
/// list once, and misbehaves on request.
///
/// It serves from the moment it is made until `stop` or until it is dropped; one thread accepts,
/// and each connection has its own.
package final class FeedbackGateway: Sendable {
    private let shelf: FeedbackShelf
    private let book: FeedbackRecordBook
    private let reception: Reception

    /// Starts serving.
    ///
    /// Each of `feeds` goes to one connection, in order; after them every list is empty, unless
    /// the behaviour repeats. Port 0 takes a free one. `onEnd` is called on the connection's
    /// thread as soon as the gateway has done its part. Throws `TransportFailure` or
    /// `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, feeds: [FeedSource] = [],
        behaviour: FeedbackBehaviour = FeedbackBehaviour(), host: String = "127.0.0.1",
        port: UInt16 = 0, onEnd: (@Sendable (FeedbackRecord) -> Void)? = nil
    ) throws {
        let context = try TLSServerContext(
            identity: certificates.identity(behaviour.certificate.name),
            clients: behaviour.refusesClients
                ? .refused(authorities: certificates.authority)
                : .required(authorities: certificates.authority),
            versions: behaviour.versions)
        let stopping = try Interrupt()
        let shelf = FeedbackShelf(feeds, repeats: behaviour.repeats)
        let book = FeedbackRecordBook(onEnd: onEnd)
        let service = FeedbackService(
            behaviour: behaviour, context: context, shelf: shelf, stop: stopping)
        self.shelf = shelf
        self.book = book
        reception = try Reception(host: host, port: port, stopping: stopping) { client, number in
            service.serve(client, number: number, ended: book.ended)
        } turnAway: { client, number, failure in
            var record = FeedbackRecord(connection: number, peer: client.peer)
            record.error = failure.description
            book.ended(record)
        }
    }

    deinit {
        stop()
    }

    /// Where it listens.
    package var address: SocketAddress { reception.listener.address }

    /// The port it listens on.
    package var port: UInt16 { reception.listener.port }

    /// Adds a list for a later connection, as new failures would.
    package func offer(_ feed: FeedSource) {
        shelf.add(feed)
    }

    /// The records so far, in the order of their ends.
    package var records: [FeedbackRecord] { book.records }

    /// Waits until so many connections have ended, or `timeout` has passed; the records so far.
    package func records(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> [FeedbackRecord] {
        book.wait(for: count, until: .in(timeout))
    }

    /// Ends all connections and waits for them. Lists under way stay unfinished.
    package func stop() {
        reception.stop()
    }
}

/// What became of one connection to the feedback listener.
package struct FeedbackRecord: Sendable, Equatable, Encodable {
    /// How a connection ended.
    package enum End: String, Sendable, Encodable {
        /// Served and closed with close_notify.
        case closeNotify = "close-notify"
        /// Closed without close_notify.
        case noCloseNotify = "no-close-notify"
        /// Reset by the gateway.
        case reset
        /// Held open or silent until the client left or the gateway stopped.
        case heldOpen = "held-open"
        /// Answered without TLS.
        case plaintext
        /// The handshake failed; `error` says why.
        case handshakeFailed = "handshake-failed"
        /// The client went away, or the gateway stopped, before the end; `error` says more.
        case unfinished
    }

    /// Counts accepted connections from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate; nil before a handshake.
    package internal(set) var subject: String?
    /// The version agreed on.
    package internal(set) var tls: String?
    /// Which list it was given, from 0; nil when there was none left.
    package internal(set) var list: Int?
    /// Bytes handed out: to TLS, or to the socket in plaintext.
    package internal(set) var bytes = 0
    /// How it ended.
    package internal(set) var end = End.unfinished
    /// The sentence of a failure.
    package internal(set) var error: String?

    init(connection: Int, peer: String) {
        self.connection = connection
        self.peer = peer
    }
}

/// Records of ended connections, to be waited for.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class FeedbackRecordBook: @unchecked Sendable {
    private let changed = NSCondition()
    private var kept: [FeedbackRecord] = []
    private let onEnd: (@Sendable (FeedbackRecord) -> Void)?

    init(onEnd: (@Sendable (FeedbackRecord) -> Void)?) {
        self.onEnd = onEnd
    }

    var records: [FeedbackRecord] {
        changed.withLock { kept }
    }

    /// The gateway has done its part of a connection.
    func ended(_ record: FeedbackRecord) {
        changed.withLock {
            kept.append(record)
            changed.broadcast()
        }
        onEnd?(record)
    }

    /// Waits for so many records, at most until the deadline.
    func wait(for count: Int, until deadline: Deadline) -> [FeedbackRecord] {
        changed.withLock {
            while kept.count < count, !deadline.hasPassed {
                // In portions, because NSCondition knows only the wall clock, which may jump.
                _ = changed.wait(until: Date(timeIntervalSinceNow: 0.2))
            }
            return kept
        }
    }
}

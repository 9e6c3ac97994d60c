import APNsProtocol
import SecureTransport
import Synchronization

/// A feedback gateway (port 2196) on this machine. It requires a client certificate, serves each
/// list once, and misbehaves on request.
package final class FeedbackGateway: LocalGateway {
    private let queue: ListQueue
    private let ended: Watched<[FeedbackRecord]>
    package let acceptor: ClientAcceptor

    /// Starts serving.
    ///
    /// Each of `feeds` is served to one connection, in order. Later connections get an empty list,
    /// unless the behaviour repeats or `dead` has tokens; then they get these. Port 0 takes a free one. `onEnd` is called on the connection's
    /// thread as soon as the gateway has finished its side. Throws `TransportFailure` or
    /// `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, feeds: [ListSource] = [],
        dead: DeadTokens? = nil, behaviour: FeedbackBehaviour = FeedbackBehaviour(),
        host: String = "127.0.0.1",
        port: UInt16 = 0, onEnd: (@Sendable (FeedbackRecord) -> Void)? = nil
    ) throws {
        let context = try certificates.context(
            behaviour.certificate.name, refusing: behaviour.refusesClients,
            versions: behaviour.versions)
        let stopping = try Interrupt()
        let queue = ListQueue(feeds, repeats: behaviour.repeats, dead: dead)
        let ended = Watched<[FeedbackRecord]>([])
        let end: @Sendable (FeedbackRecord) -> Void = { record in
            ended.change { $0.append(record) }
            onEnd?(record)
        }
        let server = FeedbackServer(
            behaviour: behaviour, context: context, queue: queue, stop: stopping)
        (self.queue, self.ended) = (queue, ended)
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            server.serve(client, number: number, ended: end)
        }
    }

    /// Adds a list for a later connection.
    package func add(_ feed: ListSource) {
        queue.add(feed)
    }

    /// The records so far, in the order of their ends.
    package var records: [FeedbackRecord] { ended.present }

    /// Waits until `count` connections have ended or `timeout` has passed. Returns the records so
    /// far.
    package func records(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> [FeedbackRecord] {
        ended.wait(until: .in(timeout)) { $0.count >= count }
    }
}

/// One ended connection to the feedback gateway.
package struct FeedbackRecord: Sendable, Equatable, Encodable {
    /// The end of a connection.
    package enum End: String, Sendable, Encodable, CaseIterable {
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

/// The tokens whose app is gone, as the gateways of one simulator know them. What is sent to a dead
/// token over the binary interface is accepted and never delivered; the token goes to the list that
/// the feedback service gives to its next client, with the time of the sending. Source: Apple,
/// "Binary Provider API" (archived), "The Feedback Service".
package final class DeadTokens: Sendable {
    private struct State {
        var dead: Set<DeviceToken> = []
        /// Notifications so far to tokens that die after some.
        var delivered: [DeviceToken: Int] = [:]
        var listed: [DeviceToken: EpochSeconds] = [:]
        var order: [DeviceToken] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// From now on the token is dead.
    package func kill(_ token: DeviceToken) {
        state.withLock { _ = $0.dead.insert(token) }
    }

    /// The app was installed again: the token is alive, and leaves the list where it is there.
    package func revive(_ token: DeviceToken) {
        state.withLock { state in
            state.dead.remove(token)
            state.delivered[token] = nil
            if state.listed.removeValue(forKey: token) != nil {
                state.order.removeAll { $0 == token }
            }
        }
    }

    /// The tokens on the list that wait for the next client.
    package var waiting: Int { state.withLock { $0.order.count } }

    /// Takes the list in the order of the first sending to each token, with the time of the last;
    /// it is empty afterwards.
    package func take() -> [FeedbackTuple] {
        state.withLock { state in
            let tuples = state.order.compactMap { token in
                state.listed[token].map { FeedbackTuple(time: $0, token: token) }
            }
            state.order = []
            state.listed = [:]
            return tuples
        }
    }

    /// Notes that a notification was sent to a token, and returns whether the token is dead. A token
    /// with `lives` dies after that many notifications; nil: only `kill` ends it.
    func send(to token: DeviceToken, at time: EpochSeconds, lives: Int?) -> Bool {
        state.withLock { state in
            if let lives, !state.dead.contains(token) {
                let count = state.delivered[token, default: 0]
                if count < lives {
                    state.delivered[token] = count + 1
                    return false
                }
                state.delivered[token] = nil
                state.dead.insert(token)
            }
            guard state.dead.contains(token) else { return false }
            if state.listed.updateValue(time, forKey: token) == nil { state.order.append(token) }
            return true
        }
    }
}

/// The behaviour of a feedback gateway. By default as Apple's: it sends the list once, directly
/// after the handshake, then close_notify.
package struct FeedbackBehaviour: Sendable, Equatable {
    /// The beginning of a connection, before any list.
    package enum Opening: String, Sendable, CaseIterable {
        /// TLS, then the list.
        case normal
        /// TCP only: the gateway never answers the client's hello.
        case silentBeforeHandshake = "silent-before-handshake"
        /// TLS and no byte of a list; the list stays for the next connection.
        case silentAfterHandshake = "silent-after-handshake"
        /// The list without TLS, as many bytes as the socket accepts at once.
        case plaintext
    }

    /// The end of a connection, after the last byte.
    package enum Ending: String, Sendable, CaseIterable {
        /// A complete list (RFC 8446 section 6.1).
        case closeNotify = "close-notify"
        /// The stream ends without close_notify, so the client cannot know whether the list is
        /// complete.
        case noCloseNotify = "no-close-notify"
        /// The connection stays open; some gateways did this.
        case holdOpen = "hold-open"
        /// A TCP reset. The client may lose bytes that it has not read yet.
        case reset
    }

    /// The certificate that the gateway sends.
    package enum Certificate: String, Sendable, CaseIterable {
        case valid
        /// One that expired an hour ago.
        case expired
        /// One that is valid from tomorrow.
        case notYetValid = "not-yet-valid"
        /// One of an authority that the client does not trust.
        case foreign
        /// One for another host name.
        case wrongHost = "wrong-host"

        var name: SimulatorCertificates.Name { .init(rawValue: "\(rawValue)-server") ?? .server }
    }

    /// A pause during the list.
    package struct Pause: Sendable, Equatable {
        /// The number of bytes of the list after which it begins.
        package var afterByte: Int
        package var duration: Duration

        package init(afterByte: Int, duration: Duration) {
            self.afterByte = afterByte
            self.duration = duration
        }
    }

    /// The beginning of a connection, before any list.
    package var opening = Opening.normal
    /// The end of a connection, after the last byte or at `closeAfter`.
    package var ending = Ending.closeNotify
    /// The number of bytes per write and TLS record; nil for as many as fit.
    package var writeSize: Int?
    /// The time between two writes.
    package var delay = Duration.zero
    /// A pause during the list.
    package var pause: Pause?
    /// The number of bytes after which the list ends, even inside a tuple; nil for all.
    package var closeAfter: Int?
    /// The number of bytes after which the connection is reset; nil for never.
    package var resetAfter: Int?
    /// Bytes sent instead of the list, which is lost.
    package var replacement: [UInt8]?
    /// Bytes sent after the list.
    package var appendix: [UInt8] = []
    /// Whether the list is repeated on the same connection until the client closes it.
    package var isEndless = false
    /// Whether the lists are served again, in turn, instead of once each.
    package var repeats = false
    /// The certificate that the gateway sends.
    package var certificate = Certificate.valid
    /// Whether every client certificate is refused with an alert.
    package var refusesClients = false
    /// The TLS versions that it accepts.
    package var versions = TLSServerContext.Version.tls12 ... .tls13

    /// The behaviour of Apple's gateway.
    package init() {}
}

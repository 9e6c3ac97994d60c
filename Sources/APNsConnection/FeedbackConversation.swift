// Reading a feed is a short conversation with one rule above all others: the gateway clears its
// list while it sends. Before the first byte a lost connection costs nothing and may be tried
// again. After it, a new connection would get the rest of the list at best and an empty one at
// worst, without a sign of which. So only tries before the first byte are counted.
//
// States:
//   resolving   the next try begins: names are looked up again, after a pause that grows
//   connecting  one address of that try after the other, up to a finished TLS handshake
//   reading     bytes go to the journal until the feed ends
//   ended       the end of the feed is known
//
// A connection that was lost after the handshake and before the first byte may have cleared the
// list as well. It is tried again, but an empty list on the next try does not count as clean then.
//
// A refusal that cannot change without new settings (certificate, host name, no TLS) ends the
// conversation at once. The conversation is a value: events in, actions out; `FeedbackReader`
// performs them.

import APNsProtocol
import SecureTransport

/// The state machine that decides the steps of reading one feed.
package struct FeedbackConversation: Equatable, Sendable {
    /// The number of connections tried before the first byte.
    package static let tries = 3

    /// An event of the lookup, the connection or the run.
    package enum Event: Equatable, Sendable {
        /// The name was looked up and has `addresses` addresses, at least one.
        case resolved(addresses: Int)
        /// The TLS handshake is finished.
        case connected
        /// The lookup, the connection, the handshake or the reading failed.
        case failed(TransportFailure)
        /// Bytes arrived and are on their way to the journal.
        case received(Int)
        /// The connection ended.
        case ended(ConnectionEnd)
        /// Nothing arrived for the idle time.
        case idle
        /// The byte limit is reached.
        case full
        /// The run received a request to stop.
        case stopped
    }

    /// The next step.
    package enum Action: Equatable, Sendable {
        /// Look the name up, after the pause of this try (1, 2, 3).
        case resolve(attempt: Int)
        /// Connect to the address of this index.
        case connect(address: Int)
        /// Continue to read.
        case read
        /// Done: the feed was opened and ended in this way.
        case finish(CaptureEnd)
        /// Done: the feed was never opened.
        case giveUp(TransportFailure)
        /// Done: a request to stop came before the feed was opened.
        case stop
    }

    private enum State: Equatable, Sendable {
        case resolving(attempt: Int)
        case connecting(attempt: Int, address: Int, of: Int)
        case reading(attempt: Int, bytes: Int)
        case ended
    }

    private var state = State.resolving(attempt: 1)
    private var hasLostConnection = false

    /// Starts before the first try.
    package init() {}

    /// The action before any event: the first lookup.
    package var start: Action { .resolve(attempt: 1) }

    /// Processes an event and returns the next action.
    package mutating func handle(_ event: Event) -> Action {
        switch (state, event) {
        case (.resolving(let attempt), .resolved(let addresses)):
            state = .connecting(attempt: attempt, address: 0, of: addresses)
            return .connect(address: 0)
        case (.resolving(let attempt), .failed(let failure)):
            return tryAgain(after: attempt, failure)
        case (.connecting(let attempt, _, _), .connected):
            state = .reading(attempt: attempt, bytes: 0)
            return .read
        case (.connecting(let attempt, let address, let count), .failed(let failure)):
            guard !failure.isFinal, address + 1 < count else {
                return tryAgain(after: attempt, failure)
            }
            state = .connecting(attempt: attempt, address: address + 1, of: count)
            return .connect(address: address + 1)
        case (.reading(let attempt, let bytes), _):
            return handleWhileReading(event, attempt: attempt, bytes: bytes)
        case (_, .stopped):
            state = .ended
            return .stop
        default:
            preconditionFailure("a feedback conversation got \(event) in state \(state)")
        }
    }

    private mutating func handleWhileReading(
        _ event: Event, attempt: Int, bytes: Int
    ) -> Action {
        switch event {
        case .received(let more):
            state = .reading(attempt: attempt, bytes: bytes + more)
            return .read
        case .failed(let failure) where bytes == 0:
            hasLostConnection = true
            return tryAgain(after: attempt, failure)
        case .ended(.reset) where bytes == 0:
            hasLostConnection = true
            return tryAgain(after: attempt, .resetBeforeFirstByte)
        case .ended(.closeNotify) where bytes == 0 && hasLostConnection,
            .idle where bytes == 0 && hasLostConnection:
            return finish(.reset)
        case .failed: return finish(.broken)
        case .ended(.closeNotify): return finish(.closeNotify)
        case .ended(.cut): return finish(.cut)
        case .ended(.reset): return finish(.reset)
        case .idle: return finish(.idle)
        case .full: return finish(.full)
        case .stopped: return finish(.stopped)
        case .resolved, .connected:
            preconditionFailure("a feedback conversation got \(event) while reading")
        }
    }

    private mutating func finish(_ end: CaptureEnd) -> Action {
        state = .ended
        return .finish(end)
    }

    private mutating func tryAgain(after attempt: Int, _ failure: TransportFailure) -> Action {
        guard !failure.isFinal, attempt < Self.tries else {
            state = .ended
            return failure.code == .interrupted ? .stop : .giveUp(failure)
        }
        state = .resolving(attempt: attempt + 1)
        return .resolve(attempt: attempt + 1)
    }
}

extension TransportFailure {
    /// Whether another try cannot help until a certificate, a name or a setting changes.
    package var isFinal: Bool {
        switch code {
        case .certificateUntrusted, .certificateExpired, .certificateNotYetValid,
            .hostNameMismatch, .clientCertificateRefused, .notTLS, .wrongProtocol, .protocolVersion,
            .credentialsUnusable, .interrupted:
            true
        case .nameNotFound, .connectionRefused, .unreachable, .timedOut, .reset, .closedEarly,
            .protocolError, .io:
            false
        }
    }

    static let resetBeforeFirstByte = TransportFailure(
        .reset,
        "reading the feed: the gateway reset the connection before the first byte; "
            + "if this repeats, ask its owner whether our certificate is accepted")
}

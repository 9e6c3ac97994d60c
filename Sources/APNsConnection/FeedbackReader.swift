import APNsProtocol
import SecureTransport

// Performs a feedback conversation: the socket on a thread of its own, the journal on the caller's.
//
// Bytes are lost if this process dies between reading and syncing them, so that window is bounded.
// At most 1 MiB or 50 ms of reading (two buffers of half as much) are un-synced, and nothing is
// un-synced once the socket has been idle for 5 ms. The connection is closed after the last byte is
// durable. During a burst whole MiBs are committed at once, which keeps up with the network.
// Without the 5 ms, each pause of the gateway would cost a sync.

/// The result of reading a feed.
package enum FeedbackReading: Sendable {
    /// The feed was opened; its bytes are in the sink.
    case captured(CaptureEnd, bytes: Int)
    /// The gateway could not be reached or refused the connection, or is an HTTP/2 server that sent
    /// nothing: no byte was read.
    case unreachable(TransportFailure)
    /// An HTTP/2 server sent its SETTINGS; they are in the sink.
    case misdirected(TransportFailure, CaptureEnd, bytes: Int)
    /// A request to stop came before the feed was opened.
    case stopped
}

/// Reads one feedback list from its gateway into a durable sink.
package struct FeedbackReader: Sendable {
    /// Limits of time and size.
    package struct Limits: Sendable {
        /// The time to connect to one address.
        package var connect: Duration = .seconds(10)
        /// The time for the TLS handshake.
        package var handshake: Duration = .seconds(10)
        /// The time for all tries together, up to the first byte.
        package var tries: Duration = .seconds(30)
        /// The silence after which the list counts as ended.
        package var idle: Duration = .seconds(30)
        /// The number of bytes after which reading stops: 1 GiB.
        package var bytes = 1 << 30

        package init() {}
    }

    /// The most bytes that are read and not yet durable: 1 MiB.
    package static let unsyncedBytes = 1 << 20
    /// The longest time of reading before a sync, both buffers together.
    static let unsyncedTime = Duration.milliseconds(50)

    /// The silence of the socket after which the bytes read are synced.
    static let batchDelay = Duration.milliseconds(5)

    let host: String
    let port: UInt16
    let hostName: String
    let context: TLSClientContext
    let limits: Limits
    let interrupt: Interrupt

    /// Prepares to read from a gateway. `hostName` is the name that its certificate must have.
    package init(
        host: String, port: UInt16, hostName: String? = nil, context: TLSClientContext,
        limits: Limits = Limits(), interrupt: Interrupt
    ) {
        self.host = host
        self.port = port
        self.hostName = hostName ?? host
        self.context = context
        self.limits = limits
        self.interrupt = interrupt
    }

    /// Reads the list to its end and passes the raw bytes on, on the caller's thread.
    ///
    /// - Parameter sink: makes bytes durable before it returns. If it throws, reading stops and the
    ///   error is passed on.
    /// - Throws: any error of the sink, and `TransportFailure` where no thread can be started.
    package func read(
        into sink: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> FeedbackReading {
        var start: [UInt8] = []
        let handover = FeedHandover(unsyncedBytes: Self.unsyncedBytes)
        let socket = try WorkerThread {
            handover.send(.end(converse(handover)))
        }
        while true {
            switch handover.next() {
            case .bytes(let buffer):
                if start.count < HTTP2Start.length {
                    start += buffer.filled.prefix(HTTP2Start.length - start.count)
                }
                do {
                    try sink(buffer.filled)
                } catch {
                    handover.abandon()
                    throw error
                }
                handover.giveBack(buffer)
            case .end(let reading):
                socket.join()
                guard let failure = http2Server(after: reading, start: start) else {
                    return reading
                }
                if case .captured(let end, let bytes) = reading, bytes > 0 {
                    return .misdirected(failure, end, bytes: bytes)
                }
                return .unreachable(failure)
            }
        }
    }

    /// Runs the conversation, on the thread of the socket.
    private func converse(_ handover: FeedHandover) -> FeedbackReading {
        var conversation = FeedbackConversation()
        var action = conversation.start
        var addresses: [SocketAddress] = []
        var connection: TLSConnection?
        var bytes = 0
        let deadline = Deadline.in(limits.tries)
        var lastFailure: TransportFailure?
        defer {
            handover.awaitKept()
            connection?.close()
        }
        while true {
            let event: FeedbackConversation.Event
            switch action {
            case .resolve(let attempt):
                if let lastFailure, deadline.hasPassed { return .unreachable(lastFailure) }
                connection?.close()
                connection = nil
                event = resolve(attempt: attempt, into: &addresses, deadline)
            case .connect(let address):
                event = connect(addresses[address], to: &connection, deadline)
            case .read:
                guard let connection else { preconditionFailure("reading before connecting") }
                guard let buffer = handover.emptyBuffer() else { return .stopped }
                event = fill(buffer, from: connection, room: limits.bytes - bytes)
                let count = buffer.count
                handover.send(.bytes(buffer))
                if count > 0 {
                    bytes += count
                    action = conversation.handle(.received(count))
                    if case .received = event { continue }
                }
            case .finish(let end): return .captured(end, bytes: bytes)
            case .giveUp(let failure): return .unreachable(failure)
            case .stop: return .stopped
            }
            if case .failed(let failure) = event { lastFailure = failure }
            action = conversation.handle(event)
        }
    }

    private func resolve(
        attempt: Int, into addresses: inout [SocketAddress], _ deadline: Deadline
    ) -> FeedbackConversation.Event {
        if attempt > 1 {
            let pause = Duration.milliseconds(Int.random(in: 250...500) << (attempt - 1))
            if interrupt.wait(until: .earlier(of: .in(pause), deadline)) { return .stopped }
        }
        do {
            addresses = try NameResolution.resolve(host: host, port: port)
            return .resolved(addresses: addresses.count)
        } catch {
            return .failed(error)
        }
    }

    private func connect(
        _ address: SocketAddress, to connection: inout TLSConnection?, _ deadline: Deadline
    ) -> FeedbackConversation.Event {
        do {
            connection = try TLSConnection.connect(
                to: address, hostName: hostName, context: context,
                connectDeadline: .earlier(of: .in(limits.connect), deadline),
                handshakeTimeout: min(limits.handshake, deadline.remaining), interrupt: interrupt)
            return .connected
        } catch {
            return .failed(error)
        }
    }

    /// Reads until the buffer is full, its first byte is 50 ms old, or the socket falls silent.
    /// Waits long only with an empty buffer. The returned event is that of the last read.
    private func fill(
        _ buffer: ReadBuffer, from connection: TLSConnection, room: Int
    ) -> FeedbackConversation.Event {
        guard room > 0 else { return .full }
        // The interrupt ends waits only, and reading from a gateway that never pauses has no wait.
        guard !interrupt.isTripped else { return .stopped }
        var sync = Deadline.never
        while true {
            let waits = buffer.count == 0
            let outcome: ReadOutcome
            do {
                outcome = try connection.read(
                    into: buffer.free(upTo: room),
                    deadline: waits
                        ? .in(limits.idle) : .earlier(of: .in(Self.batchDelay), sync))
            } catch {
                return error.code == .interrupted ? .stopped : .failed(error)
            }
            switch outcome {
            case .bytes(let count):
                if waits { sync = .in(Self.unsyncedTime / 2) }
                buffer.count += count
                if buffer.isFull || buffer.count >= room || sync.hasPassed {
                    return .received(buffer.count)
                }
            case .end(let end): return .ended(end)
            case .timedOut: return waits ? .idle : .received(buffer.count)
            case .interrupted: return .stopped
            }
        }
    }
}

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

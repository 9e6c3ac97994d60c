// Performs a feedback conversation: the socket on a thread of its own, the journal on the caller's.
//
// Bytes are lost if this process dies between reading and syncing them, so that window is bounded.
// At most 1 MiB or 50 ms of reading (two buffers of half as much) are un-synced, and nothing is
// un-synced once the socket has been idle for 5 ms. The connection is closed after the last byte is
// durable. During a burst whole MiBs are committed at once, which keeps up with the network.
// Without the 5 ms, each pause of the gateway would cost a sync.

import APNsProtocol
import SecureTransport

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

        /// Makes the default limits.
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

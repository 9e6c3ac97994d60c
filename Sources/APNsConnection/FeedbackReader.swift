// Performs a feedback conversation: sockets on one side, the journal on the other.
//
// Bytes are lost if we die between reading and syncing them, so the window is bounded: at most
// 1 MiB or 50 ms of reading are un-synced, and nothing is while the socket is idle. A read that
// would have to wait therefore flushes first. While a burst lasts, whole MiBs are committed at
// once, which is what keeps up with the network.

import APNsProtocol
import SecureTransport

/// What is known after reading a feed.
package enum FeedbackReading: Sendable {
    /// The feed was opened; its bytes are in the sink.
    case captured(CaptureEnd, bytes: Int)
    /// The gateway could not be reached or refused us: no byte was read.
    case unreachable(TransportFailure)
    /// Told to stop before the feed was opened.
    case stopped
}

/// Reads one feedback list from its gateway into a durable sink.
package struct FeedbackReader: Sendable {
    /// Bounds of time and size.
    package struct Limits: Sendable {
        /// For one address.
        package var connect: Duration = .seconds(10)
        /// For the TLS handshake.
        package var handshake: Duration = .seconds(10)
        /// For all tries together, up to the first byte.
        package var tries: Duration = .seconds(30)
        /// Silence after which the list is taken as ended.
        package var idle: Duration = .seconds(30)
        /// Bytes after which reading stops.
        package var bytes = 1 << 30

        /// The usual bounds.
        package init() {}
    }

    /// The most bytes that are read and not yet durable: 1 MiB.
    package static let unsyncedBytes = 1 << 20
    /// The longest time for which a byte read is not yet durable.
    package static let unsyncedTime = Duration.milliseconds(50)

    let host: String
    let port: UInt16
    let hostName: String
    let context: TLSClientContext
    let limits: Limits
    let interrupt: Interrupt

    /// Prepares to read from a gateway; `hostName` is the name its certificate must carry.
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

    /// Reads the list to its end and hands the raw bytes on.
    ///
    /// - Parameter sink: keeps bytes durably before it returns. If it throws, reading stops and the
    ///   error passes through.
    /// - Throws: only what the sink throws.
    package func read(
        into sink: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> FeedbackReading {
        var conversation = FeedbackConversation()
        var action = conversation.start
        var addresses: [SocketAddress] = []
        var connection: TLSConnection?
        var bytes = 0
        let deadline = Deadline.in(limits.tries)
        let buffer = ReadBuffer(capacity: Self.unsyncedBytes)
        defer { connection?.close() }
        while true {
            let event: FeedbackConversation.Event
            switch action {
            case .resolve(let attempt):
                connection?.close()
                connection = nil
                event = resolve(attempt: attempt, into: &addresses, deadline)
            case .connect(let address):
                event = connect(addresses[address], to: &connection, deadline)
            case .read:
                guard let connection else { preconditionFailure("reading before connecting") }
                event = try fill(buffer, from: connection, room: limits.bytes - bytes)
                if buffer.count > 0 {
                    try sink(buffer.filled)
                    bytes += buffer.count
                    action = conversation.take(.received(buffer.count))
                    buffer.count = 0
                    if case .received = event { continue }
                }
            case .finish(let end): return .captured(end, bytes: bytes)
            case .giveUp(let failure): return .unreachable(failure)
            case .stop: return .stopped
            }
            action = conversation.take(event)
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
                handshakeTimeout: limits.handshake, interrupt: interrupt)
            return .connected
        } catch {
            return .failed(error)
        }
    }

    /// Reads until the buffer is full, its first byte is 50 ms old, or the socket would have to
    /// wait. Waits only with an empty buffer. The event is that of the last read.
    private func fill(
        _ buffer: ReadBuffer, from connection: TLSConnection, room: Int
    ) throws -> FeedbackConversation.Event {
        guard room > 0 else { return .full }
        // The interrupt ends waits; a gateway that never pauses would never be waited for.
        guard !interrupt.isTripped else { return .stopped }
        var sync = Deadline.never
        while true {
            let waits = buffer.count == 0
            let outcome: ReadOutcome
            do {
                outcome = try connection.read(
                    into: buffer.free(upTo: room), deadline: waits ? .in(limits.idle) : .now)
            } catch {
                return error.code == .interrupted ? .stopped : .failed(error)
            }
            switch outcome {
            case .bytes(let count):
                if waits { sync = .in(Self.unsyncedTime) }
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

/// Room for the bytes that are read and not yet durable.
private final class ReadBuffer {
    private let memory: UnsafeMutableRawBufferPointer
    var count = 0

    init(capacity: Int) {
        memory = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { memory.deallocate() }

    var isFull: Bool { count == memory.count }

    var filled: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[..<count])
    }

    func free(upTo room: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<min(memory.count, room)])
    }
}

import APNsProtocol
import SecureTransport

// Performs a feedback conversation: the socket on a thread of its own, the sync on the caller's.
//
// Bytes are lost if the machine stops between reading and syncing them, so that window is bounded.
// At most 1 MiB or 50 ms of reading (two buffers of half as much) are un-synced, and nothing is
// un-synced once the socket has been idle for 5 ms. The connection is closed after the last byte is
// durable. During a burst whole MiBs are committed at once, which keeps up with the network.
// Without the 5 ms, each pause of the gateway would cost a sync. What the gateway has sent and the thread
// has not read waits in the kernel; nobody can keep that, and reading on at once is all that helps.
//
// A gateway that sends a byte now and then would never be silent and never end, and the lists behind it would
// not be read. So it may be waited for as long as the patience says, and a millisecond more for each byte: below a
// thousand bytes a second, some 26 tuples, the list ends. What came is kept, with all that is there by then.

/// The result of reading a list.
package enum FeedbackReading: Sendable {
    /// The list was opened; its bytes are in the sink.
    case captured(CaptureEnd, bytes: Int)
    /// The gateway could not be reached or refused the connection, or is an HTTP/2 server that sent
    /// nothing: no byte was read.
    case unreachable(TransportFailure)
    /// An HTTP/2 server sent its SETTINGS; they are in the sink.
    case misdirected(TransportFailure, CaptureEnd, bytes: Int)
    /// A request to stop came before the list was opened.
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
        /// How long a list may be waited for beside a millisecond for each of its bytes.
        package var patience: Duration = .seconds(60)
        /// The number of bytes after which reading stops: 1 GiB.
        package var bytes = 1 << 30

        package init() {}
    }

    /// The number of connections tried before the first byte.
    static let tries = 3
    /// The most bytes that are read and not yet durable: 1 MiB.
    package static let unsyncedBytes = 1 << 20
    /// The longest time of reading before a sync, both buffers together.
    static let unsyncedTime = Duration.milliseconds(50)

    /// The silence of the socket after which the bytes read are synced.
    static let batchDelay = Duration.milliseconds(5)

    private let gateway: GatewayAddress
    private let limits: Limits
    private let interrupt: Interrupt

    /// Prepares to read from a gateway. `hostName` is the name that its certificate must have.
    package init(
        host: String, port: UInt16, hostName: String? = nil, context: TLSClientContext,
        limits: Limits = Limits(), interrupt: Interrupt
    ) {
        gateway = GatewayAddress(
            host: host, port: port, hostName: hostName ?? host, context: context)
        (self.limits, self.interrupt) = (limits, interrupt)
    }

    /// Reads the list to its end and passes the raw bytes on, on the caller's thread.
    ///
    /// - Parameters:
    ///   - arriving: gets each piece as it comes from the socket, on the socket's thread, with its offset
    ///     in the list. At most `unsyncedBytes` of them have not passed the sink.
    ///   - sink: makes bytes durable before it returns. If it throws, reading stops and the error is
    ///     passed on.
    /// - Throws: any error of the sink, and `TransportFailure` where no thread can be started.
    package func read(
        arriving: @escaping @Sendable (UnsafeRawBufferPointer, Int) -> Void = { _, _ in },
        into sink: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> FeedbackReading {
        var start: [UInt8] = []
        let handover = ListHandover(unsyncedBytes: Self.unsyncedBytes, arriving: arriving)
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

    // MARK: The thread of the socket

    /// Connects until a connection brings a byte or a proper end, and reads the list.
    ///
    /// The gateway clears its list while it sends. Before the first byte a lost connection costs nothing
    /// and may be tried again. After it, a new connection would get the rest of the list at best and an
    /// empty one at worst, without a sign of which. So only tries before the first byte are counted.
    ///
    /// A connection that was lost after the handshake and before the first byte may have cleared the list
    /// as well. It is tried again, but an empty list on the next try does not count as clean then.
    private func converse(_ handover: ListHandover) -> FeedbackReading {
        let deadline = Deadline.in(limits.tries)
        var hasLostConnection = false
        for attempt in 1... {
            var connection: TLSConnection?
            do throws(TransportFailure) {
                let opened = try gateway.connect(
                    limits.connect, handshake: limits.handshake, until: deadline, interrupt)
                connection = opened
                opened.stopReadingAhead()
                let (end, bytes) = try receive(from: opened, handover)
                handover.awaitKept()
                opened.close()
                let mayBeCleared = hasLostConnection && bytes == 0
                return .captured(
                    mayBeCleared && (end == .closeNotify || end == .idle) ? .reset : end,
                    bytes: bytes)
            } catch {
                guard error.code != .interrupted else { return .stopped }
                connection?.close()
                hasLostConnection = hasLostConnection || connection != nil
                if error.isFinal || attempt == Self.tries || deadline.hasPassed {
                    return .unreachable(error)
                }
                let pause = Duration.milliseconds(Int.random(in: 250...500) << attempt)
                if interrupt.wait(until: .earlier(of: .in(pause), deadline)) { return .stopped }
            }
        }
        return .stopped
    }

    /// Passes the list on to its end.
    ///
    /// - Throws: why the connection was lost before the first byte.
    private func receive(
        from connection: TLSConnection, _ handover: ListHandover
    ) throws(TransportFailure) -> (end: CaptureEnd, bytes: Int) {
        var bytes = 0
        var waited = Duration.zero
        while let buffer = handover.emptyBuffer() {
            let result = Result { () throws(TransportFailure) in
                try fill(buffer, from: connection, at: bytes, &waited, handover)
            }
            let count = buffer.count
            bytes += count
            if count > 0 { handover.send(.bytes(buffer)) } else { handover.giveBack(buffer) }
            switch result {
            case .success(nil): continue
            case .success(.reset?) where bytes == 0: throw .resetBeforeFirstByte
            case .success(let end?): return (end, bytes)
            case .failure(let failure):
                guard bytes > 0 else { throw failure }
                return (.broken, bytes)
            }
        }
        return (.stopped, bytes)
    }

    /// Reads until the buffer is full, its first byte is 50 ms old, or the socket falls silent, then
    /// returns nil; else how the list ended. Waits long only with an empty buffer.
    private func fill(
        _ buffer: ReadBuffer, from connection: TLSConnection, at offset: Int,
        _ waited: inout Duration, _ handover: ListHandover
    ) throws(TransportFailure) -> CaptureEnd? {
        let room = limits.bytes - offset
        guard room > 0 else { return .full }
        // The interrupt ends waits only, and reading from a gateway that never pauses has no wait.
        guard !interrupt.isTripped else { return .stopped }
        let isLate = waited > limits.patience + .milliseconds(offset)
        var sync = Deadline.never
        while true {
            let waits = buffer.count == 0
            var deadline = Deadline.earlier(of: .in(Self.batchDelay), sync)
            if waits { deadline = isLate ? .now : .in(limits.idle) }
            let start = ContinuousClock.now
            let result = try connection.read(into: buffer.free(upTo: room), deadline: deadline)
            if waits { waited += .now - start }
            switch result {
            case .bytes(let count):
                if waits { sync = .in(Self.unsyncedTime / 2) }
                buffer.count += count
                handover.arriving(
                    .init(rebasing: buffer.filled.suffix(count)), offset + buffer.count - count)
                if buffer.isFull || buffer.count >= room || sync.hasPassed { return nil }
            case .end(.closeNotify): return .closeNotify
            case .end(.cut): return .cut
            case .end(.reset): return .reset
            case .timedOut: return waits ? isLate ? .slow : .idle : nil
            case .interrupted: return .stopped
            }
        }
    }
}

// An HTTP/2 port that the settings call a feedback gateway gives no list. Without ALPN some servers end
// the connection, some wait for a request, and some send their SETTINGS. The first two look like an
// empty list, which every hour would hide the mistake. So after an end that a feedback gateway need not
// have, the server is asked by ALPN whether it would speak HTTP/2. That handshake is never completed: a
// feedback gateway has no client then, and its list stays.
//
// An empty list that ended with close_notify is no such end: gateways without news end so.

extension FeedbackReader {
    /// The port in the settings is one of HTTP/2. Nil when the end of reading gives no reason to ask,
    /// or the server does not choose HTTP/2.
    ///
    /// - Parameter start: the first bytes that the server sent.
    private func http2Server(
        after reading: FeedbackReading, start: [UInt8]
    ) -> TransportFailure? {
        let isHTTP2 = HTTP2Start.isSettings(start)
        guard
            isHTTP2
                || Self.isOdd(reading)
                    && (try? gateway.choosesHTTP2(
                        limits.connect, handshake: limits.handshake, interrupt)) == true
        else { return nil }
        return TransportFailure(
            .wrongProtocol,
            "reading \(gateway.name): the server speaks HTTP/2, as providers do, and not the feedback "
                + "protocol; give its address to provider, or correct the host and the port of feedback"
        )
    }

    /// Whether a feedback gateway with an empty list would hardly end so.
    private static func isOdd(_ reading: FeedbackReading) -> Bool {
        switch reading {
        case .captured(let end, let bytes):
            bytes == 0 && [.cut, .reset, .idle, .broken].contains(end)
        case .unreachable(let failure):
            [.reset, .closedEarly, .protocolError, .wrongProtocol].contains(failure.code)
        case .stopped, .misdirected: false
        }
    }
}

/// The start of what an HTTP/2 server sends.
enum HTTP2Start {
    /// Number of bytes of a frame's header (RFC 9113 section 4.1).
    static let length = 9

    /// Whether bytes start with the SETTINGS with which every server begins (RFC 9113 section 3.4): a
    /// length that is a multiple of 6, type 4, no flags, stream 0. As a feedback tuple it would name a
    /// token without bytes, so no list starts so.
    static func isSettings(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= length else { return false }
        let size = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        return size % 6 == 0 && size <= 16_384 && bytes[3] == 4
            && bytes[4..<length].allSatisfy { $0 == 0 }
    }
}

extension TransportFailure {
    fileprivate static let resetBeforeFirstByte = TransportFailure(
        .reset,
        "reading the list: the gateway reset the connection before the first byte; "
            + "if this repeats, ask its owner whether our certificate is accepted")
}

import APNsProtocol
import Dispatch
import SecureTransport
import Synchronization

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
    func http2Server(after reading: FeedbackReading, start: [UInt8]) -> TransportFailure? {
        let isHTTP2 = HTTP2Start.isSettings(start)
        guard isHTTP2 || Self.isOdd(reading), isHTTP2 || choosesHTTP2 else { return nil }
        return TransportFailure(
            .wrongProtocol,
            "reading \(host):\(port): the server speaks HTTP/2, as providers do, and not the feedback "
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

    private var choosesHTTP2: Bool {
        let chosen = try? NameResolution.first(of: host, port) {
            (address) throws(TransportFailure) in
            try TLSConnection.protocolChosen(
                by: address, hostName: hostName, context: context, offering: ["h2"],
                connectDeadline: .in(limits.connect), handshakeTimeout: limits.handshake,
                interrupt: interrupt)
        }
        return chosen == "h2"
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

// The connection between the thread that reads the socket and the thread that syncs the journal.
// While one half MiB is made durable, the next one is read. There are only two buffers, so bytes
// that are read and not yet durable never exceed 1 MiB, and a slow disk slows the reading down.

/// A buffer for bytes that are read and not yet durable.
// Unchecked: a buffer belongs to one thread at a time. The reading thread fills it and passes it
// into the handover. The keeping thread takes it out, empties it and returns it the same way.
final class ReadBuffer: @unchecked Sendable {
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

/// Passes buffers from a reading to a keeping thread and back.
final class FeedHandover: Sendable {
    /// An item for the keeping thread, received in the order sent.
    enum Item: Sendable {
        case bytes(ReadBuffer)
        case end(FeedbackReading)
    }

    private struct State {
        var items: [Item] = []
        var free: [ReadBuffer] = []
        var isAbandoned = false
    }

    private let state: Mutex<State>
    private let itemsReady = DispatchSemaphore(value: 0)
    private let buffersFree: DispatchSemaphore

    init(unsyncedBytes: Int) {
        let buffers = (0..<2).map { _ in ReadBuffer(capacity: unsyncedBytes / 2) }
        state = Mutex(State(free: buffers))
        // Counted up from 0: a semaphore that ends below its first value traps, and at the end of a
        // conversation both buffers are taken.
        buffersFree = DispatchSemaphore(value: 0)
        for _ in buffers { buffersFree.signal() }
    }

    /// For the reading thread: waits for an empty buffer; nil after `abandon`.
    func emptyBuffer() -> ReadBuffer? {
        buffersFree.wait()
        return state.withLock { $0.isAbandoned ? nil : $0.free.popLast() }
    }

    /// For the reading thread, at the end: waits until all sent buffers are durable, or until
    /// `abandon`.
    func awaitKept() {
        for _ in 0..<2 {
            guard !state.withLock({ $0.isAbandoned }) else { return }
            buffersFree.wait()
        }
    }

    /// For the reading thread: passes a buffer, or the end, to the keeping thread.
    func send(_ item: Item) {
        state.withLock { $0.items.append(item) }
        itemsReady.signal()
    }

    /// For the keeping thread: waits for the next buffer or the end.
    func next() -> Item {
        itemsReady.wait()
        return state.withLock { $0.items.removeFirst() }
    }

    /// For the keeping thread: returns an emptied buffer.
    func giveBack(_ buffer: ReadBuffer) {
        buffer.count = 0
        state.withLock { $0.free.append(buffer) }
        buffersFree.signal()
    }

    /// For the keeping thread: stops the handover, because no more bytes are kept; the reading then
    /// ends.
    func abandon() {
        state.withLock { $0.isAbandoned = true }
        buffersFree.signal()
    }
}

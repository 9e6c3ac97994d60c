import Dispatch
import SecureTransport
import Synchronization

// The connection between the thread that reads the socket and the thread that syncs the list.
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

    /// Whether a TLS record may not fit any more. It would stay in OpenSSL, in part.
    var isFull: Bool { memory.count - count < TLSConnection.recordLength }

    var filled: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[..<count])
    }

    func free(upTo room: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<min(memory.count, room)])
    }
}

/// Passes buffers from a reading to a keeping thread and back.
final class ListHandover: Sendable {
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

    /// Gets each piece as it comes from the socket, with its offset in the list.
    let arriving: @Sendable (UnsafeRawBufferPointer, Int) -> Void

    init(
        unsyncedBytes: Int, arriving: @escaping @Sendable (UnsafeRawBufferPointer, Int) -> Void
    ) {
        self.arriving = arriving
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

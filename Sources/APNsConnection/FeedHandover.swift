// Between the thread that reads the socket and the thread that syncs the journal: while one half
// MiB is being made durable, the next one is read. The two buffers are all there are, so what is
// read and not durable never exceeds 1 MiB, and a slow disk slows the reading down.

import Dispatch
import Synchronization

/// Room for bytes that are read and not yet durable.
///
// Unchecked: a buffer belongs to one thread at a time. The reading thread fills it and lets it go
// into the handover; the keeping thread takes it out, empties it and gives it back the same way.
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
    /// What the keeping thread receives, in order.
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

    /// Makes the two buffers that share the bytes allowed un-synced.
    init(unsyncedBytes: Int) {
        let buffers = (0..<2).map { _ in ReadBuffer(capacity: unsyncedBytes / 2) }
        state = Mutex(State(free: buffers))
        // Counted up from 0: a semaphore that ends below its first value traps, and at the end of a
        // conversation both buffers are taken.
        buffersFree = DispatchSemaphore(value: 0)
        for _ in buffers { buffersFree.signal() }
    }

    /// For the reading thread: waits for an empty buffer; nil when nobody keeps bytes any more.
    func emptyBuffer() -> ReadBuffer? {
        buffersFree.wait()
        return state.withLock { $0.isAbandoned ? nil : $0.free.popLast() }
    }

    /// For the reading thread, at the end: waits until all that was let go is durable, or nobody
    /// keeps it any more.
    func awaitKept() {
        for _ in 0..<2 {
            guard !state.withLock({ $0.isAbandoned }) else { return }
            buffersFree.wait()
        }
    }

    /// For the reading thread: lets a buffer, or the end, go.
    func send(_ item: Item) {
        state.withLock { $0.items.append(item) }
        itemsReady.signal()
    }

    /// For the keeping thread: waits for the next buffer or the end.
    func next() -> Item {
        itemsReady.wait()
        return state.withLock { $0.items.removeFirst() }
    }

    /// For the keeping thread: gives an emptied buffer back.
    func giveBack(_ buffer: ReadBuffer) {
        buffer.count = 0
        state.withLock { $0.free.append(buffer) }
        buffersFree.signal()
    }

    /// For the keeping thread: nothing more is kept, so nothing more shall be read.
    func abandon() {
        state.withLock { $0.isAbandoned = true }
        buffersFree.signal()
    }
}

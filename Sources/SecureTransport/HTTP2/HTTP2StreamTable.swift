// Who waits for an answer on which stream.
//
// Each request in flight has a slot. A slot is freed only when nghttp2 has closed its stream, goes
// back to a free list, and gets a new generation, so that a late event of an old stream finds
// nobody instead of somebody else. A ring indexed by a counter would wrap onto a stream that is
// still open (flow control may hold one back for any time) and give one device's answer to another:
// here that means a wrong removal.
//
// All requests of a session have the same time, so the order of submission is the order of
// deadlines: a list through the slots, its head the next to expire.

/// What is known about one request in flight.
struct HTTP2Stream {
    enum Phase: UInt8 {
        case free
        /// Its outcome is owed to the caller.
        case open
        /// Its outcome was given; only the end of the stream is awaited.
        case settled
    }

    var key: UInt64 = 0
    var streamID: Int32 = 0
    fileprivate(set) var phase = Phase.free
    /// Of the last final or interim header list; 0 before one.
    var status: UInt16 = 0
    /// The peer has sent END_STREAM: the answer is whole.
    var isAnswered = false
    var wasResetByPeer = false
    /// The body went past the limit; what came before is kept.
    var isTruncated = false
    var headersTooLarge = false
    /// Size of the answer's header lists as RFC 9113 section 10.5.1 counts it.
    var headerListSize: Int32 = 0
    fileprivate(set) var generation: UInt32 = 0
    fileprivate var previous: Int32 = -1
    fileprivate var next: Int32 = -1
    /// Where its HEADERS begin in the connection's bytes.
    var firstByte: UInt64 = 0
    fileprivate(set) var deadline = Deadline.never
    var request = HTTP2RequestBody()
    var answer = HTTP2AnswerBytes()
}

/// The requests in flight of one connection.
struct HTTP2StreamTable: ~Copyable {
    /// A slot at one time of its life; never 0, so that it can stand for a pointer.
    typealias Handle = UInt

    private var slots: [HTTP2Stream] = []
    private var free: [Int32] = []
    private var oldest: Int32 = -1
    private var newest: Int32 = -1
    /// Requests in flight, settled ones included: the peer counts these too.
    private(set) var count = 0

    deinit {
        for slot in slots {
            slot.answer.release()
            slot.request.release()
        }
    }

    /// Takes a slot for a request.
    mutating func insert(key: UInt64, deadline: Deadline) -> Handle {
        let index: Int
        if let reused = free.popLast() {
            index = Int(reused)
        } else {
            index = slots.count
            slots.append(HTTP2Stream())
        }
        slots[index].key = key
        slots[index].deadline = deadline
        slots[index].phase = .open
        slots[index].previous = newest
        slots[index].next = -1
        if newest >= 0 {
            slots[Int(newest)].next = Int32(index)
        } else {
            oldest = Int32(index)
        }
        newest = Int32(index)
        count += 1
        return UInt(slots[index].generation) << 32 | UInt(index + 1)
    }

    /// The place of the stream that a handle was given for; nil when that one is gone.
    func index(of handle: Handle) -> Int? {
        let index = Int(handle & 0xffff_ffff) - 1
        guard index >= 0, index < slots.count, slots[index].phase != .free,
            slots[index].generation == UInt32(truncatingIfNeeded: handle >> 32)
        else {
            return nil
        }
        return index
    }

    subscript(_ index: Int) -> HTTP2Stream {
        _read { yield slots[index] }
        _modify { yield &slots[index] }
    }

    /// The outcome was given: no deadline holds any more, the slot stays taken.
    mutating func settle(_ index: Int) {
        guard slots[index].phase == .open else {
            return
        }
        unlink(index)
        slots[index].phase = .settled
    }

    /// The stream is over: its slot may serve another request.
    mutating func remove(_ index: Int) {
        settle(index)
        var kept = slots[index]
        kept.answer.clear()
        kept.request.clear()
        slots[index] = HTTP2Stream()
        slots[index].answer = kept.answer
        slots[index].request = kept.request
        slots[index].generation = kept.generation &+ 1
        free.append(Int32(index))
        count -= 1
    }

    /// The place of the request that waits longest for its outcome.
    var first: Int? { oldest < 0 ? nil : Int(oldest) }

    /// When the first request in flight is due; `never` when none is.
    var nextDeadline: Deadline { first.map { slots[$0].deadline } ?? .never }

    private mutating func unlink(_ index: Int) {
        let (previous, next) = (slots[index].previous, slots[index].next)
        if previous >= 0 { slots[Int(previous)].next = next } else { oldest = next }
        if next >= 0 { slots[Int(next)].previous = previous } else { newest = previous }
    }
}

// MARK: The bytes of a stream

// Plain values that the stream table frees: a slot is reused thousands of times, and its memory with it.

/// What is still to be sent of a request's body.
struct HTTP2RequestBody {
    private var next: UnsafeRawPointer?
    private(set) var left = 0
    private var owned: UnsafeMutableRawPointer?

    /// Lends the body for the time of one submission; `keepRest` must follow.
    mutating func lend(_ bytes: UnsafeRawBufferPointer) {
        (next, left) = (bytes.baseAddress, bytes.count)
    }

    /// Copies what flow control did not let out, before the loan ends.
    mutating func keepRest() {
        guard left > 0, owned == nil, let start = next else {
            return
        }
        let copy = UnsafeMutableRawPointer.allocate(byteCount: left, alignment: 1)
        copy.copyMemory(from: start, byteCount: left)
        (owned, next) = (copy, UnsafeRawPointer(copy))
    }

    /// Moves at most `length` bytes to `target` and says how many.
    mutating func take(_ length: Int, to target: UnsafeMutablePointer<UInt8>) -> Int {
        let count = min(length, left)
        if count > 0, let start = next {
            UnsafeMutableRawPointer(target).copyMemory(from: start, byteCount: count)
            next = start + count
            left -= count
        }
        return count
    }

    mutating func clear() {
        release()
        (next, left, owned) = (nil, 0, nil)
    }

    func release() {
        owned?.deallocate()
    }
}

/// What came of an answer: the fields that are kept, each as index, length in two bytes and value,
/// then the body.
struct HTTP2AnswerBytes {
    private var base: UnsafeMutablePointer<UInt8>?
    private var capacity = 0
    private(set) var fieldsLength = 0
    private(set) var bodyLength = 0

    /// Longer values are not what an answer's field may have; they count as absent.
    static let longestValue = 1024

    /// Notes a field. Those after the body (trailers) are left out, too long ones as well.
    mutating func addField(_ index: UInt8, _ value: UnsafePointer<UInt8>?, _ length: Int) {
        guard bodyLength == 0, length <= Self.longestValue, let value else {
            return
        }
        let target = room(for: length + 3)
        target[0] = index
        target[1] = UInt8(truncatingIfNeeded: length)
        target[2] = UInt8(truncatingIfNeeded: length >> 8)
        (target + 3).update(from: value, count: length)
        fieldsLength += length + 3
    }

    mutating func addBody(_ bytes: UnsafePointer<UInt8>?, _ length: Int) {
        guard length > 0, let bytes else {
            return
        }
        room(for: length).update(from: bytes, count: length)
        bodyLength += length
    }

    /// A final header list follows interim ones (RFC 9110 section 15.2), whose fields do not count.
    mutating func forgetFields() {
        if bodyLength == 0 { fieldsLength = 0 }
    }

    var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: base, count: base == nil ? 0 : fieldsLength + bodyLength)
    }

    /// Empties it; ordinary memory is kept for the next answer, a large one's is given back.
    mutating func clear() {
        (fieldsLength, bodyLength) = (0, 0)
        if capacity > 2048 {
            release()
            (base, capacity) = (nil, 0)
        }
    }

    func release() {
        base?.deallocate()
    }

    private mutating func room(for more: Int) -> UnsafeMutablePointer<UInt8> {
        let used = fieldsLength + bodyLength
        if let base, capacity - used >= more {
            return base + used
        }
        let grown = max(256, max(capacity * 2, used + more))
        let fresh = UnsafeMutablePointer<UInt8>.allocate(capacity: grown)
        if let base {
            fresh.update(from: base, count: used)
            base.deallocate()
        }
        (base, capacity) = (fresh, grown)
        return fresh + used
    }
}

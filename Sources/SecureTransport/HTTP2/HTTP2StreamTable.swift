// The requests in flight and their streams.
//
// Each request in flight has a slot. A slot is freed only when nghttp2 has closed its stream. It
// then gets a new generation, so that a late event of an old stream finds no request instead of
// another one. A ring indexed by a counter would reuse the slot of a stream that is still open
// (flow control may delay one for any time), and assign one device's answer to another. Here that
// would be a wrong removal.
//
// All requests of a session have the same time limit, so the order of submission is the order of
// deadlines: a linked list through the slots, whose head expires next.

/// The state of one request in flight.
struct HTTP2Stream {
    enum Phase: UInt8 {
        case free
        /// It has no outcome yet.
        case open
        /// It has its outcome; the stream has not ended yet.
        case completed
    }

    var key: UInt64 = 0
    var streamID: Int32 = 0
    fileprivate(set) var phase = Phase.free
    /// The status of the last final or interim header list; 0 before one.
    var status: UInt16 = 0
    /// The peer has sent END_STREAM: the answer is complete.
    var isAnswered = false
    var wasResetByPeer = false
    /// The body exceeded the limit; the bytes before it are kept.
    var isTruncated = false
    var headersTooLarge = false
    /// The size of the answer's header lists, counted as in RFC 9113 section 10.5.1.
    var headerListSize: Int32 = 0
    fileprivate(set) var generation: UInt32 = 0
    fileprivate var previous: Int32 = -1
    fileprivate var next: Int32 = -1
    /// The position behind its frame with END_STREAM in the connection's bytes; `max` until that frame is made.
    /// Only a request that TLS was given up to there can have arrived whole.
    var wholeAt = UInt64.max
    fileprivate(set) var deadline = Deadline.never
    var request = HTTP2RequestBody()
    var answer = HTTP2AnswerBytes()
}

/// The requests in flight of one connection.
struct HTTP2StreamTable: ~Copyable {
    /// A slot and its generation; never 0, so that it can be stored as a pointer.
    typealias Handle = UInt

    private var slots: [HTTP2Stream] = []
    private var free: [Int32] = []
    private var oldest: Int32 = -1
    private var newest: Int32 = -1
    /// The number of requests in flight, completed ones included, because the peer counts these
    /// too.
    private(set) var count = 0

    deinit {
        for slot in slots {
            slot.answer.release()
            slot.request.release()
        }
    }

    /// Adds a request and returns the handle of its slot.
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

    /// The index of the slot of a handle; nil when its stream has ended.
    func index(of handle: Handle) -> Int? {
        let index = Int(handle & 0xffff_ffff) - 1
        guard index >= 0, index < slots.count, slots[index].phase != .free,
            slots[index].generation == UInt32(truncatingIfNeeded: handle >> 32)
        else { return nil }
        return index
    }

    subscript(_ index: Int) -> HTTP2Stream {
        _read { yield slots[index] }
        _modify { yield &slots[index] }
    }

    /// Marks a request that has its outcome: its deadline no longer applies, and its slot stays in
    /// use.
    mutating func complete(_ index: Int) {
        guard slots[index].phase == .open else { return }
        unlink(index)
        slots[index].phase = .completed
    }

    /// Frees the slot of a stream that has ended.
    mutating func remove(_ index: Int) {
        complete(index)
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

    /// The index of the oldest request without an outcome.
    var first: Int? { oldest < 0 ? nil : Int(oldest) }

    /// The deadline of the oldest request without an outcome; `never` without such a request.
    var nextDeadline: Deadline { first.map { slots[$0].deadline } ?? .never }

    private mutating func unlink(_ index: Int) {
        let (previous, next) = (slots[index].previous, slots[index].next)
        if previous >= 0 { slots[Int(previous)].next = next } else { oldest = next }
        if next >= 0 { slots[Int(next)].previous = previous } else { newest = previous }
    }
}

// MARK: The bytes of a stream

// Plain values that the stream table frees. A slot is reused thousands of times, with its memory.

/// The bytes of a request's body that are not sent yet.
struct HTTP2RequestBody {
    private var next: UnsafeRawPointer?
    private(set) var left = 0
    private var owned: UnsafeMutableRawPointer?

    /// Borrows the body during one submission; `copyRest` must follow.
    mutating func borrow(_ bytes: UnsafeRawBufferPointer) {
        (next, left) = (bytes.baseAddress, bytes.count)
    }

    /// Copies the bytes that flow control delays, before the borrowed memory is reused.
    mutating func copyRest() {
        guard left > 0, owned == nil, let start = next else { return }
        let copy = UnsafeMutableRawPointer.allocate(byteCount: left, alignment: 1)
        copy.copyMemory(from: start, byteCount: left)
        (owned, next) = (copy, UnsafeRawPointer(copy))
    }

    /// Moves at most `length` bytes to `target` and returns their number.
    mutating func move(_ length: Int, to target: UnsafeMutablePointer<UInt8>) -> Int {
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

    func release() { owned?.deallocate() }
}

/// The bytes of an answer: the kept fields, each as index, length in two bytes and value, then the
/// body.
struct HTTP2AnswerBytes {
    private var base: UnsafeMutablePointer<UInt8>?
    private var capacity = 0
    private(set) var fieldsLength = 0
    private(set) var bodyLength = 0

    /// The longest kept value; a field with a longer one counts as absent.
    static let longestValue = 1024

    /// Adds a field. Fields after the body (trailers) and too long ones are ignored.
    mutating func addField(_ index: UInt8, _ value: UnsafeBufferPointer<UInt8>) {
        let length = value.count
        guard bodyLength == 0, length <= Self.longestValue, let start = value.baseAddress
        else { return }
        let target = room(for: length + 3)
        target[0] = index
        target[1] = UInt8(truncatingIfNeeded: length)
        target[2] = UInt8(truncatingIfNeeded: length >> 8)
        (target + 3).update(from: start, count: length)
        fieldsLength += length + 3
    }

    mutating func addBody(_ bytes: UnsafePointer<UInt8>?, _ length: Int) {
        guard length > 0, let bytes else { return }
        room(for: length).update(from: bytes, count: length)
        bodyLength += length
    }

    /// Removes the fields of interim header lists before the final one (RFC 9110 section 15.2).
    mutating func removeFields() {
        if bodyLength == 0 { fieldsLength = 0 }
    }

    var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: base, count: base == nil ? 0 : fieldsLength + bodyLength)
    }

    /// Removes all bytes. Up to 2 KiB of memory stay allocated for the next answer.
    mutating func clear() {
        (fieldsLength, bodyLength) = (0, 0)
        if capacity > 2048 {
            release()
            (base, capacity) = (nil, 0)
        }
    }

    func release() { base?.deallocate() }

    private mutating func room(for more: Int) -> UnsafeMutablePointer<UInt8> {
        let used = fieldsLength + bodyLength
        if let base, capacity - used >= more { return base + used }
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

import Glibc

// The bytes that belong to a stream. Plain values that the stream table frees: a slot is reused
// thousands of times, and its memory with it.

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

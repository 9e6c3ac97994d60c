import Glibc

/// Bytes on their way to TLS: frames are added behind, what TLS took is dropped in front.
struct HTTP2Output: ~Copyable {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var start = 0
    private var end = 0
    /// Bytes ever added: the place of the next frame in the whole stream of bytes.
    private(set) var added: UInt64 = 0

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        base.deallocate()
    }

    var count: Int { end - start }
    var isEmpty: Bool { start == end }

    /// Bytes that TLS has taken.
    var taken: UInt64 { added - UInt64(count) }

    /// What waits, for as long as nothing is added.
    var waiting: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + start, count: count)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else {
            return
        }
        if capacity - end < bytes.count {
            makeRoom(for: bytes.count)
        }
        (base + end).copyMemory(from: source, byteCount: bytes.count)
        end += bytes.count
        added += UInt64(bytes.count)
    }

    mutating func drop(_ count: Int) {
        precondition(count <= self.count, "more bytes dropped than waited")
        start += count
        if start == end {
            (start, end) = (0, 0)
        }
    }

    private mutating func makeRoom(for more: Int) {
        let (waiting, needed) = (count, count + more)
        if needed > capacity {
            let grown = max(needed, capacity * 2)
            let fresh = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            fresh.copyMemory(from: base + start, byteCount: waiting)
            base.deallocate()
            (base, capacity) = (fresh, grown)
        } else {
            memmove(base, base + start, waiting)
        }
        (start, end) = (0, waiting)
    }
}

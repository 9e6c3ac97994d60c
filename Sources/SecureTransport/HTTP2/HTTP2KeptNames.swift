import Glibc

/// The names of the answers' fields that a caller wants, to be compared with each field that comes.
struct HTTP2KeptNames: ~Copyable {
    private struct Span {
        let start: Int
        let length: Int
    }

    private let spans: [Span]
    private let text: UnsafeMutablePointer<UInt8>

    /// Names after the 255th are left out: a place is kept in one byte.
    init(_ names: [String]) {
        var spans: [Span] = []
        var bytes: [UInt8] = []
        for name in names.prefix(255) {
            spans.append(Span(start: bytes.count, length: name.utf8.count))
            bytes.append(contentsOf: name.utf8)
        }
        self.spans = spans
        text = .allocate(capacity: max(1, bytes.count))
        text.initialize(from: bytes, count: bytes.count)
    }

    deinit {
        text.deallocate()
    }

    func place(of name: UnsafePointer<UInt8>, _ length: Int) -> UInt8? {
        for (place, span) in spans.enumerated()
        where span.length == length && memcmp(text + span.start, name, length) == 0 {
            return UInt8(place)
        }
        return nil
    }
}

import Glibc

/// The limits of a client's HTTP/2 session.
package struct HTTP2ClientSettings: Sendable {
    /// The most requests in flight on our side; the peer may allow fewer.
    package var maximumStreams = 1000
    /// The most requests in flight before the peer's first SETTINGS. 100 is what RFC 9113 section
    /// 6.5.2 recommends as the least limit of a peer.
    var streamsBeforeSettings = 100
    /// The time from the submission of a request to the end of its answer.
    package var requestTimeout = Duration.seconds(30)
    /// The time without a byte of the peer after which a PING is sent.
    package var keepAliveInterval = Duration.seconds(60)
    /// The time without a byte after such a PING that ends the connection.
    package var pingTimeout = Duration.seconds(10)
    /// The largest header list of an answer, in bytes as in RFC 9113 section 10.5.1.
    package var maximumHeaderListSize = 16 * 1024
    /// The most bytes of an answer's body. A longer body is truncated and its stream reset.
    package var maximumBodySize = 4 * 1024
    /// The names of the answers' fields to keep, in lower case, at most 255.
    package var keptFields = ["apns-id", "apns-unique-id", "retry-after", "content-type"]
    /// The most frames between two outcomes that advance no request (PING, SETTINGS, empty DATA and
    /// the like).
    var maximumIdleFrames = 10_000
    /// The most bytes of the peer between two outcomes, ignored frames included.
    package var maximumIdleBytes = 64 << 20

    /// Makes the default limits.
    package init() {}
}

/// Computes the number of requests that a connection accepts now.
struct HTTP2Admission: Equatable {
    /// The caller's limit.
    var ownMaximum: Int
    /// The peer's limit (SETTINGS_MAX_CONCURRENT_STREAMS, RFC 9113 section 6.5.2); before its first
    /// SETTINGS, a safe assumption.
    var remoteMaximum: Int
    /// The number of streams that are open on this side or on that of the peer.
    var inFlight = 0
    /// The number of bytes that are not written to TLS yet.
    var backlog = 0
    /// Whether no request is accepted any more: after GOAWAY, without stream numbers, or at the
    /// end.
    var isClosing = false

    /// The backlog from which on no request is accepted, because the peer does not read.
    static let backlogLimit = 1 << 20

    var room: Int {
        if isClosing || backlog >= Self.backlogLimit {
            return 0
        }
        return max(0, min(ownMaximum, remoteMaximum) - inFlight)
    }
}

/// The names of the answers' fields to keep, stored for a fast comparison with each received field.
struct HTTP2KeptNames: ~Copyable {
    private struct Span {
        let start: Int
        let length: Int
    }

    private let spans: [Span]
    private let text: UnsafeMutablePointer<UInt8>

    /// Names after the 255th are ignored, because an index has one byte.
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

    func index(of name: UnsafeBufferPointer<UInt8>) -> UInt8? {
        guard let start = name.baseAddress else { return nil }
        for (index, span) in spans.enumerated()
        where span.length == name.count && memcmp(text + span.start, start, name.count) == 0 {
            return UInt8(index)
        }
        return nil
    }
}

/// Measures the time without a byte of the peer, and decides when to send PING and when to end the
/// connection.
struct HTTP2Silence {
    enum Step {
        case wait
        case ping
        case giveUp
    }

    /// The time of the next step.
    private(set) var end: Deadline
    private var isPinging = false

    /// Starts at a byte of the peer.
    init(_ settings: HTTP2ClientSettings) { end = .in(settings.keepAliveInterval) }

    /// The step that is due now.
    mutating func step(_ settings: HTTP2ClientSettings) -> Step {
        guard end.hasPassed else { return .wait }
        guard !isPinging else { return .giveUp }
        isPinging = true
        end = .in(settings.pingTimeout)
        return .ping
    }
}

import Glibc

/// What a client's HTTP/2 session asks for, waits for and puts up with.
package struct HTTP2ClientSettings: Sendable {
    /// The most requests in flight that we want; the peer may allow fewer.
    package var maximumStreams = 1000
    /// The most requests in flight before the peer's first SETTINGS. 100 is what RFC 9113 section
    /// 6.5.2 recommends as the least a peer should allow.
    package var streamsBeforeSettings = 100
    /// From submission to the end of the answer.
    package var requestTimeout = Duration.seconds(30)
    /// Silence after which a PING asks whether the peer is there.
    package var keepAliveInterval = Duration.seconds(60)
    /// Silence after such a PING that ends the connection.
    package var pingTimeout = Duration.seconds(10)
    /// Largest header list of an answer, in bytes as RFC 9113 section 10.5.1 counts.
    package var maximumHeaderListSize = 16 * 1024
    /// Bytes kept of an answer's body; what is longer is cut and its stream reset.
    package var maximumBodySize = 4 * 1024
    /// Names of the answers' fields to keep, lower case, at most 255.
    package var keptFields = ["apns-id", "apns-unique-id", "retry-after", "content-type"]
    /// Frames that bring no request forward (PING, SETTINGS, empty DATA and the like) which the
    /// peer may send between two outcomes.
    package var maximumIdleFrames = 10_000
    /// Bytes that the peer may send between two outcomes, in frames that we skip for instance.
    package var maximumIdleBytes = 64 << 20

    /// The defaults.
    package init() {}
}

/// How many more requests may be given to a connection now.
struct HTTP2Admission: Equatable {
    /// What the caller allows.
    var ownMaximum: Int
    /// What the peer allows (SETTINGS_MAX_CONCURRENT_STREAMS, RFC 9113 section 6.5.2); before its
    /// first SETTINGS, what is safe to assume.
    var remoteMaximum: Int
    /// Streams that are open for us or for the peer.
    var inFlight = 0
    /// Bytes that TLS has not taken yet.
    var backlog = 0
    /// After GOAWAY, at the end of stream numbers, or when the connection is over.
    var isClosing = false

    /// Bytes in wait at which no more requests are taken: the peer does not read.
    static let backlogLimit = 1 << 20

    var room: Int {
        if isClosing || backlog >= Self.backlogLimit {
            return 0
        }
        return max(0, min(ownMaximum, remoteMaximum) - inFlight)
    }
}

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

/// How long the peer has been silent, and what that makes us do: send a PING, then give the peer up.
struct HTTP2Silence {
    enum Step {
        case wait
        case ping
        case giveUp
    }

    /// When the next step is due.
    private(set) var end: Deadline
    private var isPinging = false

    /// The peer has just said something.
    init(_ settings: HTTP2ClientSettings) { end = .in(settings.keepAliveInterval) }

    /// What to do now.
    mutating func step(_ settings: HTTP2ClientSettings) -> Step {
        guard end.hasPassed else { return .wait }
        guard !isPinging else { return .giveUp }
        isPinging = true
        end = .in(settings.pingTimeout)
        return .ping
    }
}

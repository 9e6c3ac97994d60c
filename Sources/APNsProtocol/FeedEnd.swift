// A feed has no terminator, so its end is judged by two facts: how the connection (or this run)
// ended, and whether the bytes end on a tuple boundary. Only both together show whether the list
// can be complete.

/// The end of reading from the gateway, independently of the bytes.
package enum CaptureEnd: String, Hashable, Sendable, CaseIterable {
    /// The gateway announced the end (TLS close_notify, RFC 8446 section 6.1).
    case closeNotify = "close-notify"
    /// The connection ended without close_notify; more bytes may be missing.
    case cut
    /// The gateway reset the connection.
    case reset
    /// No byte arrived for the idle time, and the connection stayed open.
    case idle
    /// TLS failed in the middle of the feed.
    case broken
    /// The byte limit was reached; the gateway had more.
    case full
    /// This run received a request to stop.
    case stopped
    /// This run ended without a record: it was killed, or the power failed.
    case crashed
    /// The bytes came from a file and are its whole content.
    case file
}

/// The end of a feed's bytes relative to its tuples.
package enum FeedbackEnding: Hashable, Sendable, CustomStringConvertible {
    /// On a tuple boundary.
    case clean
    /// Inside the six bytes before a token; `present` of them arrived, 1 to 5.
    case truncatedHeader(present: Int)
    /// Inside a token; `present` of `announced` bytes arrived.
    case truncatedToken(present: Int, announced: Int)
    /// A tuple announced an impossible token length and the feed continued after it: the bytes from
    /// this offset on cannot be decoded reliably.
    case outOfStep(offset: Int, announced: Int)

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .clean: "on a tuple boundary"
        case .truncatedHeader(let present):
            "cut \(present) bytes into the 6-byte header of a tuple"
        case .truncatedToken(let present, let announced)
        where announced > FeedbackDecoder.longestToken:
            "cut \(present) bytes into a token of \(announced), and none is longer than "
                + "\(FeedbackDecoder.longestToken): these bytes may be no feed at all"
        case .truncatedToken(let present, let announced):
            "cut \(present) bytes into a token of \(announced)"
        case .outOfStep(let offset, let announced):
            "out of step: the tuple at byte \(offset) announced a token of \(announced) bytes"
        }
    }
}

/// The end of a feed. The raw value is the word in reports.
package enum FeedEnd: String, Hashable, Sendable, CaseIterable {
    /// On a tuple boundary, and the gateway announced the end.
    case clean
    /// On a tuple boundary; the gateway left the connection open and silent.
    case idle
    /// Inside a tuple, or without the gateway's announcement of the end; also where a tuple
    /// announced an impossible length and the feed ended before that many bytes came.
    case truncated
    /// By a reset: whole tuples are good, more tuples may be lost.
    case reset
    /// By silence inside a tuple.
    case timeout
    /// No connection, a refusal by the gateway, or no way to ask it: nothing was read.
    case refused
    /// The tuple boundaries are lost: a tuple announced an impossible length, and the feed
    /// continued after it. The bytes after the last credible tuple are in quarantine.
    case misframed

    /// Judges the end of a captured feed from the end of its connection and of its bytes.
    package init(_ capture: CaptureEnd, _ ending: FeedbackEnding) {
        if case .outOfStep = ending {
            self = .misframed
            return
        }
        switch capture {
        case .closeNotify, .file: self = ending == .clean ? .clean : .truncated
        case .idle: self = ending == .clean ? .idle : .timeout
        case .reset: self = .reset
        case .cut, .broken, .full, .stopped, .crashed: self = .truncated
        }
    }

    /// Whether the list counts as complete.
    package var isComplete: Bool { self == .clean || self == .idle }
}

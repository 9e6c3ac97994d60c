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

// A feed has no terminator, so how it ended is a judgement over two facts: how the connection (or
// our own run) ended, and whether the bytes end on a tuple boundary. Only both together say whether
// the list can be complete.

/// How reading from the gateway ended, before anybody looked into the bytes.
package enum CaptureEnd: String, Hashable, Sendable, CaseIterable {
    /// The gateway said that this was all (TLS close_notify, RFC 8446 section 6.1).
    case closeNotify = "close-notify"
    /// The connection ended without close_notify: there may have been more.
    case cut
    /// The gateway reset the connection.
    case reset
    /// Nothing came for the idle time, and the connection stayed open.
    case idle
    /// TLS broke in the middle of the feed.
    case broken
    /// The byte limit was reached; the gateway had more.
    case full
    /// Our own run was told to stop.
    case stopped
    /// Our own run ended without a word: killed, or the power failed.
    case crashed
    /// The bytes came from a file and are all of it.
    case file
}

/// How a feed ended, in the one word that reports print.
package enum FeedEnd: String, Hashable, Sendable, CaseIterable {
    /// On a tuple boundary, and the gateway said so.
    case clean
    /// On a tuple boundary; the gateway left the connection open and silent.
    case idle
    /// In the middle, or without the gateway's word that this was all; also where a tuple announced a
    /// length that cannot be and the feed ended before so many bytes came.
    case truncated
    /// By a reset: whole tuples are good, more may have been lost.
    case reset
    /// Silence inside a tuple.
    case timeout
    /// No connection, the gateway refused us, or we could not ask it at all: nothing was read.
    case refused
    /// The bytes lost step: a tuple announced a length that cannot be, and the feed went on past it.
    /// What follows the last believable tuple is in quarantine.
    case misframed

    /// Judges a captured feed.
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

    /// Whether the list can be taken as complete.
    package var isComplete: Bool { self == .clean || self == .idle }
}

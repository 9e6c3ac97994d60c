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

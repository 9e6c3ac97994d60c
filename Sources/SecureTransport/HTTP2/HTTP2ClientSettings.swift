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

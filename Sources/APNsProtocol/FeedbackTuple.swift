/// Whole seconds since 1970-01-01T00:00:00Z as in feedback tuples: unsigned, so valid until 2106. A
/// type of its own, because the 410 answer of HTTP/2 counts milliseconds, and a confusion of the
/// two makes every token look stale, or none.
package struct EpochSeconds: Hashable, Comparable, Sendable {
    /// Seconds since the Unix epoch.
    package let rawValue: UInt32

    /// Wraps a count of seconds since the Unix epoch.
    package init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// Whether `left` is the earlier time.
    package static func < (left: EpochSeconds, right: EpochSeconds) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// One entry of a feedback list: at `time`, APNs determined that the app no longer exists on the
/// device behind `token`.
///
/// On the wire: time (4 bytes), token length (2), token, all big-endian; 38 bytes with a 32-byte
/// token. Source: Apple, Binary Provider API (archived), "The Feedback Service".
package struct FeedbackTuple: Hashable, Sendable {
    /// Bytes before the token: time and token length.
    package static let headerLength = 6

    /// The time at which APNs determined that the app was gone.
    package let time: EpochSeconds

    /// The token; nil where the tuple announced zero bytes. Such a tuple is well-formed but names
    /// no device, so it is never a database key.
    package let token: DeviceToken?

    /// Makes a tuple; a nil token is the zero-length one.
    package init(time: EpochSeconds, token: DeviceToken?) {
        self.time = time
        self.token = token
    }

    /// The size on the wire in bytes.
    package var encodedLength: Int { Self.headerLength + (token?.count ?? 0) }

    /// Appends the wire form, as a gateway sends it.
    package func encode(into buffer: inout [UInt8]) {
        withUnsafeBytes(of: time.rawValue.bigEndian) { buffer.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt16(token?.count ?? 0).bigEndian) { buffer.append(contentsOf: $0) }
        token?.append(to: &buffer)
    }
}

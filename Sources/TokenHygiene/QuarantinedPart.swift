import APNsProtocol

/// A part of a batch that is no usable report.
package struct QuarantinedPart: Hashable, Sendable {
    /// The most bytes that are kept of a part.
    package static let mostBytes = 8_192

    /// The part's own number in its batch: the offset of its first byte, or the number of the row.
    package let place: Int
    /// Number of bytes; more than `bytes` has where it was cut.
    package let length: Int
    /// Why it cannot be used.
    package let reason: String
    package let bytes: [UInt8]
    /// The token that it names, where that can be read.
    package let token: DeviceToken?

    /// Makes a part of all its bytes.
    package init(
        place: Int, bytes: [UInt8], length: Int? = nil, reason: String, token: DeviceToken?
    ) {
        (self.place, self.length) = (place, length ?? bytes.count)
        (self.reason, self.token) = (reason, token)
        self.bytes = Array(bytes.prefix(Self.mostBytes))
    }

    /// Whether some of its bytes are missing.
    package var isCut: Bool { bytes.count < length }
}

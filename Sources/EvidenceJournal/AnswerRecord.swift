// Evidence that came as an answer of APNs has no bytes of a feed, so the journal has a form of its own
// for it: what was said, about which token, and nothing else. The reason stands with the feed, whose
// records all have the same one.
//
//   8 bytes  time, milliseconds since 1970, big-endian
//   2 bytes  length of the token
//   n bytes  token
//
// Records are committed whole, so a chunk that does not end with one was damaged on disk.

import APNsProtocol
import TokenHygiene

/// A token that APNs called dead in an answer, as the journal keeps it.
package struct AnswerRecord: Hashable, Sendable {
    /// The bytes before the token.
    static let headerLength = 10

    /// The token.
    package let token: DeviceToken
    /// Since when.
    package let time: EpochMilliseconds

    /// Takes down what an answer said.
    package init(token: DeviceToken, time: EpochMilliseconds) {
        self.token = token
        self.time = time
    }

    /// Bytes of the record.
    package var encodedLength: Int { Self.headerLength + token.count }

    /// Appends the record.
    package func encode(into bytes: inout [UInt8]) {
        withUnsafeBytes(of: time.rawValue.bigEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt16(token.count).bigEndian) { bytes.append(contentsOf: $0) }
        token.append(to: &bytes)
    }

    /// The records of a chunk; nil where it is not made of whole records.
    package static func decode(_ bytes: UnsafeRawBufferPointer) -> [AnswerRecord]? {
        var records: [AnswerRecord] = []
        var offset = 0
        while offset < bytes.count {
            guard bytes.count - offset > headerLength else { return nil }
            let time = Int64(
                bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int64.self))
            let length = Int(
                UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt16.self)))
            let end = offset + headerLength + length
            guard end <= bytes.count,
                let token = DeviceToken(
                    UnsafeRawBufferPointer(rebasing: bytes[offset + headerLength..<end]))
            else { return nil }
            records.append(AnswerRecord(token: token, time: EpochMilliseconds(time)))
            offset = end
        }
        return records
    }
}

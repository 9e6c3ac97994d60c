// A token and a time as bytes: the form of version 0.3.0, whose journal had answers of APNs as feeds of such records.
// They are still read, and the digest of a hold is taken over this form. The reason stands with the feed or batch,
// because all of its records have the same.
//
//   8 bytes  time, milliseconds since 1970, big-endian
//   2 bytes  length of the token
//   n bytes  token
//
// Records are committed whole. A chunk that does not end at the end of a record was damaged on disk.

import APNsProtocol
import TokenHygiene

/// A token that an answer of APNs called dead.
package struct AnswerRecord: Hashable, Sendable {
    /// Length of a record without its token, in bytes.
    static let headerLength = 10

    package let token: DeviceToken
    /// The time since which the token is dead.
    package let time: EpochMilliseconds

    package init(token: DeviceToken, time: EpochMilliseconds) {
        self.token = token
        self.time = time
    }

    /// Length of the encoded record in bytes.
    package var encodedLength: Int { Self.headerLength + token.count }

    /// Appends the encoded record.
    package func encode(into bytes: inout [UInt8]) {
        withUnsafeBytes(of: time.rawValue.bigEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt16(token.count).bigEndian) { bytes.append(contentsOf: $0) }
        token.append(to: &bytes)
    }

    /// The records of a chunk; nil when the chunk does not consist of whole records.
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

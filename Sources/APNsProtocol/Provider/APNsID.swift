// The name of one notification, chosen by this program.
//
// APNs repeats it in the answer. Only a name that is stored before the first attempt lets a
// notification of unknown outcome be sent again without becoming another one. It is sixteen bytes
// in the queue and a lower-case UUID on the wire. A hundred thousand of them are written per
// second, so the text is written into the caller's buffer.

import Encodings

/// The value of `apns-id`: 16 bytes, spelled as a lower-case UUID, 8-4-4-4-12 hex digits.
/// Sources: Apple, "Sending notification requests to APNs"; RFC 9562 section 4.
package struct APNsID: Hashable, Sendable, CustomStringConvertible {
    /// The number of bytes of the spelling.
    package static let textLength = 36

    private let high: UInt64
    private let low: UInt64

    /// Makes a name from its two halves in big-endian order.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Makes a name from 16 bytes; nil for any other number.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self = bytes.withUnsafeBytes { raw in
            APNsID(
                high: UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }

    /// A random name (RFC 9562 section 5.4, version 4).
    package static func random(using generator: inout some RandomNumberGenerator) -> APNsID {
        let (high, low) = (generator.next() as UInt64, generator.next() as UInt64)
        return APNsID(
            high: high & ~0xF000 | 0x4000, low: low & ~(0b11 << 62) | 0b10 << 62)
    }

    /// A random name from the system's generator.
    package static func random() -> APNsID {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    // Not generic over collections: a generic initializer would not be specialized in other
    // modules, and would cost more than all other processing of an answer.
    /// Reads the spelling of APNs: 36 bytes, lower-case digits; nil for any other text. With
    /// `anyCase` upper-case digits are accepted too, as APNs accepts them in requests.
    package init?(text: UnsafeRawBufferPointer, anyCase: Bool = false) {
        guard text.count == Self.textLength else { return nil }
        var (high, low, digits) = (UInt64(0), UInt64(0), 0)
        for index in 0..<text.count {
            let byte = text[index]
            if Self.isHyphen(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let isUpper = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "F")
            guard let digit = Hex.value(of: byte), anyCase || !isUpper else { return nil }
            if digits < 16 {
                high = high << 4 | UInt64(digit)
            } else {
                low = low << 4 | UInt64(digit)
            }
            digits += 1
        }
        self.init(high: high, low: low)
    }

    /// Reads the spelling from bytes; see `init(text:anyCase:)`.
    package init?(text: ArraySlice<UInt8>, anyCase: Bool = false) {
        guard let id = text.withUnsafeBytes({ APNsID(text: $0, anyCase: anyCase) }) else {
            return nil
        }
        self = id
    }

    /// Reads the spelling from a String; see `init(text:anyCase:)`.
    package init?(text: String, anyCase: Bool = false) {
        self.init(text: Array(text.utf8)[...], anyCase: anyCase)
    }

    /// The 16 bytes, big-endian.
    package var bytes: [UInt8] {
        withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) }
    }

    /// Writes the spelling, 36 bytes.
    ///
    /// - Precondition: the buffer has room for `textLength` bytes.
    package func writeText(into buffer: UnsafeMutableRawBufferPointer) {
        precondition(buffer.count >= Self.textLength)
        var position = 0
        withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { bytes in
            for byte in bytes {
                if Self.isHyphen(position) {
                    buffer[position] = UInt8(ascii: "-")
                    position += 1
                }
                Hex.write(byte, into: buffer, at: position)
                position += 2
            }
        }
    }

    /// The spelling as a lower-case UUID.
    package var description: String {
        var text = [UInt8](repeating: 0, count: Self.textLength)
        text.withUnsafeMutableBytes { writeText(into: $0) }
        return String(decoding: text, as: UTF8.self)
    }

    private static func isHyphen(_ index: Int) -> Bool {
        index == 8 || index == 13 || index == 18 || index == 23
    }
}

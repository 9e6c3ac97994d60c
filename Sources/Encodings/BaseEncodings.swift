import FoundationEssentials
import Glibc

/// Hex digits as bytes of ASCII (RFC 4648 section 8): written in lower case, read in any case.
///
/// Tokens are written by the million. So the digits go straight into a buffer of the caller, and
/// the small functions may be inlined into other modules.
package enum Hex {
    /// The value of a digit of either case; nil for all else.
    @inlinable
    package static func value(of character: UInt8) -> UInt8? {
        // Arithmetic instead of ranges, which a build for debugging compares by several calls.
        let digit = character &- UInt8(ascii: "0")
        if digit < 10 { return digit }
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        return letter < 6 ? letter + 10 : nil
    }

    /// The lower-case digit of a value.
    ///
    /// - Precondition: the value is under 16.
    @inlinable @inline(__always)
    package static func digit(_ value: UInt8) -> UInt8 {
        // Arithmetic instead of a table: no memory access and no array to allocate.
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") - 10 + value
    }

    /// Writes the two digits of a byte at a position of a buffer.
    @inlinable @inline(__always)
    package static func write(
        _ byte: UInt8, into buffer: UnsafeMutableRawBufferPointer, at position: Int
    ) {
        buffer[position] = digit(byte >> 4)
        buffer[position + 1] = digit(byte & 15)
    }

    /// Appends two digits for each byte.
    @inlinable
    package static func append(_ bytes: some Sequence<UInt8>, to text: inout [UInt8]) {
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 15))
        }
    }

    /// Appends two digits for each byte of an array. Ledger entries are made of this, and the
    /// compiler does not make a version for arrays of the function above in other modules.
    package static func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        text.reserveCapacity(text.count + 2 * bytes.count)
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 15))
        }
    }

    /// The spelling of bytes, two digits for each.
    package static func text(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes behind a spelling in any case; nil for an odd number of digits and for any
    /// character that is no digit, white space included.
    package static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var high: UInt8?
        for character in text {
            guard let digit = value(of: character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return bytes
    }
}

/// Base64 with the alphabet for URLs and without padding (RFC 4648 section 5), as used in a JWT.
package enum Base64URL {
    /// The spelling of some bytes, without padding.
    package static func text(_ bytes: some Sequence<UInt8>) -> String {
        let spelling = Data(bytes).base64EncodedData().compactMap { byte -> UInt8? in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: byte
            }
        }
        return String(decoding: spelling, as: UTF8.self)
    }

    /// Decodes a spelling; nil for any character outside the alphabet, padding included, for an
    /// impossible length, and for unused bits other than zero: for all that `text` does not write.
    package static func decode(_ spelling: some Sequence<UInt8>) -> [UInt8]? {
        var usual = spelling.map {
            switch $0 {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: $0
            }
        }
        while usual.count % 4 != 0 { usual.append(UInt8(ascii: "=")) }
        guard let bytes = Data(base64Encoded: Data(usual)),
            text(bytes).utf8.elementsEqual(spelling)
        else { return nil }
        return Array(bytes)
    }
}

/// The FNV-1a hash of 32 bits: a short check, the same in every run and on every machine. It tells cut
/// and damaged bytes, and not those that are made to collide.
package enum FNV1a {
    /// The hash of the text's UTF-8.
    package static func hash(_ text: String) -> UInt32 { hash(text.utf8) }

    /// The hash of the bytes in their order; that of none is the offset basis.
    package static func hash(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }
}

/// Hex digits as bytes, for text that is written or read without an intermediate String.
package enum HexDigit {
    /// The value of a digit of either case, 0 to 15; nil for any other byte.
    package static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Writes the two lower-case digits of a byte.
    @inline(__always)
    static func write(
        _ byte: UInt8, into buffer: UnsafeMutableRawBufferPointer, at position: Int
    ) {
        buffer[position] = digit(byte >> 4)
        buffer[position + 1] = digit(byte & 15)
    }

    // Arithmetic instead of a table: no memory access and no array to allocate.
    @inline(__always)
    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") - 10 + value
    }
}

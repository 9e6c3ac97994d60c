/// Decimal digits of ASCII, as dates are made of.
package enum DecimalDigits {
    /// Whether a byte is a digit. Digits of other scripts are several bytes in UTF-8 and none of these.
    @inlinable
    package static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// Appends a number with zeros in front up to a width. Digits beyond the width are kept.
    ///
    /// - Precondition: the number is not negative.
    package static func append(_ number: Int, width: Int, to text: inout [UInt8]) {
        var (divisor, places) = (1, 1)
        while places < width || number / divisor >= 10 {
            divisor *= 10
            places += 1
        }
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }
}

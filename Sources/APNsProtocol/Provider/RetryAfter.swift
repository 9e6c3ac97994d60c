// `Retry-After` is either seconds or a date (RFC 9110 section 10.2.3), and a date has one of three
// forms (section 5.6.7). Apple's documents do not mention the header, but gateways in front of APNs
// send it, and a wait that is too short makes the overload worse.

import Encodings

/// Reads the value of a `Retry-After` header.
package enum RetryAfter {
    /// The seconds from `now`; 0 for a date that has passed, nil where the value has neither form.
    package static func seconds(_ value: [UInt8], now: EpochSeconds) -> UInt32? {
        guard value.count <= 64 else { return nil }
        let text = String(decoding: value, as: UTF8.self)
        if let first = value.first, DecimalDigits.isDigit(first) {
            return value.allSatisfy(DecimalDigits.isDigit) ? UInt32(text) ?? .max : nil
        }
        guard let time = HTTPDate.seconds(text, now: Int64(now.rawValue)) else { return nil }
        return UInt32(clamping: max(0, time - Int64(now.rawValue)))
    }
}

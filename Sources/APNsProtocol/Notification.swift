import Encodings

// A notification on its way from the queue to a gateway, and what became of it on the way back.

/// One notification from the queue.
package struct PushNotification: Hashable, Sendable {
    /// The row's key in the queue.
    package let row: Int64
    /// The key of its outcome, which the sender chooses: different for all that have no outcome yet.
    package var key: UInt64
    package let token: DeviceToken
    /// The same at every attempt.
    package let id: APNsID
    package let headers: NotificationHeaders
    /// The JSON, sent unchanged.
    package var payload: [UInt8]
    /// Earlier attempts.
    package let attempts: Int
    /// How often it was put on a stream in this attempt.
    package var sends = 0

    package init(
        row: Int64 = 0, key: UInt64 = 0, token: DeviceToken, id: APNsID,
        headers: NotificationHeaders = NotificationHeaders(), payload: [UInt8], attempts: Int = 0
    ) {
        (self.row, self.key, self.token, self.id) = (row, key, token, id)
        (self.headers, self.payload, self.attempts) = (headers, payload, attempts)
    }
}

/// The values of the `apns-` headers as the queue has them, unchecked; nil is the default.
package struct NotificationHeaders: Hashable, Sendable {
    package var pushType: String?
    package var priority: Int?
    /// Seconds since 1970; 0 for one attempt.
    package var expiration: Int64?
    package var collapseID: String?

    package init(
        pushType: String? = nil, priority: Int? = nil, expiration: Int64? = nil,
        collapseID: String? = nil
    ) {
        (self.pushType, self.priority) = (pushType, priority)
        (self.expiration, self.collapseID) = (expiration, collapseID)
    }
}

/// The delivery state of a row.
package enum DeliveryState: String, Hashable, Sendable {
    case pending
    /// A sender holds the row. No row stores this state: the claim has the keys.
    case claimed
    /// To be sent again.
    case retry
    /// APNs accepted the notification.
    case sent
    /// Not sent, for a reason known before the attempt.
    case skipped
    /// APNs answered 410.
    case gone
    /// APNs refused the notification for another reason.
    case failed
    /// Handed to the wire without an answer, and not sent again.
    case unknown

    package var isFinal: Bool {
        switch self {
        case .pending, .claimed, .retry: false
        case .sent, .skipped, .gone, .failed, .unknown: true
        }
    }
}

/// The reason why a row is not sent. The raw value is stored with it.
package enum SkipReason: String, Hashable, Sendable, CaseIterable {
    /// The token is marked, and its device has not registered since.
    case stale
    /// No row of the token table has the token for this app and environment.
    case unknown
    /// The row's token column does not hold a token.
    case malformed
}

/// What became of one notification, as the columns of its row have it.
package struct Outcome: Hashable, Sendable {
    package let state: DeliveryState
    /// Printable ASCII, at most 64 characters: it may be a peer's text.
    package let reason: String?
    /// The least seconds until a retry, by the database's clock; nil leaves the row's time.
    package let wait: Int?
    /// Whether it counts as an attempt to send.
    package let isAttempt: Bool

    /// `isAttempt` nil: an outcome of a row that was handed to the wire is one.
    package init(
        _ state: DeliveryState, reason: String? = nil, wait: Int? = nil, isAttempt: Bool? = nil
    ) {
        (self.state, self.wait) = (state, wait)
        self.reason = reason.map(PlainASCII.text)
        self.isAttempt = isAttempt ?? (state != .pending && state != .skipped)
    }

    package static let sent = Outcome(.sent)
    /// Never handed to the wire: any sender may claim it at once.
    package static let returned = Outcome(.pending)

    /// APNs knows the token no more (410); the reason is APNs' own word.
    package static func gone(reason: String) -> Outcome { Outcome(.gone, reason: reason) }
    /// Refused for good, or after the last attempt.
    package static func failed(reason: String) -> Outcome { Outcome(.failed, reason: reason) }
    /// Handed to the wire without an answer: it may have been accepted.
    package static func unknown(reason: String) -> Outcome { Outcome(.unknown, reason: reason) }
    /// Never sent, because of its token.
    package static func skipped(_ reason: SkipReason) -> Outcome {
        Outcome(.skipped, reason: reason.rawValue)
    }
    /// Due again after so many seconds by the database's clock.
    package static func retry(seconds: Int, reason: String) -> Outcome {
        Outcome(.retry, reason: reason, wait: max(seconds, 0))
    }
    /// The same for a gateway that serves nobody: the row keeps its number of attempts.
    package static func postponed(seconds: Int, reason: String) -> Outcome {
        Outcome(.retry, reason: reason, wait: max(seconds, 0), isAttempt: false)
    }
}

/// The outcome of a claimed row.
package struct DeliveryResult: Hashable, Sendable {
    /// The row's key in the queue.
    package let key: Int64
    package let outcome: Outcome

    package init(key: Int64, _ outcome: Outcome) { (self.key, self.outcome) = (key, outcome) }
}

// The name of one notification, chosen by this program.
//
// APNs repeats it in the answer. Only a name that is stored before the first attempt lets a
// notification of unknown outcome be sent again without becoming another one. It is sixteen bytes
// in the queue and a lower-case UUID on the wire. A hundred thousand of them are written per
// second, so the text is written into the caller's buffer.

/// The value of `apns-id`: 16 bytes, spelled as a lower-case UUID, 8-4-4-4-12 hex digits.
/// Sources: Apple, "Sending notification requests to APNs"; RFC 9562 section 4.
package struct APNsID: Hashable, Sendable, CustomStringConvertible {
    /// The number of bytes of the spelling.
    package static let textLength = 36

    private let high: UInt64
    private let low: UInt64

    /// Makes a name from its two halves in big-endian order.
    package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// A random name (RFC 9562 section 5.4, version 4).
    package static func random() -> APNsID {
        APNsID(
            high: .random(in: 0 ... .max) & ~0xF000 | 0x4000,
            low: .random(in: 0 ... .max) & ~(0b11 << 62) | 0b10 << 62)
    }

    // Not generic over collections: a generic initializer would not be specialized in other
    // modules, and would cost more than all other processing of an answer.
    /// Reads a spelling: 36 bytes, digits of either case, as APNs accepts them; nil for any other text.
    package init?(text: ArraySlice<UInt8>) {
        guard text.count == Self.textLength else { return nil }
        var (high, low, digits) = (UInt64(0), UInt64(0), 0)
        for (index, byte) in text.enumerated() {
            if Self.isHyphen(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            guard let digit = Hex.value(of: byte) else { return nil }
            if digits < 16 {
                high = high << 4 | UInt64(digit)
            } else {
                low = low << 4 | UInt64(digit)
            }
            digits += 1
        }
        self.init(high: high, low: low)
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

/// Makes text of unknown origin safe to print: printable ASCII, at most 64 characters, `?` for the
/// rest. Text of peers and databases must not bring control characters to a terminal.
enum PlainASCII {
    static let longest = 64

    static func text(_ text: String) -> String {
        guard text.utf8.count > longest || !text.utf8.allSatisfy(isPrintable) else { return text }
        return String(decoding: text.utf8.prefix(longest).map(shown), as: UTF8.self)
    }

    static func isPrintable(_ byte: UInt8) -> Bool { byte >= 0x20 && byte < 0x7F }

    static func shown(_ byte: UInt8) -> UInt8 { isPrintable(byte) ? byte : UInt8(ascii: "?") }
}

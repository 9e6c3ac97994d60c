import APNsProtocol
import Database
import TokenTable

/// One notification from the queue, ready to be sent.
package struct QueuedNotification: Hashable, Sendable {
    /// The row's key in the queue.
    package let key: Int64
    /// The device token to send to.
    package let token: DeviceToken
    /// The JSON from the row; empty after `QueueClaim.dropPayload`.
    package internal(set) var payload: [UInt8]
    /// The two halves of `apns-id`, big-endian: the same at every attempt to send this row.
    package let apnsID: NotificationName
    /// The number of earlier attempts.
    package let attempts: Int
    /// `apns-push-type`; nil: alert.
    package let pushType: String?
    /// `apns-priority`; nil: the push type's default.
    package let priority: Int?
    /// `apns-expiration` in seconds since 1970, 0 for "do not store"; nil: none is sent.
    package let expiration: Int64?
    /// `apns-collapse-id`; nil: none.
    package let collapseID: String?
}

/// The 16 bytes of an `apns-id`, made of a random part that the queue keeps and the row's key. So
/// it is known before the first attempt and is the same at each, without being written to any row.
/// RFC 9562 section 5.8 (version 8): 60 random bits, then 60 bits of the key. The key is therefore
/// readable in the last 15 digits in any log of APNs.
package struct NotificationName: Hashable, Sendable {
    /// The first 8 bytes, big-endian.
    package let high: UInt64
    /// The last 8 bytes, big-endian.
    package let low: UInt64

    /// The name of a row, from the queue's random part and the row's key.
    init(space: Int64, key: Int64) {
        let random = UInt64(bitPattern: space)
        // 48 bits, the version, 12 bits.
        high = (random >> 12 & 0xFFFF_FFFF_FFFF) << 16 | 0x8000 | random & 0xFFF
        // The variant 10 and two zero bits, 60 bits of the key.
        low = 0x8000_0000_0000_0000 | UInt64(bitPattern: key) & 0x0FFF_FFFF_FFFF_FFFF
    }

    /// The 16 bytes, `high` first.
    package var bytes: [UInt8] {
        withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) }
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

/// The delivery state of a row.
package enum DeliveryState: String, Hashable, Sendable, CaseIterable {
    /// The row waits to be sent.
    case pending
    /// A sender holds the row. No row stores this state: the claim has the keys.
    case claimed
    /// The row waits to be sent again.
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

    /// Whether the state is final.
    package var isFinal: Bool {
        switch self {
        case .pending, .claimed, .retry: false
        case .sent, .skipped, .gone, .failed, .unknown: true
        }
    }
}

/// The result of one claimed notification.
package struct DeliveryResult: Hashable, Sendable {
    /// The outcome to record. Reasons are APNs' own text, cut to 64 bytes.
    package enum Outcome: Hashable, Sendable {
        /// APNs answered 200.
        case sent
        /// APNs answered 410.
        case gone(reason: String)
        /// APNs refused the notification permanently.
        case failed(reason: String)
        /// To be sent again, at the earliest after `seconds` by the database's clock.
        case retry(seconds: Int, reason: String)
        /// Handed to the wire without an answer, and not to be sent again.
        case unknown(reason: String)
        /// Not sent, for a reason found after the claim.
        case skipped(SkipReason)
        /// Never handed to the wire: any sender may claim it at once.
        case returned
    }

    /// The row's key in the queue.
    package let key: Int64
    /// The outcome to record for the row.
    package let outcome: Outcome

    /// Makes the result of the row with a key.
    package init(key: Int64, _ outcome: Outcome) {
        self.key = key
        self.outcome = outcome
    }
}

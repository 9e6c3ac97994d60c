import APNsProtocol
import Database
import TokenTable

/// One notification out of the queue, ready to be sent.
package struct QueuedNotification: Hashable, Sendable {
    /// The row's key.
    package let key: Int64
    /// Whom to send to.
    package let token: DeviceToken
    /// The JSON, as it stands in the row; empty once `QueueClaim.dropPayload` let it go.
    package internal(set) var payload: [UInt8]
    /// The two halves of `apns-id`, big-endian: the same at every attempt to send this row.
    package let apnsID: NotificationName
    /// How often it was tried before.
    package let attempts: Int
    /// `apns-push-type`; nil: alert.
    package let pushType: String?
    /// `apns-priority`; nil: the type's usual one.
    package let priority: Int?
    /// `apns-expiration` in seconds since 1970, 0 for "do not store"; nil: none is sent.
    package let expiration: Int64?
    /// `apns-collapse-id`; nil: none.
    package let collapseID: String?
}

/// The 16 bytes of an `apns-id`, made of a random part that the queue keeps and the row's key, so
/// that it is known before the first attempt and the same at each, without being written to any row.
/// RFC 9562 section 5.8 (version 8): 60 random bits, then 60 bits of the key, which so can be read
/// off the last 15 digits in any log of APNs.
package struct NotificationName: Hashable, Sendable {
    /// The first 8 bytes, big-endian.
    package let high: UInt64
    /// The last 8 bytes, big-endian.
    package let low: UInt64

    /// Names the row with a key in a queue with a random part.
    init(space: Int64, key: Int64) {
        let random = UInt64(bitPattern: space)
        // 48 bits, the version, 12 bits.
        high = (random >> 12 & 0xFFFF_FFFF_FFFF) << 16 | 0x8000 | random & 0xFFF
        // The variant 10 and two zero bits, 60 bits of the key.
        low = 0x8000_0000_0000_0000 | UInt64(bitPattern: key) & 0x0FFF_FFFF_FFFF_FFFF
    }

    /// The 16 bytes in order.
    package var bytes: [UInt8] {
        withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) }
    }
}

/// Why a row is not sent. The raw value is stored with it.
package enum SkipReason: String, Hashable, Sendable, CaseIterable {
    /// The token is marked, and its device has not registered since.
    case stale
    /// No row of the token table has the token for this app and environment.
    case unknown
    /// What stands in the row is no token.
    case malformed
}

/// What has become of a row.
package enum DeliveryState: String, Hashable, Sendable, CaseIterable {
    /// Waits to be sent.
    case pending
    /// Held by a sender. Stands in no row: the claim has the keys.
    case claimed
    /// Waits to be sent again.
    case retry
    /// Accepted by APNs.
    case sent
    /// Not sent, for a reason known beforehand.
    case skipped
    /// Answered with 410.
    case gone
    /// Refused by APNs for another reason.
    case failed
    /// Handed to the wire without an answer, and not sent again.
    case unknown

    /// Whether nothing more happens to the row.
    package var isFinal: Bool {
        switch self {
        case .pending, .claimed, .retry: false
        case .sent, .skipped, .gone, .failed, .unknown: true
        }
    }
}

/// What came of one claimed notification.
package struct DeliveryResult: Hashable, Sendable {
    /// What there is to write down. Reasons are APNs' own words; longer ones are cut to 64 bytes.
    package enum Outcome: Hashable, Sendable {
        /// Answered with 200.
        case sent
        /// Answered with 410.
        case gone(reason: String)
        /// Refused for good.
        case failed(reason: String)
        /// To be sent again, not before so many seconds from now by the database's clock.
        case retry(seconds: Int, reason: String)
        /// Handed to the wire, no answer, and not to be sent again.
        case unknown(reason: String)
        /// Not sent for a reason found after the claim.
        case skipped(SkipReason)
        /// Never handed to the wire: anybody may claim it at once.
        case returned
    }

    /// The row's key.
    package let key: Int64
    /// What to write down.
    package let outcome: Outcome

    /// States a result.
    package init(key: Int64, _ outcome: Outcome) {
        self.key = key
        self.outcome = outcome
    }
}

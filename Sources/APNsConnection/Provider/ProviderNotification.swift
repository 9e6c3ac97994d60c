import APNsProtocol
import SecureTransport

/// A notification given to the connections of a provider.
package struct ProviderNotification: Sendable {
    /// The caller's own key; the outcome has the same key.
    package let key: UInt64
    /// The device token to send to.
    package let token: DeviceToken
    /// The value of `apns-id`, the same at every attempt.
    package let id: APNsID
    /// The header values, shared with other notifications.
    package let attributes: NotificationAttributes
    /// The JSON of the body, sent unchanged.
    package let payload: [UInt8]
    /// The number of times it was put on a stream.
    var sends = 0

    /// Makes a notification. The caller has checked its payload with `attributes.checkPayload`.
    package init(
        key: UInt64, token: DeviceToken, id: APNsID, attributes: NotificationAttributes,
        payload: [UInt8]
    ) {
        self.key = key
        self.token = token
        self.id = id
        self.attributes = attributes
        self.payload = payload
    }
}

/// The outcome of one notification.
package struct ProviderOutcome: Hashable, Sendable {
    /// The kind of an outcome.
    package enum Kind: Hashable, Sendable {
        /// APNs answered over HTTP/2.
        case answered(ProviderAnswer)
        /// The binary interface took it: silence or a later identifier confirmed that.
        case accepted
        /// The binary interface refused it with this status.
        case refusedBinary(BinaryStatus)
        /// It does not fit into a frame of the binary interface and was not sent.
        case unsendable(BinaryFault)
        /// It was on the wire and got no answer, so its outcome is unknown; the value is the reason
        /// as a short clause.
        case unknown(String)
        /// It was on the wire, and in place of an answer the gateway broke HTTP/2; the value is the
        /// breach as a short clause.
        case garbled(String)
        /// The gateway refused its stream at every try, and did not process it.
        case refused
        /// It certainly was not processed, whatever the number of tries.
        case untouched
    }

    /// The key from `ProviderNotification`.
    package let key: UInt64
    /// The kind, with the answer or the reason.
    package let kind: Kind
}

/// The reason why no connection of a provider works.
package struct ProviderFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure; it decides what has to change before sending can continue.
    package enum Code: Hashable, Sendable {
        /// The gateway cannot be reached, or ends every connection. A later try may succeed.
        case unreachable
        /// The gateway takes notifications and answers none. A later try may succeed.
        case unanswering
        /// The gateway broke TLS or HTTP/2.
        case protocolBroken
        /// A setting, certificate, key or the clock of this host is wrong.
        case configuration
    }

    /// The kind of failure.
    package let code: Code
    /// The failure in one line, for messages and reports.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// A gateway with another certificate or protocol is a mistake of the settings only where no
    /// connection was made with them: `hasConnected`. Else what the gateway shows has changed, which
    /// may pass.
    init(_ failure: TransportFailure, hasConnected: Bool) {
        let code: Code =
            switch failure.code {
            case .clientCertificateRefused, .credentialsUnusable: .configuration
            case .certificateUntrusted, .hostNameMismatch, .wrongProtocol:
                hasConnected ? .unreachable : .configuration
            case .notTLS, .protocolVersion, .protocolError: .protocolBroken
            default: .unreachable
            }
        self.init(code, failure.description)
    }
}

/// The notifications in flight on one connection, by slot. A slot is reused only after its
/// notification has an outcome, so an answer is never assigned to another notification.
struct InFlightRequests {
    /// A notification on the wire.
    struct Entry {
        let notification: ProviderNotification
        /// The serial of the provider token it was sent with.
        let tokenSerial: Int?
    }

    private var entries: [Entry?] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }

    /// Stores a notification and returns its slot.
    mutating func insert(_ notification: ProviderNotification, tokenSerial: Int?) -> UInt64 {
        let entry = Entry(notification: notification, tokenSerial: tokenSerial)
        guard let slot = free.popLast() else {
            entries.append(entry)
            return UInt64(entries.count - 1)
        }
        entries[slot] = entry
        return UInt64(slot)
    }

    /// Removes a notification by its slot and returns it; nil for an unused slot.
    @discardableResult
    mutating func remove(_ slot: UInt64) -> Entry? {
        guard let slot = Int(exactly: slot), entries.indices.contains(slot),
            let entry = entries[slot]
        else { return nil }
        entries[slot] = nil
        free.append(slot)
        return entry
    }

    /// Removes all notifications and returns them.
    mutating func removeAll() -> [ProviderNotification] {
        defer { self = InFlightRequests() }
        return entries.compactMap { $0?.notification }
    }
}

import APNsProtocol
import SecureTransport

/// Writes requests for one connection. The common part of notifications is encoded once per
/// attributes and provider token; the rest goes as bytes into a buffer that is reused.
struct ProviderRequestWriter {
    /// The header fields of answers that are read.
    static let keptFields = ["retry-after", "date", "content-type"]
    /// The indices in `keptFields`.
    static let retryAfter = 0
    static let date = 1
    static let contentType = 2
    /// The number of templates kept. A queue whose every row has its own collapse id would need one
    /// each.
    private static let mostTemplates = 64

    private let plan: ProviderPlan
    private(set) var token: ProviderToken?
    private var attributes: AttributeReader
    private var templates: [NotificationAttributes: HTTP2RequestTemplate] = [:]
    private var last: (attributes: NotificationAttributes, template: HTTP2RequestTemplate)?
    private var request: HTTP2Request
    private var path = [UInt8](repeating: 0, count: 1_024)
    private var identifier = [UInt8](repeating: 0, count: APNsID.textLength)

    init(_ plan: ProviderPlan) {
        self.plan = plan
        attributes = AttributeReader(plan.topic)
        request = HTTP2Request(HTTP2RequestTemplate([]))
    }

    /// Gets the provider token that is due.
    mutating func renewToken() throws(ProviderFailure) {
        guard let tokens = plan.tokens else { return }
        use(try tokens.token())
    }

    /// Gets another provider token after APNs called one expired.
    mutating func replaceToken(
        serial: Int?, serverTime: EpochSeconds?
    ) throws(ProviderFailure) {
        // An answer to an older token: there is a newer one already.
        guard let tokens = plan.tokens, let token, token.serial == serial else { return }
        use(try tokens.token(afterExpiryOf: token, serverTime: serverTime))
    }

    private mutating func use(_ other: ProviderToken) {
        guard other.serial != token?.serial else { return }
        token = other
        templates = [:]
        last = nil
    }

    /// Prepares a request for a notification that APNs would not refuse for its form.
    mutating func prepare(_ notification: PushNotification) throws(RequestRefusal) {
        request.reset(template(try attributes.attributes(of: notification)))
        let needed = ProviderPath.length(of: notification.token)
        if path.count < needed { path = [UInt8](repeating: 0, count: needed) }
        let length = path.withUnsafeMutableBytes {
            ProviderPath.write(notification.token, into: $0)
        }
        request.append(path[..<length])
        request.endValue()
        identifier.withUnsafeMutableBytes { notification.id.writeText(into: $0) }
        request.append(identifier)
        request.endValue()
        request.append(notification.payload)
    }

    /// Puts the prepared request on a stream; false when the session has no room.
    func submit(to session: HTTP2ClientSession, under slot: UInt64) -> Bool {
        session.submit(request, key: slot)
    }

    private mutating func template(
        _ attributes: NotificationAttributes
    ) -> HTTP2RequestTemplate {
        if let last, last.attributes == attributes { return last.template }
        let template = templates[attributes] ?? Self.template(attributes, token, plan)
        if templates.count >= Self.mostTemplates { templates.removeAll() }
        templates[attributes] = template
        last = (attributes, template)
        return template
    }

    /// The common part of all requests with the same attributes, encoded for the session.
    private static func template(
        _ attributes: NotificationAttributes, _ token: ProviderToken?, _ plan: ProviderPlan
    ) -> HTTP2RequestTemplate {
        var fields = [
            HTTP2Field(":method", "POST"), HTTP2Field(":scheme", "https"),
            HTTP2Field(":authority", plan.gateway.port == 443 ? plan.gateway.host : plan.name),
            .perRequest(":path"), .perRequest("apns-id"),
        ]
        if let token {
            fields.append(HTTP2Field("authorization", token.authorization, isIndexed: false))
        }
        fields += attributes.fields.map {
            HTTP2Field($0.name, $0.value, isIndexed: $0.isIndexed)
        }
        return HTTP2RequestTemplate(fields)
    }
}

/// The notifications in flight on one connection, by slot. A slot is reused only after its
/// notification has an outcome, so an answer is never assigned to another notification.
struct InFlightRequests {
    /// A notification on the wire.
    struct Entry {
        let notification: PushNotification
        /// The serial of the provider token it was sent with.
        let tokenSerial: Int?
    }

    private var entries: [Entry?] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }
    var count: Int { entries.count - free.count }

    /// Stores a notification and returns its slot.
    mutating func insert(_ notification: PushNotification, tokenSerial: Int?) -> UInt64 {
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
    mutating func removeAll() -> [PushNotification] {
        defer { self = InFlightRequests() }
        return entries.compactMap { $0?.notification }
    }
}

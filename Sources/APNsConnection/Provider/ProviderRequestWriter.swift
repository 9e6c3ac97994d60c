import APNsProtocol
import SecureTransport

/// Writes requests for one connection. The common part of notifications is encoded once per
/// attributes and provider token; the rest goes as bytes into a buffer that is reused.
struct ProviderRequestWriter {
    /// The header fields of answers that are read.
    static let keptFields = ["retry-after", "date"]
    /// The indices in `keptFields`.
    static let retryAfter = 0
    static let date = 1
    /// The number of templates kept. A queue whose every row has its own collapse id would need one
    /// each.
    private static let mostTemplates = 64

    private let plan: ProviderPlan
    private(set) var token: ProviderToken?
    private var templates: [NotificationAttributes: HTTP2RequestTemplate] = [:]
    private var last: (attributes: NotificationAttributes, template: HTTP2RequestTemplate)?
    private var request: HTTP2Request
    private var path = [UInt8](repeating: 0, count: 1_024)
    private var identifier = [UInt8](repeating: 0, count: APNsID.textLength)

    init(_ plan: ProviderPlan) {
        self.plan = plan
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

    /// Puts a notification on a stream; false when the session has no room.
    mutating func submit(
        _ notification: ProviderNotification, to session: HTTP2ClientSession, under slot: UInt64
    ) -> Bool {
        request.reset(template(notification.attributes))
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
        return session.submit(request, key: slot)
    }

    private mutating func template(
        _ attributes: NotificationAttributes
    ) -> HTTP2RequestTemplate {
        if let last, last.attributes == attributes { return last.template }
        let template = templates[attributes] ?? plan.template(attributes, token)
        if templates.count >= Self.mostTemplates { templates.removeAll() }
        templates[attributes] = template
        last = (attributes, template)
        return template
    }
}

import APNsProtocol
import SecureTransport

/// The address of a provider's gateway, the credential, and the limits.
package struct ProviderPlan: Sendable {
    /// Limits of time.
    package struct Limits: Sendable {
        /// The time to connect to one address.
        package var connect: Duration = .seconds(10)
        /// The time for the TLS handshake.
        package var handshake: Duration = .seconds(10)
        /// The time for one notification, from the opening of its stream to its answer.
        package var request: Duration = .seconds(30)
        /// A factor of the pauses between connections. Less than 1 only for a gateway of one's own.
        package var pace = 1.0

        /// Makes the default limits.
        package init() {}
    }

    /// The gateway's host name or address.
    package let host: String
    /// Its port: 443, or 2197 (Apple, "Sending notification requests to APNs").
    package let port: UInt16
    /// The name that its certificate must have.
    package let hostName: String
    /// Trusted authorities and this host's certificate; must offer `h2`.
    package let context: TLSClientContext
    /// The source of provider tokens; nil where the certificate is the credential.
    package let tokens: ProviderTokenSource?
    /// The limits of time.
    package let limits: Limits
    /// The wall clock, for `retry-after` and for messages.
    package let now: @Sendable () -> EpochSeconds
    /// Receives messages about connections, as sentences for people; called from any thread.
    package let story: @Sendable (String) -> Void

    /// Makes a plan; without `hostName` the certificate must have the name `host`.
    package init(
        host: String, port: UInt16, hostName: String? = nil, context: TLSClientContext,
        tokens: ProviderTokenSource?, limits: Limits = Limits(),
        now: @escaping @Sendable () -> EpochSeconds,
        story: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.hostName = hostName ?? host
        self.context = context
        self.tokens = tokens
        self.limits = limits
        self.now = now
        self.story = story
    }

    /// `host:port`, for messages.
    package var name: String { "\(host):\(port)" }

    /// The common part of all requests with the same attributes, encoded for the session.
    func template(
        _ attributes: NotificationAttributes, _ token: ProviderToken?
    ) -> HTTP2RequestTemplate {
        var fields = [
            HTTP2Field(":method", "POST"), HTTP2Field(":scheme", "https"),
            HTTP2Field(":authority", port == 443 ? host : name),
            .perRequest(":path"), .perRequest("apns-id"),
        ]
        if let token {
            fields.append(HTTP2Field("authorization", token.authorization, indexing: .never))
        }
        fields += attributes.fields.map {
            HTTP2Field($0.name, $0.value, indexing: $0.isIndexed ? .incremental : .never)
        }
        return HTTP2RequestTemplate(fields)
    }
}

import APNsProtocol
import SecureTransport

/// How to reach a provider's gateway, and as whom.
package struct ProviderPlan: Sendable {
    /// Bounds of time.
    package struct Limits: Sendable {
        /// For one address.
        package var connect: Duration = .seconds(10)
        /// For the TLS handshake.
        package var handshake: Duration = .seconds(10)
        /// For one notification, from its stream's opening to its answer.
        package var request: Duration = .seconds(30)
        /// A factor of the pauses between connections; less than 1 only where no stranger's gateway is
        /// on the other side.
        package var pace = 1.0

        /// The usual bounds.
        package init() {}
    }

    /// The gateway.
    package let host: String
    /// Its port: 443, or 2197 (Apple, "Sending notification requests to APNs").
    package let port: UInt16
    /// The name its certificate must carry.
    package let hostName: String
    /// Trusted authorities and our certificate; must offer `h2`.
    package let context: TLSClientContext
    /// Where provider tokens come from; nil where the certificate is the credential.
    package let tokens: ProviderTokenSource?
    /// Bounds of time.
    package let limits: Limits
    /// The wall clock, for `retry-after` and for messages.
    package let now: @Sendable () -> EpochSeconds
    /// Hears what happens to connections, in sentences for people; from any thread.
    package let story: @Sendable (String) -> Void

    /// Plans a provider.
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

    /// `host:port`.
    package var name: String { "\(host):\(port)" }

    /// What all requests with the same attributes share, laid out for the session.
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

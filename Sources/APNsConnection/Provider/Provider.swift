import APNsProtocol
import SecureTransport

// A provider as a sender uses it: notifications in, outcomes out. Each notification has the
// caller's key and gets exactly one outcome, even when connections fail. It consists of two
// queues and a few threads, each with its own connection.

/// The connections to one gateway under one credential.
package final class Provider: NotificationGateway {
    /// The gateway, the credential and the limits.
    package let plan: ProviderPlan
    private let queues: ProviderQueues
    private let interrupt: Interrupt
    private let threads: [WorkerThread]

    /// Starts `connections` threads. A thread connects when there is a notification to send.
    /// `hasConnected` is that of the provider which this one replaces.
    ///
    /// - Throws: `io` where no thread can be started.
    package init(
        _ plan: ProviderPlan, connections: Int, hasConnected: Bool = false
    ) throws(TransportFailure) {
        self.plan = plan
        let interrupt = try Interrupt()
        self.interrupt = interrupt
        let queues = ProviderQueues(hasConnected: hasConnected)
        self.queues = queues
        var threads: [WorkerThread] = []
        for _ in 0..<max(1, connections) {
            queues.addThread()
            do throws(TransportFailure) {
                threads.append(
                    try WorkerThread {
                        var connection = ProviderConnection(plan, queues, interrupt)
                        queues.removeThread(connection.run())
                    })
            } catch {
                queues.removeThread(nil)
                queues.stop()
                interrupt.trip()
                for thread in threads { thread.join() }
                throw error
            }
        }
        self.threads = threads
    }

    /// `host:port`, for messages.
    package var name: String { plan.name }

    /// Always 0: each notification has its answer.
    package var settledTooEarly: Int { 0 }

    /// Passes notifications to the connections. Their keys must differ from those of all
    /// notifications without an outcome.
    package func submit(_ notifications: [ProviderNotification]) { queues.add(notifications) }

    /// Waits for outcomes; empty when `milliseconds` pass without one.
    package func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        queues.outcomes(within: milliseconds)
    }

    /// Removes and returns the notifications that no connection has taken.
    package func withdraw() -> [ProviderNotification] { queues.withdraw() }

    /// The reason why no connection works; nil while one does.
    package var failure: ProviderFailure? { queues.failure }

    /// Whether a connection with these settings was made in this run.
    package var hasConnected: Bool { queues.hasConnected }

    /// Ends all connections: orderly once nothing is in flight, or immediately with `abruptly`.
    /// Afterwards every notification that was not withdrawn has its outcome.
    package func stop(abruptly: Bool) {
        queues.stop()
        if abruptly { interrupt.trip() }
        for thread in threads { thread.join() }
    }
}

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
    package let log: @Sendable (String) -> Void

    /// Makes a plan; without `hostName` the certificate must have the name `host`.
    package init(
        host: String, port: UInt16, hostName: String? = nil, context: TLSClientContext,
        tokens: ProviderTokenSource?, limits: Limits = Limits(),
        now: @escaping @Sendable () -> EpochSeconds,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.hostName = hostName ?? host
        self.context = context
        self.tokens = tokens
        self.limits = limits
        self.now = now
        self.log = log
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

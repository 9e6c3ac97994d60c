import APNsProtocol
import SecureTransport

/// The address of a gateway, its interface, the credential, and the limits.
package struct ProviderPlan: Sendable {
    /// How notifications are written, and how many connections carry them.
    package enum Interface: Sendable {
        /// With the source of provider tokens, nil where the certificate is the credential. The context
        /// must offer `h2`.
        case http2(ProviderTokenSource?, connections: Int)
        /// Apple, "Binary Provider API" (archived); one connection with a certificate. Frames need no
        /// answer, so it is as fast as the network, and each further connection would lose more
        /// notifications to an end without a word.
        case binary(BinaryCommand)
    }

    /// The times after which a gateway counts as silent.
    package struct Limits: Sendable {
        /// The time to connect to one address.
        package var connect: Duration = .seconds(10)
        package var handshake: Duration = .seconds(10)
        /// The time for one notification, from the opening of its stream to its answer; over the binary
        /// interface that in which the gateway has to take some bytes.
        package var request: Duration = .seconds(30)
        /// The silence after the receipt of a notification by which the binary interface accepts it.
        package var errorWait: Duration = .seconds(2)
        /// The most notifications of the binary interface whose fate is open.
        package var window = 20_000
        /// A factor of the pauses between connections. Less than 1 only for a gateway of one's own.
        package var pace = 1.0

        package init() {}
    }

    /// The most open notifications with command 0, which has no identifiers: all of them are of
    /// unknown outcome when the gateway refuses one.
    package static let windowWithoutIdentifiers = 200

    package let interface: Interface
    /// With port 443 or 2197 for HTTP/2, 2195 for the binary interface (Apple).
    let gateway: GatewayAddress
    /// The bundle identifier of the app.
    package let topic: String
    package let limits: Limits
    /// The wall clock: for `retry-after`, for messages, and for the expiry that command 1 requires.
    package let now: @Sendable () -> EpochSeconds
    /// Receives sentences for people; called from any thread.
    package let log: @Sendable (String) -> Void

    /// Makes a plan; without `hostName` the certificate must have the name `host`.
    package init(
        _ interface: Interface, host: String, port: UInt16, hostName: String? = nil, topic: String,
        context: TLSClientContext, limits: Limits = Limits(),
        now: @escaping @Sendable () -> EpochSeconds,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        gateway = GatewayAddress(
            host: host, port: port, hostName: hostName ?? host, context: context)
        (self.interface, self.topic) = (interface, topic)
        (self.limits, self.now, self.log) = (limits, now, log)
    }

    /// `host:port`, for messages.
    package var name: String { gateway.name }

    /// The command of the binary interface's frames; nil for HTTP/2.
    package var command: BinaryCommand? {
        if case .binary(let command) = interface { command } else { nil }
    }

    /// The source of provider tokens, where there is one.
    var tokens: ProviderTokenSource? {
        if case .http2(let tokens, _) = interface { tokens } else { nil }
    }

    /// The most notifications of the binary interface whose fate may be open.
    var window: Int {
        command == .simple
            ? min(limits.window, Self.windowWithoutIdentifiers) : limits.window
    }

    /// Waits before the next connection, at most so many milliseconds; false where it is interrupted.
    func pause(_ most: Int, _ interrupt: Interrupt) -> Bool {
        guard most > 0 else { return true }
        let pause = Duration.milliseconds(Int.random(in: most / 2...most)) * limits.pace
        return !interrupt.wait(until: .in(pause))
    }

    /// Connects with the limits of the plan, or with `time` for one address.
    package func connect(
        _ interrupt: Interrupt, within time: Duration? = nil, until deadline: Deadline = .never
    ) throws(TransportFailure) -> TLSConnection {
        try gateway.connect(
            time ?? limits.connect, handshake: limits.handshake, until: deadline, interrupt,
            requiring: command == nil ? "h2" : nil
        ) { log("connected to \(name) at \($0)") }
    }
}

// A gateway can be examined without a notification. The address may be that of a feedback gateway by
// mistake, which clears its list for every client. So the handshake is completed only with a server that
// has chosen `h2`: then TLS proves who it is, and its SETTINGS, with which every HTTP/2 server begins, that
// it took our certificate. Under TLS 1.3 a refused certificate shows only after the handshake (RFC 8446
// section 4.4.2.4).

extension ProviderPlan {
    /// Connects, waits for the SETTINGS of a gateway of HTTP/2, and closes, without any request. Of one of
    /// the binary interface it only sees that a server listens.
    ///
    /// - Parameter time: the limit for all of it, besides the lookup of the name.
    /// - Throws: why no notification could be sent; `timedOut` where the gateway says nothing.
    package func examine(within time: Duration, _ interrupt: Interrupt) throws(TransportFailure) {
        guard command == nil else { return try reach(interrupt) }
        let deadline = Deadline.in(time)
        // So that another address is tried where the first does not answer.
        let session = try HTTP2ClientSession(
            try connect(interrupt, within: time / 2, until: deadline))
        if session.awaitSettings(until: deadline, interrupt: interrupt) {
            session.close(deadline: .in(.seconds(1)))
            return
        }
        if interrupt.isTripped { throw .interrupted(while: "waiting for \(name)") }
        guard let close = session.closed else {
            throw TransportFailure(
                .timedOut,
                "HTTP/2 with \(session.peer): no SETTINGS within \(time.components.seconds) s; check that "
                    + "an HTTP/2 server listens at that port")
        }
        throw close.failure ?? TransportFailure(.closedEarly, close.description)
    }

    private func reach(_ interrupt: Interrupt) throws(TransportFailure) {
        guard
            try gateway.choosesHTTP2(limits.connect, handshake: limits.handshake, interrupt)
        else { return }
        throw TransportFailure(
            .wrongProtocol,
            "connecting to \(name): the server speaks HTTP/2 and not the binary interface; give its "
                + "address to provider, or correct the host and the port of binary")
    }
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
        (self.code, self.description) = (code, description)
    }

    /// A gateway with another certificate or protocol is a mistake of the settings only where no
    /// connection was made with them: `hasConnected`. Else what the gateway shows has changed, which
    /// may pass.
    init(_ failure: TransportFailure, hasConnected: Bool) {
        let code: Code =
            switch failure.code {
            case .clientCertificateRefused, .credentialsUnusable, .trustUnusable: .configuration
            case .certificateUntrusted, .hostNameMismatch, .wrongProtocol:
                hasConnected ? .unreachable : .configuration
            case .notTLS, .protocolVersion, .protocolError: .protocolBroken
            default: .unreachable
            }
        self.init(code, failure.description)
    }
}

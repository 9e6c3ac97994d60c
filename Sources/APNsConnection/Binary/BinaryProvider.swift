import APNsProtocol
import SecureTransport
import Synchronization

// A binary gateway as a sender uses it, with one connection on a thread of its own. One connection is
// enough: frames need no answer, so it is as fast as the network, and each further one would lose more
// notifications to an end without a word.

/// The connection to a binary gateway (Apple, "Binary Provider API"; port 2195).
package final class BinaryProvider: NotificationGateway {
    /// The gateway, the certificate and the limits.
    package let plan: BinaryPlan
    private let interrupt: Interrupt
    private let queues: ProviderQueues
    private let late: LateRefusals
    private let thread: WorkerThread

    /// Starts the thread. It connects when there is a notification to send. `hasConnected` is that of
    /// the gateway which this one replaces.
    ///
    /// - Throws: `io` where no thread can be started.
    package init(_ plan: BinaryPlan, hasConnected: Bool = false) throws(TransportFailure) {
        self.plan = plan
        let interrupt = try Interrupt()
        let queues = ProviderQueues(hasConnected: hasConnected)
        let late = LateRefusals()
        queues.addThread()
        thread = try WorkerThread {
            var connection = BinaryConnection(plan, queues, interrupt, late)
            queues.removeThread(connection.run())
        }
        (self.interrupt, self.queues, self.late) = (interrupt, queues, late)
    }

    /// `host:port`, for messages.
    package var name: String { plan.name }

    /// Passes notifications to the connection.
    package func submit(_ notifications: [ProviderNotification]) { queues.add(notifications) }

    /// Waits for outcomes; empty when `milliseconds` pass without one.
    package func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        queues.outcomes(within: milliseconds)
    }

    /// Removes and returns the notifications that the connection has not taken.
    package func withdraw() -> [ProviderNotification] { queues.withdraw() }

    /// The reason why no connection works; nil while one does.
    package var failure: ProviderFailure? { queues.failure }

    /// Whether a connection with these settings was made in this run.
    package var hasConnected: Bool { queues.hasConnected }

    /// Notifications that were called accepted and that a late error packet proved dropped.
    package var settledTooEarly: Int { late.count.load(ordering: .relaxed) }

    /// Ends the connection: once all notifications on the wire are settled, or immediately.
    package func stop(abruptly: Bool) {
        queues.stop()
        if abruptly { interrupt.trip() }
        thread.join()
    }
}

/// The number of notifications that were settled too early, written by the connection's thread.
final class LateRefusals: Sendable {
    let count = Atomic<Int>(0)
}

/// The address of a binary gateway, the certificate, and the limits.
package struct BinaryPlan: Sendable {
    /// Limits of time and number.
    package struct Limits: Sendable {
        /// The time to connect to one address.
        package var connect: Duration = .seconds(10)
        /// The time for the TLS handshake.
        package var handshake: Duration = .seconds(10)
        /// The time in which the gateway has to take some bytes.
        package var write: Duration = .seconds(30)
        /// The silence after the receipt of a notification by which it counts as accepted.
        package var errorWait: Duration = .seconds(2)
        /// The most notifications whose fate is open.
        package var window = 20_000
        /// A factor of the pauses between connections. Less than 1 only for a gateway of one's own.
        package var pace = 1.0

        /// Makes the default limits.
        package init() {}
    }

    /// The most open notifications with command 0, which has no identifiers: all of them are of
    /// unknown outcome when the gateway refuses one.
    package static let windowWithoutIdentifiers = 200

    /// The gateway's host name or address.
    package let host: String
    /// Its port, 2195 by convention.
    package let port: UInt16
    /// The name that its certificate must have.
    package let hostName: String
    /// Trusted authorities and this host's certificate.
    package let context: TLSClientContext
    /// The command of the frames.
    package let command: BinaryCommand
    /// The limits of time and number.
    package let limits: Limits
    /// The wall clock, for the expiry that command 1 requires.
    package let now: @Sendable () -> EpochSeconds
    /// Receives messages about connections, as sentences for people; called from any thread.
    package let log: @Sendable (String) -> Void

    /// Makes a plan; without `hostName` the certificate must have the name `host`.
    package init(
        host: String, port: UInt16, hostName: String? = nil, context: TLSClientContext,
        command: BinaryCommand, limits: Limits = Limits(),
        now: @escaping @Sendable () -> EpochSeconds,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.hostName = hostName ?? host
        self.context = context
        self.command = command
        self.limits = limits
        self.now = now
        self.log = log
    }

    /// `host:port`, for messages.
    package var name: String { "\(host):\(port)" }

    /// The most notifications whose fate may be open.
    package var window: Int {
        command == .simple
            ? min(limits.window, Self.windowWithoutIdentifiers) : limits.window
    }

    /// The frame of a notification. Command 1 requires an expiration, so a notification without one
    /// is kept for a day. The interface has no priority 1, so that becomes 5.
    ///
    /// - Throws: why the notification does not fit into the interface.
    func frame(
        _ notification: ProviderNotification, _ identifier: UInt32
    ) throws(BinaryFault) -> BinaryFrame {
        let attributes = notification.attributes
        let fields: BinaryFrame.Fields
        switch command {
        case .simple: fields = .simple
        case .enhanced:
            fields = .enhanced(
                identifier: identifier, expiration: attributes.expiration ?? .until(aDayFromNow))
        case .framed:
            fields = .framed(
                identifier: identifier, expiration: attributes.expiration,
                priority: attributes.priority == .immediate ? .immediate : .conserving)
        }
        return try BinaryFrame(
            fields, token: notification.token, payload: notification.payload)
    }

    private var aDayFromNow: EpochSeconds {
        EpochSeconds(UInt32(clamping: Int64(now().rawValue) + 86_400))
    }

    /// Connects, one address after the other.
    ///
    /// - Throws: the failure of the last address.
    package func connect(interrupt: Interrupt) throws(TransportFailure) -> TLSConnection {
        try NameResolution.first(of: host, port) { (address) throws(TransportFailure) in
            try TLSConnection.connect(
                to: address, hostName: hostName, context: context,
                connectDeadline: .in(limits.connect), handshakeTimeout: limits.handshake,
                interrupt: interrupt)
        }
    }
}

extension BinaryPlan {
    /// Looks whether a server listens, without a complete handshake: the address may be that of a
    /// feedback gateway by mistake, which clears its list for every client. So it proves nothing about
    /// the certificates.
    ///
    /// - Throws: the failure to connect, or `wrongProtocol` where the server chooses HTTP/2.
    package func reach(interrupt: Interrupt) throws(TransportFailure) {
        let chosen = try NameResolution.first(of: host, port) {
            (address) throws(TransportFailure) in
            try TLSConnection.protocolChosen(
                by: address, hostName: hostName, context: context, offering: ["h2"],
                connectDeadline: .in(limits.connect), handshakeTimeout: limits.handshake,
                interrupt: interrupt)
        }
        guard chosen == "h2" else { return }
        throw TransportFailure(
            .wrongProtocol,
            "connecting to \(name): the server speaks HTTP/2 and not the binary interface; give its "
                + "address to provider, or correct the host and the port of binary")
    }
}

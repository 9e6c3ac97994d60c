import APNsProtocol

// The two interfaces of APNs as a sender uses them: notifications in, outcomes out. Each notification
// has the caller's key and gets exactly one outcome, even when connections fail.

/// The connections to one gateway under one credential.
package protocol NotificationGateway: AnyObject, Sendable {
    /// `host:port`, for messages.
    var name: String { get }

    /// Passes notifications to the connections. Their keys must differ from those of all
    /// notifications without an outcome.
    func submit(_ notifications: [ProviderNotification])

    /// Waits for outcomes; empty when `milliseconds` pass without one.
    func outcomes(within milliseconds: Int) -> [ProviderOutcome]

    /// Removes and returns the notifications that no connection has taken.
    func withdraw() -> [ProviderNotification]

    /// The reason why no connection works; nil while one does.
    var failure: ProviderFailure? { get }

    /// Whether a connection with these settings was made in this run.
    var hasConnected: Bool { get }

    /// Notifications that were called accepted and that a late error packet proved dropped. Always 0
    /// over HTTP/2, where each notification has its answer.
    var settledTooEarly: Int { get }

    /// Ends all connections: orderly once nothing is in flight, or immediately with `abruptly`.
    /// Afterwards every notification that was not withdrawn has its outcome.
    func stop(abruptly: Bool)
}

extension NotificationGateway {
    /// Ends all connections once nothing is in flight.
    package func stop() { stop(abruptly: false) }
}

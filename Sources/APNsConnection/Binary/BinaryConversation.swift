// The decisions about connections to a binary gateway, as a value: what happened in, decisions out.
// The thread that owns the socket performs them.
//
// A connection serves a whole batch and the batches after it. It ends in one of these ways:
//   an error packet that names a notification   progress: the next connection follows at once
//   an error packet or an end that says nothing about what was sent
//                                               what was on the wire is of unknown outcome
//   an end while nothing is open                usual for gateways that drop idle connections
// A gateway that refuses each notification ends a connection for each. The pause between such
// connections doubles until one of them brings an accepted notification. After three connections in a
// row without any progress the gateway is given up.

import APNsProtocol

/// The state machine for one binary connection after another.
struct BinaryConversation {
    /// Connections in a row without progress before the gateway is given up.
    static let mostFailures = 3
    /// The pause after a connection that brought only a refusal, in milliseconds; it doubles.
    static let firstPause = 10
    /// The longest of these pauses in milliseconds.
    static let longestPause = 1_000

    /// The most open notifications of a connection after a loss, before one was accepted on it.
    static let firstAfterLoss = 3
    /// Accepted notifications of one connection that end the caution after a loss.
    static let enoughAfterLoss = 1_000

    /// The next step after a connection ended.
    enum Pause: Hashable, Sendable {
        /// Connect again after this many milliseconds, before jitter.
        case milliseconds(Int)
        /// Connect no more.
        case giveUp
    }

    /// The open notifications of the present connection.
    private(set) var window: BinaryWindow
    private let wait: Int64
    private var failures = 0
    private var refusals = 0
    private var hasProgress = false
    /// Whether an end without a word has left notifications unknown, and too few were accepted since.
    private var isCautious = false
    /// Notifications that were accepted on the present connection.
    private var acceptedHere = 0
    private var hasRefusal = false
    /// Whether a notification was accepted on any connection, so that the certificate is a good one.
    private(set) var hasSucceeded = false

    /// Begins before the first connection; `wait` is the time of silence in milliseconds after which
    /// a received notification counts as accepted.
    init(wait: Int64) {
        self.wait = wait
        window = BinaryWindow(wait: wait)
    }

    /// A new connection begins.
    mutating func connected() {
        window = BinaryWindow(wait: wait)
        hasProgress = false
        hasRefusal = false
        acceptedHere = 0
    }

    /// How many more notifications may be open, of at most `most`, as far as identifiers last. After a loss a connection gets
    /// three, and then twice as many as were accepted on it: a gateway whose host acknowledges what
    /// nobody reads costs few.
    func room(of most: Int) -> Int {
        let limit = isCautious ? min(most, max(Self.firstAfterLoss, 2 * acceptedHere)) : most
        return min(limit - window.count, window.identifiersLeft)
    }

    /// The identifier of the next frame.
    var nextIdentifier: UInt32 { window.next }

    /// Whether no more may be put on this connection.
    var isDraining: Bool { window.identifiersLeft == 0 }

    /// Frames are about to be written; the connection has `ends` bytes with each of them.
    mutating func put(_ notifications: ArraySlice<ProviderNotification>, ends: [Int]) {
        window.append(notifications, ends: ends)
    }

    /// The gateway's host has received `offset` bytes; returns the keys of the notifications that
    /// are accepted by now.
    mutating func received(_ offset: Int, at now: Int64) -> [UInt64] {
        window.received(offset, at: now)
        let settled = window.settle(at: now)
        if !settled.isEmpty { (hasProgress, hasSucceeded) = (true, true) }
        acceptedHere += settled.count
        if acceptedHere >= Self.enoughAfterLoss { isCautious = false }
        return settled
    }

    /// Decides after an error packet, with `sent` bytes on the wire.
    mutating func refused(
        _ packet: BinaryErrorPacket, sent: Int
    ) -> BinaryWindow.Resolution {
        let resolution = window.resolve(packet, sent: sent)
        if !resolution.accepted.isEmpty { (hasProgress, hasSucceeded) = (true, true) }
        if resolution.refused != nil || resolution.settledTooEarly > 0 { hasRefusal = true }
        noteLoss(resolution)
        return resolution
    }

    /// Decides after an error packet on a connection whose frames have no identifiers.
    mutating func refusedWithoutName(sent: Int) -> BinaryWindow.Resolution {
        let resolution = window.abandonAfterPacket(sent: sent)
        noteLoss(resolution)
        return resolution
    }

    /// Decides after an end without an error packet, with `sent` bytes on the wire.
    mutating func lost(sent: Int) -> BinaryWindow.Resolution {
        let resolution = window.abandon(sent: sent)
        noteLoss(resolution)
        return resolution
    }

    private mutating func noteLoss(_ resolution: BinaryWindow.Resolution) {
        if !resolution.unknown.isEmpty { isCautious = true }
    }

    /// Decides after the connection has ended or could not be made.
    mutating func ended() -> Pause {
        defer { (hasProgress, hasRefusal) = (false, false) }
        if hasProgress {
            (failures, refusals) = (0, 0)
            return .milliseconds(0)
        }
        if hasRefusal {
            failures = 0
            refusals += 1
            return .milliseconds(min(Self.firstPause << min(refusals, 10), Self.longestPause))
        }
        failures += 1
        return failures >= Self.mostFailures ? .giveUp : .milliseconds(250 << failures)
    }
}

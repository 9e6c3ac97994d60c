import APNsProtocol

/// What must follow a bad notification before its error packet is sent. Apple's gateway checked
/// notifications after it had read many more.
package enum BinaryDelay: Sendable, Hashable {
    /// Nothing.
    case none
    /// This many later frames, all discarded.
    case frames(Int)
    /// This many later bytes, all discarded.
    case bytes(Int)
}

/// What a binary gateway does with one notification.
package enum BinaryFate: GatewayAction {
    /// It is accepted, without an answer.
    case accept
    /// It is answered with an error packet after the delay, then the connection is closed. With
    /// status 10 it is accepted, and the packet names it as the last one.
    case reject(BinaryStatus, delay: BinaryDelay = .none)
    /// It is accepted. After this many notifications the token is dead: later ones put it on the
    /// feedback list.
    case dead(after: Int = 0)
    /// It is discarded, and the connection closed without a packet.
    case close
    /// It is discarded, and the connection reset.
    case reset

    /// The fate of a notification for which a script names none: it is accepted.
    package static let usual = BinaryFate.accept

    /// Reads the spelling of the command line: `ok`, a status number, a number with `+` and the
    /// later frames to wait for (with `b`: bytes), `dead`, `dead:` and the notifications before,
    /// `close` or `reset`. Throws `SimulatorFailure`.
    package init(_ text: String) throws(SimulatorFailure) {
        switch text {
        case "ok": self = .accept
        case "dead": self = .dead()
        case "close": self = .close
        case "reset": self = .reset
        default:
            guard let fate = Self.counted(text) else {
                throw SimulatorFailure(
                    "reading the fate \"\(text)\": give ok, a status such as 8, a status with later "
                        + "frames or bytes such as 8+500 or 8+64000b, dead, dead:COUNT, close or "
                        + "reset")
            }
            self = fate
        }
    }

    private static func counted(_ text: String) -> BinaryFate? {
        if text.hasPrefix("dead:") {
            return Int(text.dropFirst("dead:".count)).flatMap { $0 < 0 ? nil : .dead(after: $0) }
        }
        let parts = text.split(separator: "+", omittingEmptySubsequences: false)
        guard let number = UInt8(parts[0]), parts.count <= 2 else { return nil }
        guard parts.count == 2 else { return .reject(BinaryStatus(number)) }
        let isBytes = parts[1].hasSuffix("b")
        guard let count = Int(isBytes ? parts[1].dropLast() : parts[1]), count >= 0 else {
            return nil
        }
        return .reject(BinaryStatus(number), delay: isBytes ? .bytes(count) : .frames(count))
    }
}

/// The fates of notifications at a binary gateway.
package typealias BinaryScript = GatewayScript<BinaryFate>

/// The rules of a binary gateway, by default Apple's with every token known.
package struct BinaryRules: Sendable {
    /// The fates of valid notifications to known tokens.
    package var script = BinaryScript()
    /// The tokens of this app and environment; all others are rejected with status 8. Nil: all.
    package var known: Set<DeviceToken>?
    /// The silence after which a delayed packet is sent although fewer frames followed than its
    /// delay says.
    package var quiet = Duration.milliseconds(100)
    /// The most bytes of an error packet in one TLS record; nil for all.
    package var packetPiece: Int?
    /// The bytes of an error packet after which the connection is closed; nil for all.
    package var packetBytes: Int?
    /// Whether a connection is reset behind the error packet, with the client's bytes unread. The
    /// packet may be lost, as it was with Apple's gateway.
    package var resetsBehindPacket = false
    /// The frame of a connection, from 1, after which it is shut down with status 10.
    package var shutdownAt: Int?
    /// The frame of a connection, from 1, at which it is closed without a packet.
    package var closeAt: Int?
    /// The frame of a connection, from 1, at which it is reset.
    package var resetAt: Int?
    /// `shutdownAt`, `closeAt` and `resetAt` apply to this many first connections; nil for all.
    package var connections: Int?

    /// The least bytes of a token that Apple took for one.
    private static let shortestToken = 32

    /// Makes Apple's rules.
    package init() {}

    /// The fate of a valid frame: `number` counts those of the gateway, `place` those of the
    /// connection, both from 1.
    func fate(
        of frame: BinaryFrame, number: Int, place: Int, connection: Int
    ) -> BinaryFate {
        if connection <= connections ?? .max {
            if place == resetAt { return .reset }
            if place == closeAt { return .close }
            if place == shutdownAt { return .reject(.shutdown) }
        }
        guard frame.token.bytes.count >= Self.shortestToken else {
            return .reject(.invalidTokenSize)
        }
        if let known, !known.contains(frame.token) { return .reject(.invalidToken) }
        return script.action(for: frame.token, number: number)
    }
}

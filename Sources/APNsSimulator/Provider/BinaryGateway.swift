import APNsProtocol
import Encodings
import FoundationEssentials
import SecureTransport

/// A binary provider gateway (port 2195) on this machine. It requires a client certificate, reads
/// frames of commands 0, 1 and 2, answers nothing but errors, and logs the notifications.
package final class BinaryGateway: LocalGateway {
    package let acceptor: ClientAcceptor

    /// The notifications received.
    package let log: BinaryLog
    /// The dead tokens, to be shared with a feedback gateway.
    package let dead: DeadTokens

    /// Starts serving; port 0 takes a free one. `keepsRecords` keeps every notification in the log,
    /// at some 300 bytes each; without it the log only counts. `now` is the time of a sending to a
    /// dead token. `onEnd` is called on the connection's thread at its end. Throws
    /// `TransportFailure` or `IdentityFailure`.
    package init(
        certificates: SimulatorCertificates, rules: BinaryRules = BinaryRules(),
        dead: DeadTokens = DeadTokens(),
        certificate: FeedbackBehaviour.Certificate = .valid, refusesClients: Bool = false,
        keepsRecords: Bool = true, host: String = "127.0.0.1", port: UInt16 = 0,
        now: @escaping @Sendable () -> EpochSeconds = BinaryGateway.wallClock,
        onEnd: (@Sendable (BinaryConnectionRecord) -> Void)? = nil
    ) throws {
        let context = try certificates.context(certificate.name, refusing: refusesClients)
        let stopping = try Interrupt()
        let log = BinaryLog(keepsRecords: keepsRecords)
        let server = BinaryServer(
            rules: rules, dead: dead, context: context, log: log, now: now, stop: stopping)
        (self.log, self.dead) = (log, dead)
        acceptor = try ClientAcceptor(host: host, port: port, stopping: stopping) {
            client, number in
            let record = server.serve(client, number: number)
            log.add(record)
            onEnd?(record)
        }
    }

    /// The time of the system.
    package static let wallClock: @Sendable () -> EpochSeconds = {
        EpochSeconds(UInt32(clamping: Int64(Date().timeIntervalSince1970)))
    }
}

/// One notification and its treatment by the gateway.
package struct BinaryRecord: Sendable, Equatable {
    /// The end of a notification.
    package enum End: Sendable, Equatable {
        case accepted
        /// It was accepted, and its token, which is dead, went to the feedback list.
        case acceptedDead
        /// It was rejected with this status; command 0 gets no packet with it.
        case rejected(BinaryStatus)
        /// It stood behind the end of its connection and was dropped unread.
        case discarded
    }

    /// The number of its connection, counted from 1.
    package let connection: Int
    /// The notification.
    package let frame: BinaryFrame
    package let end: End

    /// Whether the gateway accepted it.
    package var isAccepted: Bool { end == .accepted || end == .acceptedDead }
}

/// Counts of notifications to a binary gateway.
package struct BinaryTotals: GatewayTotals, Equatable {
    /// Whole frames of any kind.
    package internal(set) var frames = 0
    /// Accepted ones, those to dead tokens included.
    package internal(set) var accepted = 0
    /// Accepted ones to dead tokens.
    package internal(set) var dead = 0
    /// Rejected ones by the number of their status, and frames that could not be read.
    package internal(set) var rejected: [String: Int] = [:]
    /// Those behind the end of their connection.
    package internal(set) var discarded = 0
    /// Frames that could not be read; they are not in `frames`.
    package internal(set) var malformed = 0

    package typealias Connection = BinaryConnectionRecord

    package init() {}

    /// Adds one frame with its answer.
    package mutating func count(_ record: BinaryRecord) {
        frames += 1
        if record.isAccepted { accepted += 1 }
        switch record.end {
        case .accepted: break
        case .acceptedDead: dead += 1
        case .rejected(let status): rejected["\(status.number)", default: 0] += 1
        case .discarded: discarded += 1
        }
    }
}

package typealias BinaryLog = GatewayLog<BinaryTotals>

extension BinaryLog {
    /// The accepted notifications in the order of arrival.
    package var accepted: [BinaryFrame] { records.filter(\.isAccepted).map(\.frame) }

    /// Waits until `count` frames arrived. Success has no answer, so a client cannot know when its
    /// frames were read.
    package func totals(atLeast count: Int) -> BinaryTotals { totals { $0.frames >= count } }
}

/// One ended connection to the binary gateway.
package struct BinaryConnectionRecord: Sendable, Equatable, Encodable {
    /// The end of a connection.
    package enum End: String, Sendable, Encodable, CaseIterable {
        /// The client closed, with close_notify or without.
        case client
        /// The gateway closed behind an error packet.
        case errorPacket = "error-packet"
        /// The gateway closed without a packet.
        case closed
        /// The gateway reset the connection.
        case reset
        /// The gateway was stopped.
        case stopped
        /// The handshake failed; `error` holds the reason.
        case handshakeFailed = "handshake-failed"
        /// The connection broke; `error` holds the reason.
        case broken
    }

    /// The number of the connection, counted from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate; nil before a handshake.
    package internal(set) var subject: String?
    /// The negotiated TLS version.
    package internal(set) var tls: String?
    /// The number of whole frames.
    package internal(set) var frames = 0
    /// The number of accepted ones.
    package internal(set) var accepted = 0
    /// The number of bytes received up to the end.
    package internal(set) var bytes = 0
    /// The bytes of a last frame that the client did not finish.
    package internal(set) var unfinished = 0
    /// The number of the status in the error packet.
    package internal(set) var status: UInt8?
    /// The identifier in the error packet.
    package internal(set) var identifier: UInt32?
    /// The end of the connection.
    package internal(set) var end = End.broken
    /// The message of a failure, or the frame that could not be read.
    package internal(set) var error: String?

    init(connection: Int, peer: String) {
        self.connection = connection
        self.peer = peer
    }
}

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
    /// `close` or `reset`. Throws `Refusal`.
    package init(_ text: String) throws(Refusal) {
        switch text {
        case "ok": self = .accept
        case "dead": self = .dead()
        case "close": self = .close
        case "reset": self = .reset
        default:
            guard let fate = Self.counted(text) else {
                throw Refusal(
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

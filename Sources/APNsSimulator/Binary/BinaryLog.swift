import APNsProtocol
import Foundation
import SecureTransport

/// One notification and its treatment by the gateway.
package struct BinaryRecord: Sendable, Equatable {
    /// The end of a notification.
    package enum End: Sendable, Equatable {
        /// It was accepted.
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
    /// Its end.
    package let end: End

    /// Whether the gateway accepted it.
    package var isAccepted: Bool { end == .accepted || end == .acceptedDead }
}

// Unchecked because the compiler cannot see that every access below holds the condition's lock.
/// The log of the notifications to a binary gateway. With it, a test can find notifications that are
/// missing and notifications that were sent twice.
package final class BinaryLog: @unchecked Sendable {
    /// Counts of notifications.
    package struct Totals: Sendable, Equatable, Encodable {
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
    }

    private let changed = NSCondition()
    private let keepsRecords: Bool
    private var counts = Totals()
    private var kept: [BinaryRecord] = []
    private var number = 0
    private var ended: [BinaryConnectionRecord] = []

    init(keepsRecords: Bool) {
        self.keepsRecords = keepsRecords
    }

    /// The number of the next valid notification at the gateway, from 1.
    func nextNumber() -> Int {
        changed.withLock {
            number += 1
            return number
        }
    }

    /// Adds notifications of one connection, and its frame that could not be read.
    func add(_ records: [BinaryRecord], _ refusal: BinaryRefusal?) {
        changed.withLock {
            for record in records {
                counts.frames += 1
                switch record.end {
                case .accepted: counts.accepted += 1
                case .acceptedDead:
                    counts.accepted += 1
                    counts.dead += 1
                case .rejected(let status): counts.rejected["\(status.number)", default: 0] += 1
                case .discarded: counts.discarded += 1
                }
            }
            if let refusal {
                counts.malformed += 1
                counts.rejected["\(refusal.fault.status.number)", default: 0] += 1
            }
            if keepsRecords { kept += records }
            changed.broadcast()
        }
    }

    /// Adds a connection that has ended.
    func add(_ record: BinaryConnectionRecord) {
        changed.withLock {
            if keepsRecords { ended.append(record) }
            changed.broadcast()
        }
    }

    /// The counts so far.
    package var totals: Totals { changed.withLock { counts } }

    /// Every notification, in the order of arrival on each connection; empty for a log that only
    /// counts.
    package var records: [BinaryRecord] { changed.withLock { kept } }

    /// The ended connections, in the order of their ends; empty for a log that only counts.
    package var connections: [BinaryConnectionRecord] { changed.withLock { ended } }

    /// The accepted notifications in the order of arrival.
    package var accepted: [BinaryFrame] { records.filter(\.isAccepted).map(\.frame) }

    /// The number of accepted notifications by token.
    package var acceptedByToken: [DeviceToken: Int] {
        accepted.reduce(into: [:]) { $0[$1.token, default: 0] += 1 }
    }

    /// Waits until `count` frames arrived or `timeout` has passed; returns the counts so far.
    /// Success has no answer, so a client cannot know when its frames were read.
    package func totals(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> Totals {
        wait(timeout) { counts.frames >= count }
        return totals
    }

    /// Waits until `count` connections have ended or `timeout` has passed; returns those so far.
    package func connections(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> [BinaryConnectionRecord] {
        wait(timeout) { ended.count >= count }
        return connections
    }

    private func wait(_ timeout: Duration, until isReached: () -> Bool) {
        let deadline = Deadline.in(timeout)
        changed.withLock {
            while !isReached(), !deadline.hasPassed {
                // Short waits, because NSCondition uses the wall clock, which may jump.
                _ = changed.wait(until: Date(timeIntervalSinceNow: 0.2))
            }
        }
    }
}

/// One ended connection to the binary gateway.
package struct BinaryConnectionRecord: Sendable, Equatable, Encodable {
    /// The end of a connection.
    package enum End: String, Sendable, Encodable {
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

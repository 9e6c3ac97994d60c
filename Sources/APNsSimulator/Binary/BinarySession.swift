// One connection of the binary interface, seen from the gateway. A value without I/O.
//
// States: reading, where each frame gets its fate; and judged, where the end of the connection is
// settled. A judged connection discards every later frame. It ends when its delay is over; the server
// also ends it when the client closes or stays silent.

import APNsProtocol

/// The state of one connection.
struct BinarySession {
    /// How the connection ends.
    enum Verdict: Equatable {
        /// With this packet; nil where command 0 has none.
        case packet(BinaryErrorPacket?)
        /// Without a packet.
        case close
        /// With a TCP reset.
        case reset
    }

    let rules: BinaryRules
    let dead: DeadTokens
    let connection: Int

    /// The settled end; nil while the connection is read.
    private(set) var verdict: Verdict?
    /// The number of frames, discarded ones included.
    private(set) var frames = 0
    /// The number of accepted ones.
    private(set) var accepted = 0
    /// The frame that could not be read.
    private(set) var refusal: BinaryRefusal?

    private var delay = BinaryDelay.none
    /// The number of bytes received.
    private var seen = 0
    /// The offset behind the last whole frame.
    private var end = 0
    private var framesAtVerdict = 0
    private var endAtVerdict = 0

    init(rules: BinaryRules, dead: DeadTokens, connection: Int) {
        (self.rules, self.dead, self.connection) = (rules, dead, connection)
    }

    /// Whether the settled end is due.
    var isDue: Bool {
        guard verdict != nil else { return false }
        return switch delay {
        case .none: true
        case .frames(let count): frames - framesAtVerdict >= count
        case .bytes(let count): seen - endAtVerdict >= count
        }
    }

    /// Takes a frame and returns what becomes of it. `number` gives its number among the gateway's.
    mutating func take(
        _ frame: BinaryFrame, at time: EpochSeconds, number: () -> Int
    ) -> BinaryRecord {
        frames += 1
        end += frame.encodedLength
        guard verdict == nil else { return record(frame, .discarded) }
        let fate = rules.fate(
            of: frame, number: number(), place: frames, connection: connection)
        switch fate {
        case .accept: return accept(frame, at: time, lives: nil)
        case .dead(let lives): return accept(frame, at: time, lives: lives)
        case .reject(let status, let delay):
            settle(
                .packet(
                    frame.command == .simple
                        ? nil : BinaryErrorPacket(status, identifier: frame.identifier ?? 0)),
                delay)
            return status.acceptsNamed
                ? accept(frame, at: time, lives: nil) : record(frame, .rejected(status))
        case .close: settle(.close)
        case .reset: settle(.reset)
        }
        return record(frame, .discarded)
    }

    /// Takes the frame that could not be read, once; later bytes are discarded.
    mutating func take(_ refusal: BinaryRefusal) {
        guard verdict == nil else { return }
        self.refusal = refusal
        settle(.packet(refusal.answer))
    }

    /// Notes the number of bytes received so far, those of no whole frame included.
    mutating func count(seen: Int) { self.seen = seen }

    private mutating func accept(
        _ frame: BinaryFrame, at time: EpochSeconds, lives: Int?
    ) -> BinaryRecord {
        accepted += 1
        return record(
            frame,
            dead.send(to: frame.token, at: time, lives: lives) ? .acceptedDead : .accepted)
    }

    private mutating func settle(_ verdict: Verdict, _ delay: BinaryDelay = .none) {
        (self.verdict, self.delay) = (verdict, delay)
        (framesAtVerdict, endAtVerdict) = (frames, end)
    }

    private func record(_ frame: BinaryFrame, _ end: BinaryRecord.End) -> BinaryRecord {
        BinaryRecord(connection: connection, frame: frame, end: end)
    }
}

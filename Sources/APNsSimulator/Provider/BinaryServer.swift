import APNsProtocol
import SecureTransport

/// Serves the clients of a binary gateway, with the values that all connections share.
struct BinaryServer: Sendable {
    let rules: BinaryRules
    let dead: DeadTokens
    let context: TLSServerContext
    let log: BinaryLog
    let now: @Sendable () -> EpochSeconds
    let stop: Interrupt

    /// The time limit for an error packet.
    private static let writeTimeout = Duration.seconds(10)
    /// The time to wait for the client's end of the connection after ours.
    private static let lingerTimeout = Duration.seconds(5)
    /// The bytes of one read.
    private static let portion = 64 * 1024

    /// Serves one client to the end of its connection.
    func serve(_ client: AcceptedConnection, number: Int) -> BinaryConnectionRecord {
        var record = BinaryConnectionRecord(connection: number, peer: client.peer)
        let connection: TLSConnection
        do throws(TransportFailure) {
            connection = try client.handshake(context: context, interrupt: stop)
        } catch {
            record.end = .handshakeFailed
            record.error = error.description
            return record
        }
        record.subject = connection.peerSubject
        record.tls = connection.tlsVersion
        var session = BinarySession(rules: rules, dead: dead, connection: number)
        do throws(TransportFailure) {
            record.end = try read(connection, &session, &record)
            if let ending = session.ending, record.end == .client {
                record.end = try finish(connection, by: ending, &record)
            }
        } catch {
            record.end = .broken
            record.error = error.description
        }
        record.frames = session.frames
        record.accepted = session.accepted
        record.error = record.error ?? session.refusal?.description
        connection.close()
        return record
    }

    /// Reads until a settled end is due, the client closes or stays silent behind a settled end
    /// (`client`), or the gateway stops.
    private func read(
        _ connection: TLSConnection, _ session: inout BinarySession,
        _ record: inout BinaryConnectionRecord
    ) throws(TransportFailure) -> BinaryConnectionRecord.End {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.portion, alignment: 8)
        defer { buffer.deallocate() }
        var decoder = BinaryFrameDecoder()
        while !session.isDue {
            guard !stop.isTripped else { return .stopped }
            let outcome = try connection.read(
                into: buffer, deadline: session.ending == nil ? .never : .in(rules.quiet))
            switch outcome {
            case .bytes(let count):
                take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), &decoder, &session)
            case .interrupted: return .stopped
            case .timedOut, .end:
                return .client
            }
            record.bytes = decoder.bytesSeen
            record.unfinished = decoder.unfinished
        }
        return .client
    }

    private func take(
        _ bytes: UnsafeRawBufferPointer, _ decoder: inout BinaryFrameDecoder,
        _ session: inout BinarySession
    ) {
        let wasRefused = decoder.refusal != nil
        var frames: [BinaryFrame] = []
        decoder.decode(bytes, into: &frames)
        let time = now()
        let records = frames.map { session.take($0, at: time, number: log.nextNumber) }
        if !wasRefused, let refusal = decoder.refusal { session.take(refusal) }
        session.count(seen: decoder.bytesSeen)
        log.add(records) { totals in
            guard !wasRefused, let refusal = session.refusal else { return }
            totals.malformed += 1
            totals.rejected["\(refusal.fault.status.number)", default: 0] += 1
        }
    }

    /// Ends the connection as it was settled.
    private func finish(
        _ connection: TLSConnection, by ending: BinarySession.Ending,
        _ record: inout BinaryConnectionRecord
    ) throws(TransportFailure) -> BinaryConnectionRecord.End {
        switch ending {
        case .reset:
            connection.reset()
            return .reset
        case .packet(nil):
            closeWaiting(connection)
            return .closed
        case .packet(let packet?):
            record.status = packet.status.number
            record.identifier = packet.identifier
            try send(packet, on: connection)
            if rules.resetsBehindPacket {
                connection.reset()
            } else {
                closeWaiting(connection)
            }
            return .errorPacket
        }
    }

    private func send(
        _ packet: BinaryErrorPacket, on connection: TLSConnection
    ) throws(TransportFailure) {
        var bytes: [UInt8] = []
        packet.encode(into: &bytes)
        bytes.removeLast(max(0, bytes.count - (rules.packetBytes ?? bytes.count)))
        let size = max(1, rules.packetPiece ?? bytes.count)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: BinaryErrorPacket.length, alignment: 1)
        defer { buffer.deallocate() }
        buffer.copyBytes(from: bytes)
        for start in stride(from: 0, to: bytes.count, by: size) {
            try connection.write(
                UnsafeRawBufferPointer(rebasing: buffer[start..<min(start + size, bytes.count)]),
                deadline: .in(Self.writeTimeout))
        }
    }

    /// Ends our side and drops what the client still sends, so that no reset overtakes the packet.
    private func closeWaiting(_ connection: TLSConnection) {
        connection.closeNotify()
        connection.discardUntilEnd(deadline: .in(Self.lingerTimeout))
    }
}

// One connection of the binary interface, seen from the gateway. A value without I/O.
//
// States: reading, where each frame gets its fate; and judged, where the end of the connection is
// settled. A judged connection discards every later frame. It ends when its delay is over; the server
// also ends it when the client closes or stays silent.

/// The state of one connection.
struct BinarySession {
    /// How the connection ends.
    enum Ending: Equatable {
        /// With this packet, or without one.
        case packet(BinaryErrorPacket?)
        /// With a TCP reset.
        case reset
    }

    let rules: BinaryRules
    let dead: DeadTokens
    let connection: Int

    /// The settled end; nil while the connection is read.
    private(set) var ending: Ending?
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
    private var framesAtEnding = 0
    private var endAtEnding = 0

    init(rules: BinaryRules, dead: DeadTokens, connection: Int) {
        (self.rules, self.dead, self.connection) = (rules, dead, connection)
    }

    /// Whether the settled end is due.
    var isDue: Bool {
        guard ending != nil else { return false }
        return switch delay {
        case .none: true
        case .frames(let count): frames - framesAtEnding >= count
        case .bytes(let count): seen - endAtEnding >= count
        }
    }

    /// Takes a frame and returns what becomes of it. `number` gives its number among the gateway's.
    mutating func take(
        _ frame: BinaryFrame, at time: EpochSeconds, number: () -> Int
    ) -> BinaryRecord {
        frames += 1
        end += frame.encodedLength
        guard ending == nil else { return record(frame, .discarded) }
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
        case .close: settle(.packet(nil))
        case .reset: settle(.reset)
        }
        return record(frame, .discarded)
    }

    /// Takes the frame that could not be read, once; later bytes are discarded.
    mutating func take(_ refusal: BinaryRefusal) {
        guard ending == nil else { return }
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

    private mutating func settle(_ ending: Ending, _ delay: BinaryDelay = .none) {
        (self.ending, self.delay) = (ending, delay)
        (framesAtEnding, endAtEnding) = (frames, end)
    }

    private func record(_ frame: BinaryFrame, _ end: BinaryRecord.End) -> BinaryRecord {
        BinaryRecord(connection: connection, frame: frame, end: end)
    }
}

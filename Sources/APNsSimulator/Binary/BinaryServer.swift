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

    /// The time limit for a handshake, so that no client blocks a thread for ever.
    private static let handshakeTimeout = Duration.seconds(30)
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
            connection = try client.handshake(
                context: context, timeout: Self.handshakeTimeout, interrupt: stop)
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
            if let verdict = session.verdict, record.end == .client {
                record.end = try finish(connection, by: verdict, &record)
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
                into: buffer, deadline: session.verdict == nil ? .never : .in(rules.quiet))
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
        log.add(records, wasRefused ? nil : session.refusal)
    }

    /// Ends the connection as it was settled.
    private func finish(
        _ connection: TLSConnection, by verdict: BinarySession.Verdict,
        _ record: inout BinaryConnectionRecord
    ) throws(TransportFailure) -> BinaryConnectionRecord.End {
        switch verdict {
        case .reset:
            connection.reset()
            return .reset
        case .close, .packet(nil):
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

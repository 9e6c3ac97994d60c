import SecureTransport

/// Serves one client of the feedback listener, well or badly, and records what it did.
struct FeedbackService {
    let behaviour: FeedbackBehaviour
    let context: TLSServerContext
    let shelf: FeedbackShelf
    let stop: Interrupt

    /// A client that does not finish its handshake must not hold a thread for ever.
    private static let handshakeTimeout = Duration.seconds(30)
    /// How long a client may take nothing before the gateway gives up on it.
    private static let writeTimeout = Duration.seconds(300)
    /// How long to wait for the client's own end after ours.
    private static let lingerTimeout = Duration.seconds(5)

    /// Runs to the end of the connection. `ended` is called once, as soon as the gateway has done
    /// its part.
    func serve(
        _ client: AcceptedConnection, number: Int, ended: (FeedbackRecord) -> Void
    ) {
        var record = FeedbackRecord(connection: number, peer: client.peer)
        switch behaviour.opening {
        case .silentBeforeHandshake:
            _ = client.staySilent(deadline: .never, interrupt: stop)
            record.end = .heldOpen
            ended(record)
            client.close()
        case .plaintext:
            let list = takeList(&record)
            record.bytes = client.sendPlaintext(plaintext(list))
            record.end = .plaintext
            ended(record)
            _ = client.staySilent(deadline: .in(Self.lingerTimeout), interrupt: stop)
            client.close()
        case .normal, .silentAfterHandshake:
            serveTLS(client, &record, ended)
        }
    }

    private func serveTLS(
        _ client: AcceptedConnection, _ record: inout FeedbackRecord,
        _ ended: (FeedbackRecord) -> Void
    ) {
        let connection: TLSConnection
        do throws(TransportFailure) {
            connection = try client.handshake(
                context: context, timeout: Self.handshakeTimeout, interrupt: stop)
        } catch {
            record.end = .handshakeFailed
            record.error = error.description
            ended(record)
            return
        }
        record.subject = connection.peerSubject
        record.tls = connection.tlsVersion
        var ending = Ending.held
        if behaviour.opening == .normal {
            let list = takeList(&record)
            do {
                ending = try stream(list, to: connection)
            } catch {
                record.error = "\(error)"
                ending = .failed
            }
        }
        record.bytes = connection.bytesWritten
        finish(connection, ending, &record, ended)
    }

    private func takeList(_ record: inout FeedbackRecord) -> FeedSource {
        guard let (number, feed) = shelf.take() else {
            return .bytes([])
        }
        record.list = number
        return feed
    }

    /// What a gateway without TLS would say: its list, or that it expected something else.
    private func plaintext(_ list: FeedSource) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: FeedCursor.portion)
        let count = bytes.withUnsafeMutableBytes { buffer in
            (try? FeedCursor(list).next(into: buffer)) ?? 0
        }
        return count > 0 ? Array(bytes[..<count]) : Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
    }

    enum Ending {
        case notified
        case abrupt
        case reset
        case held
        case failed
    }

    private var ordinaryEnding: Ending {
        switch behaviour.ending {
        case .closeNotify: .notified
        case .noCloseNotify: .abrupt
        case .reset: .reset
        case .holdOpen: .held
        }
    }

    private func finish(
        _ connection: TLSConnection, _ ending: Ending, _ record: inout FeedbackRecord,
        _ ended: (FeedbackRecord) -> Void
    ) {
        switch ending {
        case .notified:
            connection.closeNotify()
            record.end = .closeNotify
            ended(record)
            connection.discardUntilEnd(deadline: .in(Self.lingerTimeout))
            connection.close()
        case .abrupt:
            connection.closeAbruptly()
            record.end = .noCloseNotify
            ended(record)
        case .reset:
            connection.reset()
            record.end = .reset
            ended(record)
        case .held:
            connection.discardUntilEnd(deadline: .never)
            connection.close()
            record.end = .heldOpen
            ended(record)
        case .failed:
            connection.closeAbruptly()
            ended(record)
        }
    }

    /// Sends the list as asked and says how to end. Throws `TransportFailure` when the client
    /// went away or the gateway stops, `SimulatorFailure` when the list cannot be read.
    private func stream(_ list: FeedSource, to connection: TLSConnection) throws -> Ending {
        var writer = FeedWriter(
            connection: connection, behaviour: behaviour, stop: stop,
            writeTimeout: Self.writeTimeout)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: FeedCursor.portion, alignment: 8)
        defer { buffer.deallocate() }
        let cursor = try FeedCursor(behaviour.replacement.map { .bytes($0) } ?? list)
        var isEmpty = true
        while true {
            let count = try cursor.next(into: buffer)
            if count == 0 {
                guard behaviour.isEndless, !isEmpty else {
                    break
                }
                cursor.rewind()
                continue
            }
            isEmpty = false
            if let cut = try writer.send(UnsafeRawBufferPointer(rebasing: buffer[..<count])) {
                return cut == .reset ? .reset : ordinaryEnding
            }
        }
        let cut = try behaviour.appendix.withUnsafeBytes { try writer.send($0) }
        return cut == .reset ? .reset : ordinaryEnding
    }
}

/// Sends bytes in the pieces, at the pace and up to the point that a behaviour asks for.
struct FeedWriter {
    /// Where a behaviour ends the list early.
    enum Cut {
        case close
        case reset
    }

    let connection: TLSConnection
    let behaviour: FeedbackBehaviour
    let stop: Interrupt
    let writeTimeout: Duration
    private var sent = 0
    private var hasPaused = false

    init(
        connection: TLSConnection, behaviour: FeedbackBehaviour, stop: Interrupt,
        writeTimeout: Duration
    ) {
        self.connection = connection
        self.behaviour = behaviour
        self.stop = stop
        self.writeTimeout = writeTimeout
    }

    /// Sends all, or up to the cut, which it then names. Throws when the client is gone or the
    /// gateway stops.
    mutating func send(_ bytes: UnsafeRawBufferPointer) throws(TransportFailure) -> Cut? {
        var rest = bytes
        while true {
            if let cut {
                return cut
            }
            try pauseIfDue()
            if rest.isEmpty {
                return nil
            }
            if sent > 0, behaviour.delay > .zero {
                try wait(behaviour.delay)
            }
            let size = min(
                rest.count, behaviour.writeSize.map { max($0, 1) } ?? .max, untilNextEvent)
            try connection.write(
                UnsafeRawBufferPointer(rebasing: rest[..<size]), deadline: .in(writeTimeout))
            sent += size
            rest = UnsafeRawBufferPointer(rebasing: rest[size...])
        }
    }

    private var cut: Cut? {
        if let point = behaviour.resetAfter, sent >= point {
            return .reset
        }
        if let point = behaviour.closeAfter, sent >= point {
            return .close
        }
        return nil
    }

    /// Bytes that may be sent before something is due.
    private var untilNextEvent: Int {
        let points = [behaviour.resetAfter, behaviour.closeAfter, behaviour.pause?.afterByte]
        return points.compactMap { $0 }.filter { $0 > sent }.map { $0 - sent }.min() ?? .max
    }

    private mutating func pauseIfDue() throws(TransportFailure) {
        if let pause = behaviour.pause, !hasPaused, sent >= pause.afterByte {
            hasPaused = true
            try wait(pause.duration)
        }
    }

    private func wait(_ duration: Duration) throws(TransportFailure) {
        if stop.wait(until: .in(duration)) {
            throw .interrupted(while: "waiting between writes to \(connection.peer)")
        }
    }
}

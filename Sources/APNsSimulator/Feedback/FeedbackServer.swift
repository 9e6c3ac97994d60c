import Encodings
import SecureTransport

/// Serves one client of the feedback gateway by its behaviour, and records the connection.
struct FeedbackServer {
    let behaviour: FeedbackBehaviour
    let context: TLSServerContext
    let queue: ListQueue
    let stop: Interrupt

    /// The time after which a client that reads nothing is given up.
    private static let writeTimeout = Duration.seconds(300)
    /// The time to wait for the client's end of the connection after ours.
    private static let lingerTimeout = Duration.seconds(5)

    /// Serves to the end of the connection. `ended` is called once, as soon as the gateway has
    /// finished its side.
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
            let list = nextList(&record)
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
            connection = try client.handshake(context: context, interrupt: stop)
        } catch {
            record.end = .handshakeFailed
            record.error = error.description
            ended(record)
            return
        }
        record.subject = connection.peerSubject
        record.tls = connection.tlsVersion
        guard behaviour.opening == .normal else {
            return finish(connection, by: .holdOpen, record, ended)
        }
        let list = nextList(&record)
        do {
            let ending = try send(list, to: connection)
            record.bytes = connection.bytesWritten
            finish(connection, by: ending, record, ended)
        } catch {
            record.bytes = connection.bytesWritten
            record.error = "\(error)"
            connection.closeAbruptly()
            ended(record)
        }
    }

    private func nextList(_ record: inout FeedbackRecord) -> ListSource {
        guard let (number, feed) = queue.next() else {
            return .bytes([])
        }
        record.list = number
        return feed
    }

    /// The bytes of a gateway without TLS: its list, or an HTTP refusal where the list is empty.
    private func plaintext(_ list: ListSource) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: ListCursor.portion)
        let count = bytes.withUnsafeMutableBytes { buffer in
            var cursor = try? ListCursor(list)
            return cursor?.next(into: buffer) ?? 0
        }
        return count > 0 ? Array(bytes[..<count]) : Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)
    }

    private func finish(
        _ connection: TLSConnection, by ending: FeedbackBehaviour.Ending, _ record: FeedbackRecord,
        _ ended: (FeedbackRecord) -> Void
    ) {
        var record = record
        record.end =
            ending == .holdOpen
            ? .heldOpen
            : .init(rawValue: ending.rawValue)
                ?? .unfinished
        switch ending {
        case .closeNotify: connection.closeNotify()
        case .noCloseNotify: connection.closeAbruptly()
        case .reset: connection.reset()
        case .holdOpen: connection.discardUntilEnd(deadline: .never)
        }
        ended(record)
        guard ending == .closeNotify || ending == .holdOpen else { return }
        connection.discardUntilEnd(deadline: .in(Self.lingerTimeout))
        connection.close()
    }

    /// Sends the list by the behaviour and returns how to end the connection. Throws
    /// `TransportFailure` when the client closes or the gateway stops, `Refusal` when the
    /// list cannot be read.
    private func send(
        _ list: ListSource, to connection: TLSConnection
    ) throws -> FeedbackBehaviour.Ending {
        var writer = ListWriter(
            connection: connection, behaviour: behaviour, stop: stop,
            writeTimeout: Self.writeTimeout)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: ListCursor.portion, alignment: 8)
        defer { buffer.deallocate() }
        var cursor = try ListCursor(behaviour.replacement.map { .bytes($0) } ?? list)
        var isEmpty = true
        while true {
            let count = cursor.next(into: buffer)
            if count == 0 {
                guard behaviour.isEndless, !isEmpty else {
                    break
                }
                cursor.position = 0
                continue
            }
            isEmpty = false
            if let ending = try writer.send(UnsafeRawBufferPointer(rebasing: buffer[..<count])) {
                return ending
            }
        }
        return try behaviour.appendix.withUnsafeBytes { try writer.send($0) } ?? behaviour.ending
    }
}

/// Sends bytes in the pieces, at the pace and up to the position that a behaviour defines.
struct ListWriter {
    let connection: TLSConnection
    let behaviour: FeedbackBehaviour
    let stop: Interrupt
    let writeTimeout: Duration
    var sent = 0
    var hasPaused = false

    /// Sends all bytes and returns nil, or stops where the list ends early and returns how to end
    /// the connection. Throws when the client has closed or the gateway stops.
    mutating func send(
        _ bytes: UnsafeRawBufferPointer
    ) throws(TransportFailure) -> FeedbackBehaviour.Ending? {
        var rest = bytes
        while true {
            if let earlyEnding {
                return earlyEnding
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

    private var earlyEnding: FeedbackBehaviour.Ending? {
        if let limit = behaviour.resetAfter, sent >= limit {
            return .reset
        }
        if let limit = behaviour.closeAfter, sent >= limit {
            return behaviour.ending
        }
        return nil
    }

    /// The number of bytes up to the next pause or early end.
    private var untilNextEvent: Int {
        let positions = [behaviour.resetAfter, behaviour.closeAfter, behaviour.pause?.afterByte]
        return positions.compactMap { $0 }.filter { $0 > sent }.map { $0 - sent }.min() ?? .max
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

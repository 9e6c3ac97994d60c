import SecureTransport

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

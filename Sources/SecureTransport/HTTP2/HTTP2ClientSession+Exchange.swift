import CNGHTTP2

extension HTTP2ClientSession {
    /// How an exchange ended.
    package enum Exchange: Sendable, Equatable {
        /// There are outcomes, and the session goes on.
        case outcomes
        /// The deadline came first; there are no outcomes.
        case timedOut
        /// The interrupt was tripped while waiting; there are no outcomes. The session is as good
        /// as before: exchange without the interrupt to bring home what is in flight.
        case interrupted
        /// The session is over, see `closed`; every request left has its outcome in `outcomes`.
        case closed
    }

    /// Portions of input after which outcomes are handed out though more is there.
    private static let portionsPerExchange = 16

    /// Sends what was submitted, receives what came, and waits for outcomes until the deadline.
    ///
    /// Only `interrupt` cuts the wait short, not that of the connection: what is in flight can
    /// then still be waited for. With `Deadline.now` it does what can be done without waiting.
    package func exchange(until deadline: Deadline, interrupt: Interrupt? = nil) -> Exchange {
        state.pointee.outcomes.removeAll()
        var portions = 0
        while closed == nil {
            expireRequests()
            keepAlive()
            guard closed == nil, let direction = send() else {
                break
            }
            let isFull = portions >= Self.portionsPerExchange
            if !state.pointee.outcomes.isEmpty, !wire.mayHoldMore || isFull {
                return .outcomes
            }
            if !wire.mayHoldMore {
                switch wire.wait(until: due(deadline), for: direction, interrupt: interrupt) {
                case .ready:
                    break
                case .timedOut where deadline.hasPassed:
                    return .timedOut
                case .timedOut:
                    continue
                case .interrupted:
                    return .interrupted
                case .failed(let error):
                    let failure = TransportFailure.system("waiting for \(peer)", error)
                    end(HTTP2Close(.transport, failure.description, failure: failure))
                    continue
                }
            }
            receive()
            portions += 1
        }
        return .closed
    }

    /// Says GOAWAY and close_notify and closes. Requests still in flight get their outcomes, after
    /// which the session is `closed`; wait for them by `exchange` first to end in good order.
    package func close(deadline: Deadline = .in(.seconds(5))) {
        guard closed == nil else {
            return
        }
        state.pointee.outcomes.removeAll()
        nghttp2_session_terminate_session(wire.session, NGHTTP2_NO_ERROR.rawValue)
        wire.finish(deadline: deadline)
        end(HTTP2Close(.byUs, "HTTP/2 with \(peer): closed on this side"))
    }

    /// Sends without waiting; nil when that ended the session, else what to wait for.
    private func send() -> Poll.Direction? {
        switch wire.flush() {
        case .failed(let close):
            end(drain(after: close))
            return nil
        case .done:
            if nghttp2_session_want_read(wire.session) == 0 {
                end(libraryEnd())
                return nil
            }
            return .reading
        case .wait(let direction):
            if nghttp2_session_want_read(wire.session) == 0 {
                end(libraryEnd())
                return nil
            }
            return direction == .writing ? .either : direction
        }
    }

    private func receive() {
        switch wire.receive() {
        case .bytes(let count):
            isPinging = false
            aliveUntil = .in(settings.keepAliveInterval)
            state.pointee.idleBytes += count
            if state.pointee.idleBytes > settings.maximumIdleBytes {
                nghttp2_session_terminate_session(
                    wire.session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
            }
        case .nothing:
            break
        case .refused(let error):
            nghttp2_session_terminate_session(wire.session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
            _ = wire.flush()
            end(.library(error, peer: peer, detail: state.pointee.libraryMessage))
        case .ended(let close):
            end(close)
        }
    }

    /// Takes what came before a write failed with `close`, and says why the session is over: by
    /// the peer's own last word (close_notify, or an alert as for a refused certificate) if there
    /// is one. GOAWAY and answers count as ever.
    private func drain(after close: HTTP2Close) -> HTTP2Close {
        for _ in 0..<Self.portionsPerExchange {
            switch wire.receive() {
            case .bytes: continue
            case .nothing, .refused: return close
            // After a failed write the socket has forgotten its reset and shows a mere end.
            case .ended(let last) where last.code == .byPeer(.cut): return close
            case .ended(let last): return last
            }
        }
        return close
    }

    /// nghttp2 has nothing more to read: after a GOAWAY, or because the peer broke the protocol.
    private func libraryEnd() -> HTTP2Close {
        if state.pointee.idleFrames > settings.maximumIdleFrames
            || state.pointee.idleBytes > settings.maximumIdleBytes
        {
            return HTTP2Close(
                .peerBrokeProtocol,
                "HTTP/2 with \(peer): the peer floods us with \(state.pointee.idleFrames) frames "
                    + "and \(state.pointee.idleBytes) bytes that answer nothing; ask its owner")
        }
        if let goAway = state.pointee.goAway, inFlight == 0 {
            return HTTP2Close(
                .goAway,
                "HTTP/2 with \(peer): the peer said GOAWAY (\(goAway.code)); connect again")
        }
        return HTTP2Close(
            .peerBrokeProtocol,
            "HTTP/2 with \(peer): the peer broke the protocol: "
                + "\(state.pointee.libraryMessage); ask its owner")
    }

    private func end(_ close: HTTP2Close) {
        closed = close
        state.pointee.settleAll(bytesTaken: wire.bytesTaken)
        if close.code != .byUs {
            wire.connection.closeNotify(deadline: .now)
        }
        // close_notify is out, and a second one would wait for the peer's.
        wire.connection.closeAbruptly()
    }

    /// Gives up requests whose time is over; their streams are reset.
    private func expireRequests() {
        while let index = state.pointee.streams.first,
            state.pointee.streams.nextDeadline.hasPassed
        {
            let streamID = state.pointee.streams[index].streamID
            state.pointee.settle(index, .outcomeUnknown(.deadline))
            nghttp2_submit_rst_stream(wire.session, 0, streamID, NGHTTP2_CANCEL.rawValue)
        }
    }

    private func keepAlive() {
        guard aliveUntil.hasPassed else {
            return
        }
        if isPinging {
            end(
                HTTP2Close(
                    .unresponsive,
                    "HTTP/2 with \(peer): no answer to PING in time; connect again"))
            return
        }
        isPinging = true
        aliveUntil = .in(settings.pingTimeout)
        nghttp2_submit_ping(wire.session, 0, nil)
    }

    private func due(_ deadline: Deadline) -> Deadline {
        .earlier(
            of: deadline, .earlier(of: aliveUntil, state.pointee.streams.nextDeadline))
    }
}

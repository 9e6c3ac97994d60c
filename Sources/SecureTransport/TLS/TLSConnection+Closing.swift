import COpenSSL

extension TLSConnection {
    /// Tells the peer that nothing more will come: close_notify, then FIN. Reading goes on.
    ///
    /// After a large write the socket may be full, so this waits for room until the deadline; a
    /// close_notify that finds none is lost, which the peer sees as a cut. Fails silently: there is
    /// nobody left to tell.
    package func closeNotify(deadline: Deadline = .in(.seconds(5))) {
        guard socket.descriptor >= 0, !isBroken else {
            return
        }
        // 0 means sent and not yet answered, which is all that is wanted (SSL_shutdown(3)).
        while case .wait(let direction) = attempt({ SSL_shutdown($0) < 0 ? -1 : 1 }) {
            guard
                case .ready = Poll.wait(
                    socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
            else {
                break
            }
        }
        OpenSSLFault.discard()
        socket.endSending()
    }

    /// Sends close_notify and closes.
    package func close() {
        closeNotify()
        socket.close()
    }

    /// Sends FIN without close_notify and closes, as a process that dies does; the peer cannot
    /// tell whether bytes are missing.
    package func closeAbruptly() {
        socket.closeWithEnd()
    }

    /// Resets the connection: the peer may lose even bytes that it has not read yet.
    package func reset() {
        socket.closeWithReset()
    }

    /// Reads and drops what the peer still sends; true when it ended, false when the deadline or
    /// the interrupt came first.
    ///
    /// A server that closes with unread bytes in its socket sends a reset, which can overtake the
    /// end of its own list; waiting for the peer's end avoids that.
    @discardableResult
    package func discardUntilEnd(deadline: Deadline) -> Bool {
        var scratch = [UInt8](repeating: 0, count: 16 * 1024)
        return scratch.withUnsafeMutableBytes { buffer in
            while true {
                switch try? read(into: buffer, deadline: deadline) {
                case .bytes where !deadline.hasPassed: continue
                case .bytes, .timedOut, .interrupted: return false
                case .end, nil: return true
                }
            }
        }
    }
}

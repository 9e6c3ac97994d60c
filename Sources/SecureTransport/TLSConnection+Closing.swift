import COpenSSL

extension TLSConnection {
    /// Tells the peer that nothing more will come, and goes on reading if wanted. Does not wait: a
    /// close_notify that finds no room in the socket is lost, which the peer sees as a cut.
    package func closeNotify() {
        if socket.descriptor >= 0, !isBroken {
            _ = SSL_shutdown(ssl)
            OpenSSLFault.discard()
        }
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

    /// Reads and drops what the peer still sends, until it closes or the deadline comes.
    ///
    /// A server that closes with unread bytes in its socket sends a reset, which can overtake the
    /// end of its own list; waiting for the peer's end avoids that.
    package func discardUntilEnd(deadline: Deadline) {
        var scratch = [UInt8](repeating: 0, count: 16 * 1024)
        scratch.withUnsafeMutableBytes { buffer in
            while !deadline.hasPassed,
                case .bytes? = try? read(into: buffer, deadline: deadline)
            {
                continue
            }
        }
    }
}

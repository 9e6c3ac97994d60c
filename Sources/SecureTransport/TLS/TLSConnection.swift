import COpenSSL
import Glibc

// One TLS connection, used like a blocking socket but with a deadline on each call.
//
// The socket never blocks. OpenSSL says what it waits for (WANT_READ or WANT_WRITE, either of them
// from either direction: a write may first have to read a key update), poll waits for that, the
// deadline and the interrupt, and the same call is made again.
//
// A connection ends in one of four ways, which mean different things to a feed that has no
// terminator of its own:
//   close_notify   the peer says that this was all (RFC 8446 section 6.1)
//   cut            the stream ends without it: bytes may be missing, by fault or by attack
//   reset          the peer or the network gave up: bytes may be missing
//   failure        an alert or broken records: what came before is good, the end is not
// Bytes that arrived before the end are handed out first, whatever the end is.
//
// Everything is confined to one thread at a time. Not Sendable on purpose.

/// A TLS connection, confined to its thread. Closes itself, without close_notify, when dropped.
package final class TLSConnection {
    enum Role {
        case client
        case server
    }

    let ssl: OpaquePointer
    let socket: Socket
    /// The peer as messages name it: `host:port (address)`.
    package let peer: String
    /// What OpenSSL notes during the handshake.
    let notes: HandshakeNotes
    /// What failures say.
    let failures: TLSFailures
    /// Cuts short every wait.
    let interrupt: Interrupt?
    /// Set once the receiving side is over; each later read says the same.
    var ended: Result<ConnectionEnd, TransportFailure>?
    /// A fatal error of either direction: no close_notify may follow it (SSL_shutdown(3)).
    var isBroken = false
    /// Bytes handed to TLS so far, also by a write that failed halfway.
    package internal(set) var bytesWritten = 0

    init(
        _ socket: Socket, context: OpaquePointer, role: Role, peer: String,
        identityName: String?, interrupt: Interrupt?
    ) throws(TransportFailure) {
        OpenSSLFault.discard()
        guard let ssl = SSL_new(context) else {
            throw TLSContext.failure("preparing TLS with \(peer)")
        }
        guard SSL_set_fd(ssl, socket.descriptor) == 1 else {
            SSL_free(ssl)
            throw TLSContext.failure("preparing TLS with \(peer)")
        }
        self.ssl = ssl
        self.socket = socket
        self.peer = peer
        notes = HandshakeNotes()
        failures = TLSFailures(peer: peer, role: role, identityName: identityName, notes: notes)
        self.interrupt = interrupt
    }

    deinit {
        SSL_free(ssl)
    }

    // MARK: Waiting

    /// Waits as OpenSSL asked, or throws `timedOut` or `interrupted`.
    func wait(
        for direction: Poll.Direction, deadline: Deadline, during stage: TransportFailure.Stage
    ) throws(TransportFailure) {
        switch poll(for: direction, deadline: deadline) {
        case .ready:
            return
        case .timedOut:
            throw failures.timeout(stage)
        case .interrupted:
            throw TransportFailure(.interrupted, "waiting for \(peer): interrupted")
        case .failed(let error):
            throw .system("waiting for \(peer)", error)
        }
    }

    private func poll(for direction: Poll.Direction, deadline: Deadline) -> Poll.Outcome {
        Poll.wait(socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

    // MARK: Bytes

    /// Reads what is there into `buffer`, waiting for the first byte until the deadline.
    ///
    /// Fills the buffer as far as records already received reach. With `Deadline.now` it returns
    /// at once. The interrupt cuts a wait short; it does not hold back bytes that are there, so a
    /// caller facing an endless peer asks `Interrupt.isTripped` itself. Throws
    /// `clientCertificateRefused`, `protocolError` or `io`; bytes that came before the failure are
    /// returned first, and each later read throws the same.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, deadline: Deadline
    ) throws(TransportFailure) -> ReadOutcome {
        precondition(!buffer.isEmpty, "a read needs room for at least one byte")
        if let ended {
            return .end(try ended.get())
        }
        guard socket.descriptor >= 0 else {
            throw failures.closedByUs
        }
        var filled = 0
        while true {
            var count = 0
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            switch TLSAttempt(ssl, { SSL_read_ex($0, rest.baseAddress, rest.count, &count) }) {
            case .done:
                filled += count
                // Records held by read-ahead show in SSL_has_pending, not in SSL_pending.
                if filled == buffer.count || SSL_has_pending(ssl) == 0 {
                    return .bytes(filled)
                }
                continue
            case .wait(let direction):
                if filled > 0 {
                    return .bytes(filled)
                }
                switch poll(for: direction, deadline: deadline) {
                case .ready: continue
                case .timedOut: return .timedOut
                case .interrupted: return .interrupted
                case .failed(let error): throw .system("waiting for \(peer)", error)
                }
            case .ended(let end):
                ended = .success(end)
            case .failed(let fault):
                ended = .failure(failures.readFailure(fault))
            }
            isBroken = isBroken || ended != .success(.closeNotify)
            if filled > 0 {
                return .bytes(filled)
            }
            if let ended {
                return .end(try ended.get())
            }
        }
    }

    /// Writes all of `bytes` by the deadline.
    ///
    /// Give 16 KiB or more at a time: each call makes at least one record and one system call.
    /// Throws `timedOut(.write)`, `interrupted`, `closedEarly`, `reset`, `protocolError` or `io`;
    /// after any of them some bytes may have been sent and the connection is only good for closing.
    package func write(
        _ bytes: UnsafeRawBufferPointer, deadline: Deadline
    ) throws(TransportFailure) {
        guard socket.descriptor >= 0 else {
            throw failures.closedByUs
        }
        var rest = bytes
        while !rest.isEmpty {
            var count = 0
            let portion = rest
            let attempt = TLSAttempt(
                ssl, { SSL_write_ex($0, portion.baseAddress, portion.count, &count) })
            switch attempt {
            case .done:
                bytesWritten += count
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            case .wait(let direction):
                do {
                    try wait(for: direction, deadline: deadline, during: .write)
                } catch {
                    isBroken = true
                    throw error
                }
            case .ended(let end):
                isBroken = true
                throw failures.writeEnded(end)
            case .failed(let fault):
                isBroken = true
                throw failures.readFailure(fault)
            }
        }
    }

    /// What an attempt to send brought.
    enum SendOutcome {
        /// So many bytes, at least one, were encrypted and handed to the socket.
        case sent(Int)
        /// Nothing now; the next try must begin with the same bytes (SSL_write(3)).
        case wait(Poll.Direction)
    }

    /// Sends as much of `bytes` as one record holds, without waiting. Throws like `write`.
    func send(_ bytes: UnsafeRawBufferPointer) throws(TransportFailure) -> SendOutcome {
        guard socket.descriptor >= 0 else {
            throw failures.closedByUs
        }
        var count = 0
        switch TLSAttempt(ssl, { SSL_write_ex($0, bytes.baseAddress, bytes.count, &count) }) {
        case .done:
            bytesWritten += count
            return .sent(count)
        case .wait(let direction):
            return .wait(direction)
        case .ended(let end):
            isBroken = true
            throw failures.writeEnded(end)
        case .failed(let fault):
            isBroken = true
            throw failures.readFailure(fault)
        }
    }

    // MARK: The end

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
        while case .wait(let direction) = TLSAttempt(ssl, { SSL_shutdown($0) < 0 ? -1 : 1 }) {
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

import COpenSSL
import Glibc

/// How the receiving side of a connection ended.
package enum ConnectionEnd: Sendable, Equatable {
    /// The peer sent close_notify: nothing is missing (RFC 8446 section 6.1).
    case closeNotify
    /// The stream ended without close_notify: bytes may be missing.
    case cut
    /// The connection was reset: bytes may be missing.
    case reset
}

/// What a read brought.
package enum ReadOutcome: Sendable, Equatable {
    /// So many bytes, at least one, now at the start of the caller's buffer.
    case bytes(Int)
    /// No more will come; every later read says the same.
    case end(ConnectionEnd)
    /// Nothing arrived by the deadline. The connection is as good as before.
    case timedOut
    /// The interrupt was tripped while waiting. The connection is as good as before.
    case interrupted
}

extension TLSConnection {
    /// What one OpenSSL call came to.
    enum Attempt {
        case done
        case wait(Poll.Direction)
        case ended(ConnectionEnd)
        case failed(Fault)
    }

    /// Why a call failed: OpenSSL's reasons, or an errno.
    struct Fault {
        let reasons: OpenSSLFault
        let systemError: Int32
    }

    /// Makes one call. The error queue and errno are per thread and only say something about the
    /// last call (SSL_get_error(3)), so they are cleared before and read right after.
    func attempt(_ call: (OpaquePointer) -> Int32) -> Attempt {
        ERR_clear_error()
        errno = 0
        let result = call(ssl)
        let systemError = errno
        if result > 0 {
            return .done
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ:
            return .wait(.reading)
        case SSL_ERROR_WANT_WRITE:
            return .wait(.writing)
        case SSL_ERROR_ZERO_RETURN:
            return .ended(.closeNotify)
        case SSL_ERROR_SYSCALL where systemError == ECONNRESET || systemError == EPIPE:
            return .ended(.reset)
        case SSL_ERROR_SYSCALL where systemError == 0:
            return .ended(.cut)
        default:
            let reasons = OpenSSLFault.drain()
            if reasons.reason == SSL_R_UNEXPECTED_EOF_WHILE_READING {
                return .ended(.cut)
            }
            return .failed(Fault(reasons: reasons, systemError: systemError))
        }
    }

    /// Waits as OpenSSL asked, or throws `timedOut` or `interrupted`.
    func wait(
        for direction: Poll.Direction, deadline: Deadline, during stage: TransportFailure.Stage
    ) throws(TransportFailure) {
        switch poll(for: direction, deadline: deadline) {
        case .ready:
            return
        case .timedOut:
            throw timeout(stage)
        case .interrupted:
            throw TransportFailure(.interrupted, "waiting for \(peer): interrupted")
        case .failed(let error):
            throw .system("waiting for \(peer)", error)
        }
    }

    private func poll(for direction: Poll.Direction, deadline: Deadline) -> Poll.Outcome {
        Poll.wait(socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

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
            throw closedByUs
        }
        var filled = 0
        while true {
            var count = 0
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            switch attempt({ SSL_read_ex($0, rest.baseAddress, rest.count, &count) }) {
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
                ended = .failure(readFailure(fault))
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
            throw closedByUs
        }
        var rest = bytes
        while !rest.isEmpty {
            var count = 0
            let portion = rest
            switch attempt({ SSL_write_ex($0, portion.baseAddress, portion.count, &count) }) {
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
                throw writeEnded(end)
            case .failed(let fault):
                isBroken = true
                throw readFailure(fault)
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
            throw closedByUs
        }
        var count = 0
        switch attempt({ SSL_write_ex($0, bytes.baseAddress, bytes.count, &count) }) {
        case .done:
            bytesWritten += count
            return .sent(count)
        case .wait(let direction):
            return .wait(direction)
        case .ended(let end):
            isBroken = true
            throw writeEnded(end)
        case .failed(let fault):
            isBroken = true
            throw readFailure(fault)
        }
    }
}

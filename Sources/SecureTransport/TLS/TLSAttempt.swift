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

/// What one call of OpenSSL came to.
enum TLSAttempt {
    /// It did what it should.
    case done
    /// The same call must be made again once the socket is ready for this.
    case wait(Poll.Direction)
    /// The peer sends no more.
    case ended(ConnectionEnd)
    /// The connection is broken.
    case failed(Fault)

    /// Why a call failed: OpenSSL's reasons, or an errno.
    struct Fault {
        let reasons: OpenSSLFault
        let systemError: Int32
    }

    /// Makes one call. The error queue and errno are per thread and only say something about the
    /// last call (SSL_get_error(3)), so they are cleared before and read right after.
    init(_ ssl: OpaquePointer, _ call: (OpaquePointer) -> Int32) {
        ERR_clear_error()
        errno = 0
        let result = call(ssl)
        let systemError = errno
        self =
            result > 0
            ? .done : Self.unfinished(SSL_get_error(ssl, result), systemError: systemError)
    }

    private static func unfinished(_ kind: Int32, systemError: Int32) -> TLSAttempt {
        switch kind {
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
}

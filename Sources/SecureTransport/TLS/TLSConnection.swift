import COpenSSL
import Glibc

// One TLS connection with blocking calls, each with a deadline.
//
// The socket never blocks. OpenSSL returns what it waits for: WANT_READ or WANT_WRITE, each from
// either direction, because a write may first have to read a key update. poll waits for that, the
// deadline and the interrupt, and the same call is repeated.
//
// A connection ends in one of four ways. The difference matters to a list, which has no terminator:
//   close_notify   the peer announces the end (RFC 8446 section 6.1)
//   cut            the stream ends without it: bytes may be missing, by a fault or an attack
//   reset          the peer or the network ended the connection: bytes may be missing
//   failure        an alert or broken records: the bytes before it are valid, the end is not
// Bytes that arrived before the end are returned first, whatever the end is.
//
// A connection is confined to one thread at a time, and therefore not Sendable.

/// A TLS connection, confined to its thread. Its deinit closes it without close_notify.
package final class TLSConnection {
    let ssl: OpaquePointer
    let socket: Socket
    /// The peer's name in messages: `host:port (address)`.
    package let peer: String
    /// OpenSSL's information about the handshake.
    let notes: HandshakeNotes
    /// Whether the local side is the client.
    let isClient: Bool
    /// Our certificate's name for messages; nil without one.
    let identityName: String?
    /// Ends every wait.
    let interrupt: Interrupt?
    /// The end of the receiving side; each later read returns the same.
    var ended: Result<ConnectionEnd, TransportFailure>?
    /// A fatal error of either direction: no close_notify may follow it (SSL_shutdown(3)).
    var isBroken = false
    /// The number of bytes written to TLS so far, also by a write that failed midway.
    package internal(set) var bytesWritten = 0

    init(
        _ socket: Socket, context: OpaquePointer, isClient: Bool, peer: String,
        identityName: String?, interrupt: Interrupt?
    ) throws(TransportFailure) {
        OpenSSLFault.discard()
        guard let ssl = SSL_new(context) else {
            throw TransportFailure.openSSL("preparing TLS with \(peer)")
        }
        guard SSL_set_fd(ssl, socket.descriptor) == 1 else {
            SSL_free(ssl)
            throw TransportFailure.openSSL("preparing TLS with \(peer)")
        }
        (self.ssl, self.socket, self.peer, notes) = (ssl, socket, peer, HandshakeNotes())
        (self.isClient, self.identityName) = (isClient, identityName)
        self.interrupt = interrupt
    }

    deinit { SSL_free(ssl) }

    /// Waits for what OpenSSL needs; false where the deadline passed. Throws `interrupted`.
    func isReady(
        for direction: Poll.Direction, deadline: Deadline
    ) throws(TransportFailure) -> Bool {
        try Poll.isReady(
            socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt,
            "waiting for \(peer)")
    }

    private func poll(for direction: Poll.Direction, deadline: Deadline) -> Poll.Outcome {
        Poll.wait(socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

    // MARK: Bytes

    /// Reads the available bytes into `buffer`, and waits for the first one until the deadline.
    ///
    /// The buffer gets as many bytes as the received records hold. With `Deadline.now` the call
    /// returns at once. The interrupt ends a wait, but available bytes are still returned, so a
    /// caller with an endless peer has to check `Interrupt.isTripped` itself. Throws
    /// `clientCertificateRefused`, `protocolError` or `io`. Bytes from before the failure are
    /// returned first, and each later read throws the same.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, deadline: Deadline
    ) throws(TransportFailure) -> ReadOutcome {
        precondition(!buffer.isEmpty, "a read needs a buffer of at least one byte")
        if let ended { return .end(try ended.get()) }
        guard socket.descriptor >= 0 else { throw closedByUs }
        var filled = 0
        while true {
            var count = 0
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            switch TLSAttempt(ssl, { SSL_read_ex($0, rest.baseAddress, rest.count, &count) }) {
            case .done:
                filled += count
                // SSL_has_pending includes records read ahead, SSL_pending does not.
                if filled == buffer.count || SSL_has_pending(ssl) == 0 {
                    return .bytes(filled)
                }
                continue
            case .wait(let direction):
                if filled > 0 { return .bytes(filled) }
                switch poll(for: direction, deadline: deadline) {
                case .ready: continue
                case .timedOut: return .timedOut
                case .interrupted: return .interrupted
                case .failed(let error): throw .system("waiting for \(peer)", error)
                }
            case .ended(let end): ended = .success(end)
            case .failed(let fault): ended = .failure(readFailure(fault))
            }
            isBroken = isBroken || ended != .success(.closeNotify)
            if filled > 0 { return .bytes(filled) }
            if let ended { return .end(try ended.get()) }
        }
    }

    /// Lets each further read take one record from the socket, so that what was read is with the caller
    /// and not in OpenSSL. A buffer needs room for a record, `recordLength`.
    package func stopReadingAhead() { SSL_set_read_ahead(ssl, 0) }

    /// The most bytes of a record (RFC 8446 section 5.1).
    package static let recordLength = 1 << 14

    /// Writes all of `bytes` by the deadline.
    ///
    /// Write 16 KiB or more at a time: each call makes at least one record and one system call.
    /// Throws `timedOut`, `interrupted`, `closedEarly`, `reset`, `protocolError` or `io`;
    /// after any of them some bytes may have been sent, and the connection can only be closed.
    package func write(
        _ bytes: UnsafeRawBufferPointer, deadline: Deadline
    ) throws(TransportFailure) {
        guard socket.descriptor >= 0 else { throw closedByUs }
        var rest = bytes
        while !rest.isEmpty {
            switch try send(rest) {
            case .sent(let count): rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            case .wait(let direction):
                do throws(TransportFailure) {
                    guard try isReady(for: direction, deadline: deadline) else {
                        throw TransportFailure(
                            .timedOut,
                            "writing to \(peer): the peer took nothing in time; try again later")
                    }
                } catch {
                    isBroken = true
                    throw error
                }
            case .ended(let end): throw writeEnded(end)
            }
        }
    }

    /// Writes as much of `bytes` as the socket takes, and returns the number of bytes written: 0 when
    /// it took none by the deadline, or when the peer has sent something first. The next call must
    /// begin with the first byte that was not written (SSL_write(3)). Throws like `write`.
    package func writePart(
        of bytes: UnsafeRawBufferPointer, deadline: Deadline
    ) throws(TransportFailure) -> Int {
        var rest = bytes
        var hasWaited = false
        while !rest.isEmpty {
            switch try send(rest) {
            case .sent(let count): rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            case .wait:
                guard rest.count == bytes.count, !hasWaited else {
                    return bytes.count - rest.count
                }
                hasWaited = true
                guard case .ready = poll(for: .either, deadline: deadline) else { return 0 }
            case .ended(let end): throw writeEnded(end)
            }
        }
        return bytes.count
    }

    /// The result of an attempt to send.
    enum SendOutcome {
        /// The number of bytes, at least one, that were encrypted and written to the socket.
        case sent(Int)
        /// No byte was sent. The next attempt must begin with the same bytes (SSL_write(3)).
        case wait(Poll.Direction)
        /// The peer has closed or reset the connection.
        case ended(ConnectionEnd)
    }

    /// Sends as much of `bytes` as one record holds, without waiting. Throws `protocolError`, `io`
    /// or `clientCertificateRefused`.
    func send(_ bytes: UnsafeRawBufferPointer) throws(TransportFailure) -> SendOutcome {
        guard socket.descriptor >= 0 else { throw closedByUs }
        var count = 0
        switch TLSAttempt(ssl, { SSL_write_ex($0, bytes.baseAddress, bytes.count, &count) }) {
        case .done:
            bytesWritten += count
            return .sent(count)
        case .wait(let direction): return .wait(direction)
        case .ended(let end):
            isBroken = true
            return .ended(end)
        case .failed(let fault):
            isBroken = true
            throw readFailure(fault)
        }
    }

    /// The bytes that this host has taken for sending and that the peer's host has not acknowledged,
    /// with those of TLS records (tcp(7), SIOCOUTQ); 0 for a closed connection.
    package var unacknowledgedBytes: Int {
        socket.descriptor < 0 ? 0 : Int(pushsweep_unacknowledged(socket.descriptor))
    }

    // MARK: The end

    /// Sends close_notify, then FIN. Reading continues.
    ///
    /// After a large write the socket may be full, so this waits until the deadline. A close_notify
    /// that cannot be sent is lost, and the peer sees a cut. It reports no failure, because no
    /// caller could act on one.
    package func closeNotify(deadline: Deadline = .in(.seconds(5))) {
        guard socket.descriptor >= 0, !isBroken else { return }
        // 0 means sent and not answered yet, which is enough (SSL_shutdown(3)).
        while case .wait(let direction) = TLSAttempt(ssl, { SSL_shutdown($0) < 0 ? -1 : 1 }) {
            guard case .ready = poll(for: direction, deadline: deadline) else { break }
        }
        OpenSSLFault.discard()
        socket.endSending()
    }

    /// Sends close_notify and closes.
    package func close() {
        closeNotify()
        socket.close()
    }

    /// Sends FIN without close_notify and closes, as the kernel does for a killed process. The peer
    /// cannot know whether bytes are missing.
    package func closeAbruptly() { socket.closeWithEnd() }

    /// Resets the connection: the peer may lose even bytes that it has not read yet.
    package func reset() { socket.closeWithReset() }

    /// Reads and drops all further bytes of the peer. True at its end, false when the deadline
    /// passed or the interrupt was tripped.
    ///
    /// A server that closes with unread bytes in its socket sends a reset, which can overtake the
    /// end of its own list. Waiting for the peer's end avoids that.
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

/// The TLS settings of all connections of one client: trusted authorities, identity and protocols.
///
/// TLS 1.2 is the lowest version, because APNs requires it and RFC 8996 deprecates older ones. Peer
/// verification cannot be disabled.
package final class TLSClientContext: Sendable {
    /// The authorities that are trusted for gateways.
    package enum Trust: Sendable {
        /// Those of the system (Debian: /etc/ssl/certs; SSL_CTX_set_default_verify_paths(3)).
        case system
        /// Only the PEM certificates in this file, roots or not.
        case file(String)
    }

    /// The version of the loaded OpenSSL.
    package static var libraryVersion: String {
        OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "unknown"
    }

    // Safe: an SSL_CTX does not change after this init, and SSL_new counts references atomically
    // (openssl-threads(7)).
    nonisolated(unsafe) let pointer: OpaquePointer
    /// The name of the client certificate in messages; nil without one.
    let identityName: String?

    /// Makes the context of a client. `alpn` lists protocols in order of preference (RFC 7301),
    /// none by default. Throws `trustUnusable` for authorities and `credentialsUnusable` for an
    /// identity that OpenSSL refuses.
    package init(
        trust: Trust, identity: TLSIdentity? = nil, alpn: [String] = []
    ) throws(TransportFailure) {
        ignoreBrokenPipes()
        pointer = try TLSContext.make(TLS_client_method())
        identityName = identity.map { $0.commonName ?? $0.subject }
        // From here on a throw runs deinit, which frees the context.
        guard pushsweep_ctx_set_min_version(pointer, TLS1_2_VERSION) == 1 else {
            throw TransportFailure.openSSL("allowing TLS 1.2 and later")
        }
        try install(trust)
        try TLSContext.install(identity, in: pointer)
        let protocols = ALPN.wireForm(alpn)
        // This one function of OpenSSL returns 0 for success.
        if !protocols.isEmpty,
            SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count)) != 0
        {
            throw TransportFailure.openSSL("offering application protocols")
        }
    }

    deinit { SSL_CTX_free(pointer) }

    private func install(_ trust: Trust) throws(TransportFailure) {
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(pointer) == 1 else {
                throw TransportFailure.openSSL(
                    "finding the system's certificate authorities", .trustUnusable)
            }
        case .file(let path):
            // OpenSSL would wait for a writer of a pipe.
            if (try? GuardedFile.ensureRegular(path)) == nil, access(path, F_OK) == 0 {
                throw TransportFailure(
                    .trustUnusable,
                    "loading certificate authorities from \(path): it is not a regular file; give the "
                        + "file itself")
            }
            guard SSL_CTX_load_verify_file(pointer, path) == 1 else {
                throw TransportFailure.openSSL(
                    "loading certificate authorities from \(path)", .trustUnusable,
                    advice: "; check that the file exists and holds PEM certificates")
            }
            // An intermediate authority in the file is trusted too.
            X509_VERIFY_PARAM_set_flags(
                SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
        }
    }
}

/// The common part of client and server contexts.
package enum TLSContext {
    /// The number of bytes of one read from the socket, several records at a time. Sizes from 16 to
    /// 512 KiB made no measurable difference for a list.
    static let readBufferSize = 64 * 1024

    /// Makes a context for a method such as TLS_client_method, with the options of both sides.
    /// Throws `credentialsUnusable`.
    package static func make(_ method: OpaquePointer?) throws(TransportFailure) -> OpaquePointer {
        OpenSSLFault.discard()
        guard let context = SSL_CTX_new(method) else {
            throw TransportFailure.openSSL("preparing TLS")
        }
        pushsweep_ctx_allow_partial_writes(context)
        pushsweep_ctx_read_ahead(context, readBufferSize)
        pushsweep_ctx_forget_sessions(context)
        pushsweep_ctx_refuse_renegotiation(context)
        return context
    }

    /// Makes a context use an identity, if there is one. Throws `credentialsUnusable`.
    package static func install(
        _ identity: TLSIdentity?, in context: OpaquePointer
    ) throws(TransportFailure) {
        if let identity, !identity.material.install(in: context) {
            throw TransportFailure.openSSL(
                "using the certificate \(identity.subject)",
                advice: "; it may be too weak for this system's OpenSSL: issue a new one")
        }
    }
}

/// Application-Layer Protocol Negotiation, RFC 7301.
package enum ALPN {
    /// The names, of 1 to 255 bytes, each after its length in one byte.
    package static func wireForm(_ names: [String]) -> [UInt8] {
        names.flatMap { [UInt8($0.utf8.count)] + $0.utf8 }
    }

    /// The protocol that the server chose on a connection; nil without one.
    static func chosen(in ssl: OpaquePointer) -> String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        guard let name, length > 0 else { return nil }
        return String(
            decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }
}

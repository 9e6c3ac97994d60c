import Glibc
import SecureTransport
import Synchronization

/// A client's TCP connection before TLS, to be passed to the thread that serves it.
///
/// Usually the next step is `handshake`. A misbehaving gateway sends no byte, sends plaintext or
/// closes instead. The deinit closes a connection that is still open.
package final class AcceptedConnection: Sendable {
    /// -1 after the handshake began or the connection was closed.
    private let descriptor: Mutex<Int32>
    /// The client's address and port.
    package let peer: String

    init(descriptor: Int32, peer: String) {
        self.descriptor = Mutex(descriptor)
        self.peer = peer
    }

    deinit {
        takeSocket()?.close()
    }

    private func takeSocket() -> sending Socket? {
        let taken = descriptor.withLock { descriptor in
            let taken = descriptor
            descriptor = -1
            return taken
        }
        return taken < 0 ? nil : Socket(adopting: taken)
    }

    /// Completes the server's side of the handshake within `timeout`.
    ///
    /// Throws like `TLSConnection.accept`, and `io` when this connection was used already.
    package func handshake(
        context: TLSServerContext, timeout: Duration, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        guard let socket = takeSocket() else {
            throw TransportFailure(
                .io, "TLS handshake with \(peer): the connection was used already")
        }
        return try .accept(
            socket, context: context.pointer, verifying: context.verifying, peer: peer,
            timeout: timeout, interrupt: interrupt)
    }

    /// Sends bytes without TLS, as many as the socket accepts at once, and returns their number.
    package func sendPlaintext(_ bytes: [UInt8]) -> Int {
        descriptor.withLock { descriptor in
            bytes.withUnsafeBytes { max(0, write(descriptor, $0.baseAddress, $0.count)) }
        }
    }

    /// Reads exactly `count` bytes before TLS, as in protocols with a request for TLS. Nil when the
    /// client closed or the deadline passed before all had arrived. Reads no further byte.
    package func readPlaintext(_ count: Int, deadline: Deadline) -> [UInt8]? {
        let watched = descriptor.withLock { $0 }
        var bytes: [UInt8] = []
        while watched >= 0 && bytes.count < count {
            guard
                case .ready = Poll.wait(watched, for: .reading, deadline: deadline, interrupt: nil)
            else { return nil }
            var rest = [UInt8](repeating: 0, count: count - bytes.count)
            let taken = read(watched, &rest, rest.count)
            guard taken > 0 || errno == EAGAIN || errno == EINTR else { return nil }
            bytes += rest.prefix(max(0, taken))
            guard taken != 0 else { return nil }
        }
        return bytes.count == count ? bytes : nil
    }

    /// Drops the bytes of the client, without an answer, until it closes. True when it closed,
    /// false when the deadline passed or the interrupt was tripped.
    package func staySilent(deadline: Deadline, interrupt: Interrupt? = nil) -> Bool {
        let watched = descriptor.withLock { $0 }
        guard watched >= 0 else {
            return true
        }
        var scratch = [UInt8](repeating: 0, count: 4096)
        while true {
            guard
                case .ready = Poll.wait(
                    watched, for: .reading, deadline: deadline, interrupt: interrupt)
            else {
                return false
            }
            let count = read(watched, &scratch, scratch.count)
            if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) {
                return true
            }
        }
    }

    /// Closes with FIN.
    package func close() {
        takeSocket()?.closeWithEnd()
    }

    /// Closes with RST.
    package func reset() {
        takeSocket()?.closeWithReset()
    }
}

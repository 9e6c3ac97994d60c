import Glibc
import SecureTransport
import Synchronization

/// A client's TCP connection before TLS, to be handed to the thread that will serve it.
///
/// Usually the next step is `handshake`. A gateway that misbehaves stays silent, speaks plaintext
/// or closes instead. Dropped without either, it closes.
package final class AcceptedConnection: Sendable {
    /// -1 once given to TLS or closed.
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
    /// Throws what `TLSConnection.accept` throws, or `io` when this connection was already used up.
    package func handshake(
        context: TLSServerContext, timeout: Duration, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        guard let socket = takeSocket() else {
            throw TransportFailure(
                .io, "TLS handshake with \(peer): the connection was already used up")
        }
        return try .accept(
            socket, context: context.pointer, verifying: context.verifying, peer: peer,
            timeout: timeout, interrupt: interrupt)
    }

    /// Sends bytes without TLS, as far as the socket takes them at once, and says how many it took.
    package func sendPlaintext(_ bytes: [UInt8]) -> Int {
        descriptor.withLock { descriptor in
            bytes.withUnsafeBytes { max(0, write(descriptor, $0.baseAddress, $0.count)) }
        }
    }

    /// Reads exactly so many bytes that come before TLS, as in protocols that ask for TLS first;
    /// nil when the client closed or the deadline came before all were there. Takes no byte more.
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

    /// Drops what the client sends until it closes; true when it did, false when the deadline or
    /// the interrupt came first. Never answers.
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

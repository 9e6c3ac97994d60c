import Foundation
import Synchronization

/// A server on a free local port that sends one greeting to every caller and records all bytes that
/// callers send.
///
/// Only its thread closes the listening socket. If another thread closed it, another test's socket
/// could get the number while this thread still accepts on it, and this server would answer that
/// socket's callers.
package final class SilentServer: Sendable {
    package let port: Int
    private let ear: Ear

    /// The bytes that callers have sent so far.
    package var heard: [UInt8] { ear.state.withLock { $0.heard } }

    /// Starts to listen; every caller gets `greeting`.
    package init(saying greeting: [UInt8]) throws {
        let descriptor: Int32
        (descriptor, port) = try LocalSocket.listen()
        let ear = Ear(descriptor)
        self.ear = ear
        let thread = Thread { ear.listen(greeting) }
        thread.start()
    }

    deinit { ear.stop() }
}

/// The thread's data, apart from the server, so that the thread does not keep the server alive.
private final class Ear: Sendable {
    struct State {
        var heard: [UInt8] = []
        var isStopped = false
        var isClosed = false
    }

    let state = Mutex(State())
    private let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    func listen(_ greeting: [UInt8]) {
        while !state.withLock({ $0.isStopped }) {
            let caller = accept(descriptor, nil, nil)
            guard caller >= 0 else { continue }
            _ = greeting.withUnsafeBytes {
                send(caller, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            var buffer = [UInt8](repeating: 0, count: 4_096)
            while true {
                let count = recv(caller, &buffer, buffer.count, 0)
                guard count > 0 else { break }
                state.withLock { $0.heard += buffer.prefix(count) }
            }
            close(caller)
        }
        state.withLock {
            $0.isClosed = true
            close(descriptor)
        }
    }

    /// Wakes the thread, which then closes the socket.
    func stop() {
        state.withLock {
            $0.isStopped = true
            if !$0.isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }
}

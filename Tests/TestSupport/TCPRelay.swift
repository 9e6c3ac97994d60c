import Foundation
import Synchronization

/// A relay between clients and a server on this machine, which can be cut: then it ends every connection,
/// and each new one at once, until it is mended.
package final class TCPRelay: Sendable {
    /// Its port on 127.0.0.1.
    package let port: Int
    private let state: RelayState

    /// Starts to relay to a port of 127.0.0.1.
    package init(to target: Int) throws {
        let listener: Int32
        (listener, port) = try LocalSocket.listen()
        let state = RelayState(listener, target)
        self.state = state
        Thread.detachNewThread { state.serve() }
    }

    /// Ends every connection, and each new one at once.
    package func cut() { state.set(cut: true) }

    /// Relays again.
    package func mend() { state.set(cut: false) }

    deinit { state.stop() }
}

/// The data of the relay's threads, apart from it, so that they do not keep it alive.
private final class RelayState: Sendable {
    private struct Shared {
        var isCut = false
        var isStopped = false
        var sockets: Set<Int32> = []
    }

    private let shared = Mutex(Shared())
    private let listener: Int32
    private let target: Int

    init(_ listener: Int32, _ target: Int) { (self.listener, self.target) = (listener, target) }

    func serve() {
        while !shared.withLock({ $0.isStopped }) {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { continue }
            let server = shared.withLock { shared -> Int32? in
                guard !shared.isCut, !shared.isStopped, let server = LocalSocket.connect(target)
                else { return nil }
                shared.sockets.formUnion([client, server])
                return server
            }
            guard let server else {
                close(client)
                continue
            }
            let (left, right) = (Ends(from: client, to: server), Ends(from: server, to: client))
            let pair = Pair(self, client, server)
            Thread.detachNewThread { left.pump(pair) }
            Thread.detachNewThread { right.pump(pair) }
        }
        close(listener)
    }

    func set(cut: Bool) {
        shared.withLock { shared in
            shared.isCut = cut
            if cut { for socket in shared.sockets { shutdown(socket, Int32(SHUT_RDWR)) } }
        }
    }

    func stop() {
        shared.withLock { shared in
            shared.isStopped = true
            for socket in shared.sockets { shutdown(socket, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// Closes two sockets once nobody uses them.
    fileprivate func forget(_ client: Int32, _ server: Int32) {
        shared.withLock { shared in
            shared.sockets.subtract([client, server])
            close(client)
            close(server)
        }
    }

    /// The sockets of one connection, closed when both directions have ended.
    final class Pair: Sendable {
        private let state: RelayState
        private let client: Int32
        private let server: Int32

        init(_ state: RelayState, _ client: Int32, _ server: Int32) {
            (self.state, self.client, self.server) = (state, client, server)
        }

        deinit { state.forget(client, server) }
    }

    /// One direction of a connection.
    struct Ends: Sendable {
        let from: Int32
        let to: Int32

        func pump(_ pair: Pair) {
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = recv(from, &buffer, buffer.count, 0)
                guard count > 0 else { break }
                guard LocalSocket.send(to, Array(buffer[..<count])) else { break }
            }
            shutdown(from, Int32(SHUT_RDWR))
            shutdown(to, Int32(SHUT_RDWR))
            withExtendedLifetime(pair) {}
        }
    }
}

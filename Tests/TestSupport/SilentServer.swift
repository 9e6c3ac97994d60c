import Foundation

/// A server on a free local port that says one thing to every caller and writes down what it hears
/// in return.
package final class SilentServer: Sendable {
    package let port: Int
    private let descriptor: Int32
    private let lock = NSLock()
    // Guarded by `lock`.
    nonisolated(unsafe) private var bytes: [UInt8] = []

    /// What callers have said so far.
    package var heard: [UInt8] { lock.withLock { bytes } }

    package init(saying greeting: [UInt8]) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &size) == 0
            }
        }
        guard isListening else { throw TestFailure("no free port") }
        port = Int(UInt16(bigEndian: address.sin_port))
        self.descriptor = descriptor
        let thread = Thread { [weak self] in
            while true {
                let caller = accept(descriptor, nil, nil)
                guard caller >= 0 else { return }
                _ = greeting.withUnsafeBytes {
                    send(caller, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                var buffer = [UInt8](repeating: 0, count: 4_096)
                while true {
                    let count = recv(caller, &buffer, buffer.count, 0)
                    guard count > 0 else { break }
                    self?.note(buffer.prefix(count))
                }
                close(caller)
            }
        }
        thread.start()
    }

    deinit {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    private func note(_ heard: ArraySlice<UInt8>) { lock.withLock { bytes += heard } }
}

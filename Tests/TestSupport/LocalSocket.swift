import Glibc

/// Sockets on this machine.
enum LocalSocket {
    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(port).bigEndian
        return address
    }

    private static func with<R>(
        _ address: inout sockaddr_in, _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> R
    ) -> R {
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// A listening socket on a free port of 127.0.0.1, and its port.
    static func listen() throws -> (descriptor: Int32, port: Int) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var place = address(0)
        let isListening = with(&place) { pointer, size in
            var size = size
            return Glibc.bind(descriptor, pointer, size) == 0 && Glibc.listen(descriptor, 16) == 0
                && getsockname(descriptor, pointer, &size) == 0
        }
        guard isListening else { throw TestFailure("no free port") }
        return (descriptor, Int(UInt16(bigEndian: place.sin_port)))
    }

    static func connect(_ port: Int) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = address(port)
        if with(&address, { Glibc.connect(descriptor, $0, $1) == 0 }) { return descriptor }
        close(descriptor)
        return nil
    }

    static func send(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// The next packet with its header; nil at the end of the connection.
    static func packet(_ descriptor: Int32) -> [UInt8]? {
        guard let head = read(descriptor, 4) else { return nil }
        let length = Int(head[0]) | Int(head[1]) << 8 | Int(head[2]) << 16
        return read(descriptor, length).map { head + $0 }
    }

    private static func read(_ descriptor: Int32, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var found = 0
        while found < count {
            let some = bytes[found...].withUnsafeMutableBytes {
                recv(descriptor, $0.baseAddress, $0.count, 0)
            }
            guard some > 0 else { return nil }
            found += some
        }
        return bytes
    }
}

import Glibc

/// An IPv4 or IPv6 address with a port, in the system's own form.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// A sockaddr_in or sockaddr_in6, byte for byte.
    private let bytes: [UInt8]

    /// Copies an address of the system; nil for one of neither family.
    package init?(_ address: UnsafePointer<sockaddr>?, length: socklen_t) {
        guard let address, length >= MemoryLayout<sockaddr_in>.size else {
            return nil
        }
        let family = Int32(address.pointee.sa_family)
        guard family == AF_INET || family == AF_INET6 else {
            return nil
        }
        bytes = Array(UnsafeRawBufferPointer(start: address, count: Int(length)))
    }

    /// AF_INET or AF_INET6.
    package var family: Int32 {
        withPointer { address, _ in address.map { Int32($0.pointee.sa_family) } ?? AF_INET }
    }

    /// The port, in host byte order.
    package var port: UInt16 {
        // Both families keep it in bytes 2 and 3, in network order (ip(7), ipv6(7)).
        UInt16(bytes[2]) << 8 | UInt16(bytes[3])
    }

    /// `127.0.0.1:2196` or `[::1]:2196`.
    package var description: String {
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let result = withPointer { address, length in
            getnameinfo(
                address, length, &host, socklen_t(host.count), nil, 0, Int32(NI_NUMERICHOST))
        }
        let text = result == 0 ? host.withUnsafeBufferPointer(Self.text) : "?"
        return family == AF_INET6 ? "[\(text)]:\(port)" : "\(text):\(port)"
    }

    /// Lends the address to a system call.
    package func withPointer<Result>(
        _ body: (UnsafePointer<sockaddr>?, socklen_t) -> Result
    ) -> Result {
        bytes.withUnsafeBytes { raw in
            body(
                raw.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
    }

    private static func text(_ characters: UnsafeBufferPointer<CChar>) -> String {
        String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The local address of a bound socket; nil where the system does not tell it.
    package static func bound(to descriptor: Int32) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                getsockname(descriptor, address, &length) == 0
                    ? SocketAddress(address, length: length) : nil
            }
        }
    }
}

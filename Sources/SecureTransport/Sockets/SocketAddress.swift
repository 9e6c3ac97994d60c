import Glibc

/// An IPv4 or IPv6 address with a port, in the form of the system.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// A sockaddr_in or sockaddr_in6, byte for byte.
    private let bytes: [UInt8]

    /// Copies an address of the system; nil for another family.
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
        // Both families store it in bytes 2 and 3, in network order (ip(7), ipv6(7)).
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

    /// Passes the address to a system call.
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

    /// The local address of a bound socket; nil where the system returns none.
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

/// Resolves names with the system's resolver.
package enum NameResolution {
    /// Calls `connect` with one address of a host after the other, until one succeeds or the deadline
    /// has passed. Throws `nameNotFound`, or the failure of the last address.
    package static func first<Connected>(
        of host: String, _ port: UInt16, until deadline: Deadline = .never,
        _ connect: (SocketAddress) throws(TransportFailure) -> Connected
    ) throws(TransportFailure) -> Connected {
        var failure: TransportFailure?
        for address in try resolve(host: host, port: port) {
            if failure != nil, deadline.hasPassed { break }
            do throws(TransportFailure) {
                return try connect(address)
            } catch {
                guard error.code != .interrupted else { throw error }
                failure = error
            }
        }
        throw failure
            ?? TransportFailure(
                .nameNotFound, "connecting to \(host):\(port): it has no address; check the name")
    }

    /// The addresses of a host, in the order to try them (getaddrinfo(3), RFC 6724).
    ///
    /// An IP literal resolves to itself. The resolver has its own timeouts (resolv.conf(5)) and
    /// cannot be interrupted. Throws `nameNotFound`.
    package static func resolve(
        host: String, port: UInt16
    ) throws(TransportFailure) -> [SocketAddress] {
        let name = HostName(host)
        guard name.isUsable else {
            throw TransportFailure(
                .nameNotFound, "looking up a host: the name is empty or has a zero byte")
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(name.text, String(port), &hints, &list)
        guard result == 0, let first = list else {
            throw TransportFailure(
                .nameNotFound,
                "looking up \(name.text): \(reason(result)); check the host name in the settings "
                    + "and this host's DNS")
        }
        defer { freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        for entry in sequence(first: first, next: { $0.pointee.ai_next }) {
            if let address = SocketAddress(
                entry.pointee.ai_addr, length: entry.pointee.ai_addrlen)
            {
                addresses.append(address)
            }
        }
        return addresses
    }

    private static func reason(_ code: Int32) -> String {
        guard let message = gai_strerror(code) else {
            return "resolver error \(code)"
        }
        let text = String(cString: message)
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}

/// A host in the settings: a name, with or without the root's dot, or an IP literal, with or
/// without brackets.
struct HostName: Sendable {
    /// The host without brackets and without the root's dot, which certificates and SNI do not have
    /// (RFC 6066 section 3).
    let text: String

    init(_ spelled: String) {
        var name = Substring(spelled)
        if name.hasPrefix("["), name.hasSuffix("]") {
            name = name.dropFirst().dropLast()
        } else if name.hasSuffix(".") {
            name = name.dropLast()
        }
        text = String(name)
    }

    var isUsable: Bool {
        !text.isEmpty && !text.utf8.contains(0)
    }

    /// Whether it is an address: compared with the certificate's IP addresses, and not sent as SNI.
    var isLiteral: Bool {
        var address = in6_addr()
        return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1
    }
}

import Glibc

/// Names to addresses, by the system's resolver.
package enum NameResolution {
    /// The addresses of a host, in the order to try them (getaddrinfo(3), RFC 6724).
    ///
    /// An IP literal resolves to itself. The resolver has timeouts of its own (resolv.conf(5)) and
    /// cannot be interrupted. Throws `nameNotFound`.
    package static func resolve(
        host: String, port: UInt16
    ) throws(TransportFailure) -> [SocketAddress] {
        let name = HostName(host)
        guard name.isUsable else {
            throw TransportFailure(
                .nameNotFound, "looking up a host: the name is empty or holds a zero byte")
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

/// A host as the settings spell it: a name, perhaps with the root's dot, or an IP literal,
/// perhaps in brackets.
struct HostName: Sendable {
    /// Without brackets and without the root's dot, which neither certificates nor SNI carry
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

    /// Whether it is an address, to be found among the certificate's IP names and not sent as SNI.
    var isLiteral: Bool {
        var address = in6_addr()
        return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1
    }
}

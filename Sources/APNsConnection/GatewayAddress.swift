import SecureTransport

/// Where a gateway is, and who it must be.
struct GatewayAddress: Sendable {
    let host: String
    let port: UInt16
    /// The name that its certificate must have.
    let hostName: String
    /// Trusted authorities and this host's certificate.
    let context: TLSClientContext

    /// `host:port`, for messages.
    var name: String { "\(host):\(port)" }

    /// Connects to the first address that accepts the connection. Names are looked up again each time,
    /// because APNs changes its addresses (Apple, "Communicating with APNs").
    ///
    /// - Parameter time: the time for one address.
    /// - Throws: the failure of the last address.
    func connect(
        _ time: Duration, handshake: Duration, until deadline: Deadline, _ interrupt: Interrupt,
        requiring name: String? = nil, connected: (SocketAddress) -> Void = { _ in }
    ) throws(TransportFailure) -> TLSConnection {
        try NameResolution.first(of: host, port, until: deadline) {
            (address) throws(TransportFailure) in
            let connection = try TLSConnection.connect(
                to: address, hostName: hostName, context: context,
                connectDeadline: .earlier(of: .in(time), deadline),
                handshakeTimeout: min(handshake, deadline.remaining), interrupt: interrupt,
                requiring: name)
            connected(address)
            return connection
        }
    }

    /// Whether the server would speak HTTP/2. It is asked without a complete handshake.
    func choosesHTTP2(
        _ time: Duration, handshake: Duration, _ interrupt: Interrupt
    ) throws(TransportFailure) -> Bool {
        try NameResolution.first(of: host, port) { (address) throws(TransportFailure) in
            try TLSConnection.protocolChosen(
                by: address, hostName: hostName, context: context, offering: ["h2"],
                connectDeadline: .in(time), handshakeTimeout: handshake, interrupt: interrupt)
                == "h2"
        }
    }
}

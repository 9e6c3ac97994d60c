// A provider can be examined without a notification: TLS proves who it is, ALPN that it speaks HTTP/2,
// and its SETTINGS, with which every HTTP/2 server begins, that it took our certificate. Under TLS 1.3
// a refused certificate shows only after the handshake (RFC 8446 section 4.4.2.4).
//
// The address may be that of a feedback gateway by mistake, which clears its list for every client. So
// the handshake is completed only with a server that has chosen `h2`.

import SecureTransport

extension ProviderPlan {
    /// Connects to the first address that accepts the connection. Names are looked up again each
    /// time, because APNs changes its addresses (Apple, "Communicating with APNs").
    func connect(
        _ settings: HTTP2ClientSettings, _ connect: Duration, until deadline: Deadline,
        _ interrupt: Interrupt
    ) throws(TransportFailure) -> HTTP2ClientSession {
        try NameResolution.first(of: host, port, until: deadline) {
            (address) throws(TransportFailure) in
            let connection = try TLSConnection.connect(
                to: address, hostName: hostName, context: context,
                connectDeadline: .earlier(of: .in(connect), deadline),
                handshakeTimeout: min(limits.handshake, deadline.remaining),
                interrupt: interrupt, requiring: "h2")
            let session = try HTTP2ClientSession(connection, settings: settings)
            log("connected to \(name) at \(address)")
            return session
        }
    }

    /// Connects, waits for the gateway's SETTINGS, and closes, without any request.
    ///
    /// - Parameter time: the limit for all of it, besides the lookup of the name.
    /// - Throws: why no notification could be sent; `timedOut` where the gateway says nothing.
    package func greet(
        within time: Duration, interrupt: Interrupt
    ) throws(TransportFailure) {
        let deadline = Deadline.in(time)
        // So that another address is tried where the first does not answer.
        let session = try connect(HTTP2ClientSettings(), time / 2, until: deadline, interrupt)
        let isHere = session.awaitSettings(until: deadline, interrupt: interrupt)
        if isHere {
            session.close(deadline: .in(.seconds(1)))
            return
        }
        if interrupt.isTripped { throw .interrupted(while: "waiting for \(name)") }
        guard let close = session.closed else {
            throw TransportFailure(
                .timedOut(.handshake),
                "HTTP/2 with \(session.peer): no SETTINGS within \(time.components.seconds) s; check that an HTTP/2 server "
                    + "listens at that port")
        }
        throw close.failure ?? TransportFailure(.closedEarly, close.description)
    }
}

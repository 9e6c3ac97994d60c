// An HTTP/2 port that the settings call a feedback gateway gives no list. Without ALPN some servers end
// the connection, some wait for a request, and some send their SETTINGS. The first two look like an
// empty list, which every hour would hide the mistake. So after an end that a feedback gateway need not
// have, the server is asked by ALPN whether it would speak HTTP/2. That handshake is never completed: a
// feedback gateway has no client then, and its list stays.
//
// An empty list that ended with close_notify is no such end: gateways without news end so.

import APNsProtocol
import SecureTransport

extension FeedbackReader {
    /// The port in the settings is one of HTTP/2. Nil when the end of reading gives no reason to ask,
    /// or the server does not choose HTTP/2.
    ///
    /// - Parameter start: the first bytes that the server sent.
    func http2Server(after reading: FeedbackReading, start: [UInt8]) -> TransportFailure? {
        let isHTTP2 = HTTP2Start.isSettings(start)
        guard isHTTP2 || Self.isOdd(reading), isHTTP2 || choosesHTTP2 else { return nil }
        return TransportFailure(
            .wrongProtocol,
            "reading \(host):\(port): the server speaks HTTP/2, as providers do, and not the feedback "
                + "protocol; give its address to provider, or correct the host and the port of feedback"
        )
    }

    /// Whether a feedback gateway with an empty list would hardly end so.
    private static func isOdd(_ reading: FeedbackReading) -> Bool {
        switch reading {
        case .captured(let end, let bytes):
            bytes == 0 && [.cut, .reset, .idle, .broken].contains(end)
        case .unreachable(let failure):
            [.reset, .closedEarly, .protocolError, .wrongProtocol].contains(failure.code)
        case .stopped, .misdirected: false
        }
    }

    private var choosesHTTP2: Bool {
        guard let addresses = try? NameResolution.resolve(host: host, port: port) else {
            return false
        }
        for address in addresses {
            let name = try? TLSConnection.protocolChosen(
                by: address, hostName: hostName, context: context, offering: ["h2"],
                connectDeadline: .in(limits.connect), handshakeTimeout: limits.handshake,
                interrupt: interrupt)
            if let name { return name == "h2" }
        }
        return false
    }
}

/// The start of what an HTTP/2 server sends.
enum HTTP2Start {
    /// Number of bytes of a frame's header (RFC 9113 section 4.1).
    static let length = 9

    /// Whether bytes start with the SETTINGS with which every server begins (RFC 9113 section 3.4): a
    /// length that is a multiple of 6, type 4, no flags, stream 0. As a feedback tuple it would name a
    /// token without bytes, so no list starts so.
    static func isSettings(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= length else { return false }
        let size = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        return size % 6 == 0 && size <= 16_384 && bytes[3] == 4
            && bytes[4..<length].allSatisfy { $0 == 0 }
    }
}

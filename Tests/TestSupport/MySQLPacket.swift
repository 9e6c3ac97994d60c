/// Packets of a rogue MySQL server (MySQL client/server protocol).
package enum MySQLPacket {
    /// The first packet of a server, with or without the capability TLS.
    package static func greeting(offersTLS: Bool) -> [UInt8] {
        var body: [UInt8] = [10] + Array("5.7.0-plain".utf8) + [0, 1, 0, 0, 0]
        body += Array("abcdefgh".utf8) + [0]
        // CLIENT_PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_WITH_DB; CLIENT_SSL.
        let capabilities: UInt32 = 0x0008_820B | (offersTLS ? 0x0800 : 0)
        body += [UInt8(capabilities & 0xFF), UInt8(capabilities >> 8 & 0xFF), 33, 2, 0]
        body += [UInt8(capabilities >> 16 & 0xFF), UInt8(capabilities >> 24), 21]
        body += [UInt8](repeating: 0, count: 10) + Array("ijklmnopqrst".utf8) + [0]
        body += Array("mysql_native_password".utf8) + [0]
        return packet(0, body)
    }

    /// The request to authenticate with another plugin, as packet `number` of the conversation.
    package static func switchTo(_ plugin: String, number: UInt8) -> [UInt8] {
        packet(number, [0xFE] + Array(plugin.utf8) + [0])
    }

    /// The error with which a server answers a caller in place of a greeting.
    package static func refusal(_ code: UInt16, _ message: String) -> [UInt8] {
        packet(0, [0xFF, UInt8(code & 0xFF), UInt8(code >> 8)] + Array(message.utf8))
    }

    private static func packet(_ number: UInt8, _ body: [UInt8]) -> [UInt8] {
        [UInt8(body.count & 0xFF), UInt8(body.count >> 8), 0, number] + body
    }
}

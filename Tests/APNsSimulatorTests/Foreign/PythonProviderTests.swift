import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The provider service with Python clients of other projects")
struct PythonProviderTests {
    private static let hasAioapns = PythonClients.have("aioapns")

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Sends to 200 tokens, some of them dead or wrong, and compares each answer with the script.
    private func compare(_ program: String) throws {
        var script = ProviderScript()
        script.shares = [
            .init(
                millionths: 200_000,
                action: .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))),
            .init(millionths: 100_000, action: .reply(ScriptedReply(.badDeviceToken))),
        ]
        let service = try ProviderGateway.start(script)
        let certificates = try shared.get().certificates
        let both = try folder.write(
            "both.pem",
            try [certificates.certificate(.client), certificates.key(.client)].map {
                try String(contentsOfFile: $0, encoding: .utf8)
            }.joined())
        let result = try PythonClients.start(
            [
                try folder.write("client.py", program), both, certificates.authority,
                "\(service.port)",
            ] + (1...200).map { Numbered.token($0).hex }
        ).wait()
        #expect(result.exit == 0, "\(result.error)")
        let seen = result.json as? [String: String] ?? [:]
        #expect(seen.count == 200)
        for (hex, answer) in seen {
            guard
                case .reply(let reply) = script.action(
                    for: try DeviceToken(spelling: hex), number: 0)
            else { continue }
            let reason =
                String(decoding: reply.body, as: UTF8.self).split(separator: "\"")
                .dropFirst(3).first ?? ""
            #expect(answer == "\(reply.status) \(reason)")
        }
        #expect(service.log.requestsByToken.values.allSatisfy { $0 == 1 })
    }

    @Test(
        "aioapns gets each scripted answer once",
        .enabled(if: hasAioapns, Comment(rawValue: PythonClients.absence(of: "aioapns"))))
    func aioapns() throws {
        try compare(
            """
            import asyncio, json, logging, ssl, sys
            from aioapns import APNs, NotificationRequest
            from aioapns.connection import APNsProductionClientProtocol
            cert, ca, port = sys.argv[1:4]
            APNsProductionClientProtocol.APNS_SERVER = 'localhost'
            APNsProductionClientProtocol.APNS_PORT = int(port)
            logging.disable(logging.CRITICAL)
            async def main():
                # Its own context offers no protocol (RFC 9113 section 3.2), and the gateway wants h2.
                context = ssl.create_default_context(cafile=ca)
                context.set_alpn_protocols(['h2'])
                apns = APNs(client_cert=cert, topic='com.example.chat', ssl_context=context)
                async def send(token):
                    request = NotificationRequest(token, {'aps': {'alert': 'hi'}})
                    answer = await apns.send_notification(request)
                    return token, f"{answer.status} {answer.description or ''}"
                print(json.dumps(dict(await asyncio.gather(*map(send, sys.argv[4:])))))
            asyncio.run(main())
            """)
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("The provider service with clients of other projects")
struct ForeignClientTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test(
        "h2load gets 200 for each of ten thousand notifications on two connections",
        .enabled(
            if: ForeignProgram.h2load.isInstalled, Comment(rawValue: ForeignProgram.h2load.absence))
    )
    func h2load() throws {
        let key = try SigningKey()
        let service = try ProviderGateway(
            certificates: try shared.get().certificates,
            rules: ProviderRules(
                authentication: .token([
                    "ABC123DEFG": .init(key: key.verificationKey, teamID: "DEF123GHIJ")
                ]), script: ProviderScript()), keepsRecords: false)
        let claims = try ProviderTokenClaims(
            keyID: "ABC123DEFG", teamID: "DEF123GHIJ",
            issuedAt: EpochSeconds(UInt32(Date().timeIntervalSince1970)))
        let token = try claims.text(signature: key.signature(of: claims.signingInput))
        let body = try folder.write("payload", #"{"aps":{"alert":"hi"}}"#)
        let result = try ForeignProgram.h2load.run([
            "-n", "10000", "-c", "2", "-m", "200", "-d", body,
            "-H", "apns-topic: com.example.chat", "-H", "authorization: bearer \(token)",
            "https://127.0.0.1:\(service.port)/3/device/\(FeedbackVector.tutorialHex)",
        ])
        #expect(result.exit == 0, "\(result.error)")
        #expect(
            result.output.contains("status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx"),
            "\(result.output)")
        service.stop()
        #expect(service.log.totals.answered == [200: 10_000])
    }

    @Test(
        "Node.js gets each scripted answer, with a certificate, over one connection",
        .enabled(
            if: ForeignProgram.node.isInstalled, Comment(rawValue: ForeignProgram.node.absence)))
    func node() throws {
        var script = ProviderScript()
        script.shares = [
            .init(
                millionths: 200_000,
                action: .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))),
            .init(millionths: 100_000, action: .reset(.refusedStream)),
        ]
        let service = try ProviderGateway.start(script)
        let certificates = try shared.get().certificates
        let program = try folder.write("client.js", Self.client)
        let result = try ForeignProgram.node.run([
            program, "\(service.port)", certificates.certificate(.client),
            certificates.key(.client), certificates.authority,
        ])
        #expect(result.exit == 0, "\(result.error)")
        let seen = result.json as? [String: String] ?? [:]
        #expect(seen.count == 1_000)
        for (hex, answer) in seen {
            let token = try DeviceToken(spelling: hex)
            switch script.action(for: token, number: 0) {
            case .reply(let reply):
                #expect(answer == "\(reply.status) \(String(decoding: reply.body, as: UTF8.self))")
            default: #expect(answer == "NGHTTP2_REFUSED_STREAM")
            }
        }
    }

    /// Sends to a thousand tokens at once and prints the answer for each.
    private static let client = """
        const http2 = require('http2'), fs = require('fs');
        const [port, cert, key, ca] = process.argv.slice(2);
        const session = http2.connect(`https://localhost:${port}`, {
          cert: fs.readFileSync(cert), key: fs.readFileSync(key), ca: fs.readFileSync(ca),
        });
        const seen = {};
        let open = 1000;
        function done(hex, what) {
          seen[hex] = what;
          if (--open == 0) { session.close(); console.log(JSON.stringify(seen)); }
        }
        for (let number = 0; number < 1000; number++) {
          const hex = require('crypto').createHash('sha256').update(`${number}`).digest('hex');
          const request = session.request({
            ':method': 'POST', ':path': `/3/device/${hex}`, 'apns-topic': 'com.example.chat',
          });
          let status = 0, body = '', failure = null;
          request.on('response', (headers) => status = headers[':status']);
          request.on('data', (data) => body += data);
          request.on('error', (error) => failure = /NGHTTP2_\\w+/.exec(error.message)[0]);
          request.on('close', () => done(hex, failure || `${status} ${body}`));
          request.end('{"aps":{"alert":"hi"}}');
        }
        """
}

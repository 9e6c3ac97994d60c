import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

@Suite(
    "Sending to a gateway of Node.js",
    .enabled(if: ForeignProgram.node.isInstalled, Comment(rawValue: ForeignProgram.node.absence)))
struct ForeignGatewayTests {
    @Test("every row gets the answer of its token, over connections that end with GOAWAY")
    func answers() throws {
        let stage = try SendStage()
        let gateway = try NodeGateway(
            in: stage.folder,
            answer: """
                (stream, path, count) => {
                  if (path.endsWith('7')) {
                    stream.respond({':status': 410});
                    stream.write('{"reason":"Unregistered",');
                    stream.end('"timestamp":1700000000123}');
                  } else {
                    stream.respond({':status': 200}, {endStream: true});
                  }
                  if (count % 1000 == 0) stream.session.close();
                }
                """)
        stage.port = gateway.port
        try stage.database.register(0..<3_000, at: registered)
        try stage.queue(0..<3_000)
        let result = try stage.send()
        #expect(result.exit == 3 || result.exit == 0, "\(result.error)")
        let sevens = (0..<3_000).filter { DeviceToken.numbered($0).hex.hasSuffix("7") }
        #expect(sevens.count > 50)
        #expect(try stage.states() == ["sent": 3_000 - sevens.count, "gone": sevens.count])
        let gone = try stage.database.texts(
            "SELECT device_token FROM push_queue WHERE state = 'gone' ORDER BY id")
        #expect(gone.map { $0[0] } == sevens.map { DeviceToken.numbered($0).hex })
        _ = gateway.port
    }

    @Test("a wrong clock ends the sender with 78, which names both times and loses no row")
    func clock() throws {
        let stage = try SendStage()
        let gateway = try NodeGateway(
            in: stage.folder,
            answer: """
                (stream) => {
                  const date = new Date(Date.now() + 7200000).toUTCString();
                  stream.respond({':status': 403, 'date': date});
                  stream.end('{"reason":"ExpiredProviderToken"}');
                }
                """, requiresCertificate: false)
        stage.port = gateway.port
        let key = stage.folder.file("key.p8")
        try CertificateMint.write(try SigningKey().pem(), to: key, mode: 0o600)
        stage.credential =
            "token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}"
        try stage.database.register(0..<100, at: registered)
        try stage.queue(0..<100)
        try stage.send().ends(78, "clock")
        #expect(try stage.states() == ["pending": 100])
        _ = gateway.port
    }
}

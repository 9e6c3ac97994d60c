import APNsSimulator
import Foundation
import TestSupport

/// A gateway over the module http2 of Node.js. It answers 410 to tokens whose last hex digit is 7,
/// sends GOAWAY after each thousandth request, and reports its requests at the end.
final class NodeGateway {
    let port: UInt16
    private let running: RunningTool

    /// `answer` is a function of JavaScript that answers one request: `(stream, path) => …`.
    init(in folder: TemporaryFolder, answer: String, requiresCertificate: Bool = true) throws {
        let certificates = try SweepStage.certificates.get()
        let script = try folder.write("gateway.js", Self.script(answer))
        running = try ForeignProgram.node.start([
            script, certificates.certificate(.server), certificates.key(.server),
            certificates.authority, requiresCertificate ? "yes" : "no",
        ])
        guard let line = running.firstLine(), let port = UInt16(line) else {
            throw TestFailure("node did not listen: \(running.wait().error)")
        }
        self.port = port
    }

    deinit { end() }

    private func end() {
        // It inherits blocked signals from the thread that started it, so only SIGKILL ends it.
        running.signal(SIGKILL)
        _ = running.wait()
    }

    private static func script(_ answer: String) -> String {
        """
        const http2 = require('http2'), fs = require('fs');
        const [cert, key, ca, asks] = process.argv.slice(2);
        const answer = \(answer);
        let count = 0;
        const server = http2.createSecureServer({
          cert: fs.readFileSync(cert), key: fs.readFileSync(key), ca: fs.readFileSync(ca),
          requestCert: asks == 'yes', rejectUnauthorized: asks == 'yes',
        });
        server.on('stream', (stream, headers) => {
          stream.on('error', () => {});
          let body = '';
          stream.on('data', (data) => body += data);
          stream.on('end', () => {
            JSON.parse(body);
            answer(stream, headers[':path'], ++count);
          });
        });
        server.listen(0, '127.0.0.1', () => console.log(server.address().port));
        """
    }
}

import APNsSimulator
import Foundation

@testable import SecureTransport

/// Debian's HTTP/2 programs: peers that we did not write.
enum HTTP2Program: String {
    case nghttpd = "/usr/sbin/nghttpd"
    case nghttpx = "/usr/sbin/nghttpx"

    var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: rawValue) }

    /// The message of skipped tests.
    static let absence =
        "nghttpd and nghttpx are not installed: apt-get install nghttp2-server "
        + "nghttp2-proxy"
    static var areInstalled: Bool { nghttpd.isInstalled && nghttpx.isInstalled }
}

/// A running program of that kind on a free port of loopback, ended with the object.
final class HTTP2ForeignServer {
    let port: UInt16
    private let process = Process()

    private init(_ program: HTTP2Program, port: UInt16, _ arguments: [String]) throws {
        self.port = port
        process.executableURL = URL(fileURLWithPath: program.rawValue)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        // It inherits blocked signals from the thread that started it, so only SIGKILL ends it.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// A port that was free a moment ago.
    private static func freePort() throws -> UInt16 { try TLSListener().port }

    /// Over TLS: answers 404 to everything, and echoes posted bodies on request.
    static func nghttpd(_ authority: Authority, echoes: Bool) throws -> HTTP2ForeignServer {
        let port = try freePort()
        let (certificate, key) = try files(authority)
        return try HTTP2ForeignServer(
            .nghttpd, port: port,
            ["-a", "127.0.0.1", "-m", "1000", "-d", authority.workshop.path]
                + (echoes ? ["--echo-upload"] : []) + ["\(port)", key, certificate])
    }

    /// Without TLS, as the server behind a proxy.
    static func plainNghttpd(_ authority: Authority) throws -> HTTP2ForeignServer {
        let port = try freePort()
        return try HTTP2ForeignServer(
            .nghttpd, port: port,
            [
                "-a", "127.0.0.1", "--no-tls", "--echo-upload", "-d", authority.workshop.path,
                "\(port)",
            ])
    }

    /// A proxy with TLS before a server without it.
    static func nghttpx(
        _ authority: Authority, before backend: HTTP2ForeignServer
    ) throws -> HTTP2ForeignServer {
        let port = try freePort()
        let (certificate, key) = try files(authority)
        let settings = try authority.workshop.write([], to: "nghttpx.conf")
        return try HTTP2ForeignServer(
            .nghttpx, port: port,
            [
                "--single-process", "--conf=\(settings)", "--frontend=127.0.0.1,\(port)",
                "--backend=127.0.0.1,\(backend.port);;proto=h2", "--no-ocsp",
                "--errorlog-file=/dev/null", "--accesslog-file=/dev/null", key, certificate,
            ])
    }

    private static func files(_ authority: Authority) throws -> (String, String) {
        let (certificate, key) = (
            authority.workshop.file("server.pem"), authority.workshop.file("server.key")
        )
        try authority.minter.issue(.server()).write(certificate: certificate, key: key)
        return (certificate, key)
    }

    /// Connects as soon as it listens.
    func connect(_ authority: Authority) throws -> TLSConnection {
        let deadline = Deadline.in(patience)
        let pause = try Interrupt()
        let context = try authority.client(alpn: ["h2"])
        let address = try NameResolution.resolve(host: "127.0.0.1", port: port)[0]
        while true {
            let attempt = Result { () throws(TransportFailure) in
                try TLSConnection.connect(
                    to: address, hostName: "localhost", context: context,
                    connectDeadline: deadline, handshakeTimeout: patience)
            }
            if case .failure(let failure) = attempt, failure.code == .connectionRefused,
                !deadline.hasPassed
            {
                _ = pause.wait(until: .in(.milliseconds(10)))
            } else {
                return try attempt.get()
            }
        }
    }
}

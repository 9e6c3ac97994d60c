import APNsSimulator
import Encodings
import Foundation
import SecureTransport
import TestSupport
import Testing

/// The executables are built into the directory of the test's own.
func executable(_ name: String) -> URL {
    URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
        .appendingPathComponent(name)
}

/// A run of `apns-simulator` whose lines of output can be waited for.
final class Run {
    private let process = Process()
    private let output = Pipe()
    private var pending = Data()

    /// Starts it with signals blocked, as Foundation starts processes here, or as a shell does.
    init(_ arguments: [String], fromShell: Bool = false) throws {
        let program = executable("apns-simulator")
        process.executableURL = fromShell ? URL(filePath: "/usr/bin/python3") : program
        let unblock = """
            import os, signal, sys
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execv(sys.argv[1], sys.argv[1:])
            """
        process.arguments = (fromShell ? ["-c", unblock, program.path] : []) + arguments
        process.standardOutput = output
        process.standardError = Pipe()
        try process.run()
    }

    deinit {
        if process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
    }

    /// The next line as JSON; nil at the end.
    func line() throws -> [String: Any]? {
        while true {
            if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                let line = pending[..<end]
                pending = Data(pending[(end + 1)...])
                return try JSONSerialization.jsonObject(with: line) as? [String: Any]
            }
            let more = output.fileHandleForReading.availableData
            if more.isEmpty {
                return nil
            }
            pending.append(more)
        }
    }

    /// Connects to where a greeting says that it listens.
    static func connect(_ greeting: [String: Any]) throws -> TLSConnection {
        let port = (greeting["listening"] as? String)?.split(separator: ":").last
            .flatMap { UInt16($0) }
        let addresses = try NameResolution.resolve(host: "127.0.0.1", port: try #require(port))
        let directory = URL(fileURLWithPath: greeting["ca"] as? String ?? "")
            .deletingLastPathComponent().path
        return try SimulatorCertificates(directory: directory).connect(to: addresses[0])
    }

    /// The most memory it has used so far, in KiB (proc(5), VmHWM).
    func peakMemory() throws -> Int? {
        let status = try String(
            contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
        return status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
            .flatMap { Int($0.filter(\.isNumber)) }
    }

    func interrupt() {
        process.interrupt()
    }

    func terminate() {
        process.terminate()
    }

    func status() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}

/// A client that is independent of our code. It sends bytes, and reads to the end.
func foreignClient(
    _ greeting: [String: Any], _ options: [String] = [], sending bytes: [UInt8] = []
) throws -> Data {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
    let (address, ca) = (greeting["listening"] as? String, greeting["ca"] as? String)
    process.arguments =
        [
            "s_client", "-quiet", "-connect", address ?? "", "-CAfile", ca ?? "",
            "-verify_return_error", "-verify_hostname", "localhost",
        ] + options
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    process.standardError = Pipe()
    try process.run()
    try input.fileHandleForWriting.write(contentsOf: bytes)
    let data = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    try input.fileHandleForWriting.close()
    return data
}

/// The options of the client's certificate.
func identity(_ greeting: [String: Any]) -> [String] {
    [
        "-cert", greeting["certificate"] as? String ?? "",
        "-key", greeting["key"] as? String ?? "",
    ]
}

@Suite("The apns-simulator command")
struct CommandTests {

    @Test("openssl s_client gets the list once, each connection prints a line, --once ends the run")
    func foreign() throws {
        let folder = try TemporaryFolder()
        let vector = FeedbackVector.all[0]
        let hex = Hex.text(vector.bytes)
        let run = try Run([
            "feedback", "--directory", folder.file("c"), "--hex", hex, "--once",
        ])
        let greeting = try #require(try run.line())
        #expect(try foreignClient(greeting).isEmpty)
        let refused = try #require(try run.line())
        #expect(refused["end"] as? String == "handshake-failed")
        #expect(try Array(foreignClient(greeting, identity(greeting))) == vector.bytes)
        let served = try #require(try run.line())
        #expect(served["bytes"] as? Int == vector.bytes.count)
        #expect(served["list"] as? Int == 0)
        #expect(served["end"] as? String == "close-notify")
        #expect(try run.line() == nil)
        #expect(run.status() == 0)
    }

    @Test(
        "SIGTERM and SIGINT end the command with status 0, also one that a shell started",
        arguments: [false, true])
    func signals(fromShell: Bool) throws {
        let folder = try TemporaryFolder()
        for stop in [Run.terminate, Run.interrupt] {
            let run = try Run(
                [
                    "feedback", "--directory", folder.file("c"), "--generate", "10",
                    "--ending", "hold-open",
                ], fromShell: fromShell)
            _ = try #require(try run.line())
            stop(run)()
            #expect(run.status() == 0)
        }
    }

    @Test("the options select the behaviour of the gateway")
    func flags() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("tuples", "1 aabb\n2 ccdd\n")
        let run = try Run([
            "feedback", "--directory", folder.file("c"), "--tuples", file, "--repeat",
            "--close-after", "10", "--write-size", "3", "--tls-max", "1.2",
        ])
        let greeting = try #require(try run.line())
        for _ in 1...2 {
            let seen = try foreignClient(greeting, identity(greeting))
            #expect(Array(seen) == [0, 0, 0, 1, 0, 2, 0xaa, 0xbb, 0, 0])
            #expect(try run.line()?["tls"] as? String == "TLSv1.2")
        }
    }

    @Test(
        "the gateway serves millions of tuples with little memory",
        .disabled(if: Environment.isSanitized, "a sanitizer needs more than is measured"))
    func flatMemory() throws {
        let folder = try TemporaryFolder()
        let feed = GeneratedList(count: 2_000_000, seed: 3)
        let run = try Run([
            "feedback", "--directory", folder.file("c"), "--seed", "3", "--generate",
            "\(feed.count)",
        ])
        let greeting = try #require(try run.line())
        let connection = try Run.connect(greeting)
        connection.discardUntilEnd(deadline: .never)
        connection.close()
        #expect(try run.line()?["bytes"] as? Int == feed.encodedLength)
        let peak = try #require(try run.peakMemory())
        #expect(peak < 48 * 1024, "\(peak) KiB")
    }

    @Test("the command makes certificates once, uses them again and keeps the keys private")
    func certificates() throws {
        let folder = try TemporaryFolder()
        let directory = folder.file("c")
        let first = try SimulatorCertificates(directory: directory)
        let print = try first.identity(.client).fingerprint
        let run = try Run(["certificates", "--directory", directory])
        let paths = try #require(try run.line())
        #expect(run.status() == 0)
        #expect(paths["certificate"] as? String == first.certificate(.client))
        #expect(try first.identity(.client).fingerprint == print)
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let attributes = try FileManager.default.attributesOfItem(
                atPath: "\(directory)/\(name)")
            let isPublic = name.hasSuffix(".pem")
            #expect(
                attributes[.posixPermissions] as? Int == (isPublic ? 0o644 : 0o600), "\(name)")
        }
        try FileManager.default.removeItem(atPath: first.key(.server))
        let again = try SimulatorCertificates(directory: directory)
        #expect(try again.identity(.client).fingerprint != print)
    }

    @Test(
        "a wrong option is a usage error, a missing list a failure",
        arguments: [
            (["--write-size", "0"], 64), (["--generate", "-1"], 64), (["--hex", "abc"], 1),
            (["--feed", "/nonexistent"], 1),
        ] as [([String], Int32)])
    func mistakes(options: [String], status: Int32) throws {
        let folder = try TemporaryFolder()
        let run = try Run(["feedback", "--directory", folder.file("c")] + options)
        #expect(run.status() == status)
    }
}

// The client's cost of a request over HTTP/2, including the provider, compared with h2load, the load
// generator of the nghttp2 project. The server is nghttpd in a separate process on the second core;
// the client has the first. One TLS connection, 1000 streams, a payload of 200 bytes, a bearer token
// of 200, a separate path for each request and, for our client, a separate apns-id (h2load can only
// repeat one). nghttpd ignores the part of a path after a question mark, so one empty file answers 98
// % of the requests with 200. A name that does not exist gives the other 2 % a failure with a body,
// as 410 has.

import APNsSimulator
import Foundation
import SecureTransport

/// The figure `send-session`.
struct SendSessionBenchmark {
    private let context: BenchmarkContext
    private let requests: Int
    private let place: BenchmarkFolder
    private let certificates: SimulatorCertificates

    init(_ context: BenchmarkContext) throws {
        self.context = context
        requests = context.scaled(100_000)
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    private static let payload = String(repeating: "p", count: 200)
    private static let bearer = "bearer " + String(repeating: "t", count: 193)
    private static let server = "/usr/sbin/nghttpd"
    private static let reference = "/usr/bin/h2load"
    private static let oneInSoMany = 50

    /// CPU seconds for 100,000 requests, alternately ours and h2load's; medians.
    func run() throws -> Figure {
        for program in [Self.server, Self.reference]
        where !FileManager.default.isExecutableFile(atPath: program) {
            throw BenchmarkFailure(
                description: "\(program) is missing; install nghttp2-server and nghttp2-client")
        }
        let port = try start()
        defer {
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
        }
        let load = try ProviderLoad(
            port: port, authority: certificates.authority, root: place.file("root"),
            payload: Self.payload)
        var ours: [Double] = []
        var bare: [Double] = []
        var theirs: [Double] = []
        // The first round warms the caches and does not count.
        for round in 0...context.runs {
            context.note("send-session: round \(round) of \(context.runs)")
            theirs.append(try h2load(port))
            bare.append(try session(port))
            ours.append(try pinned { try load.send(requests) } * 100_000 / Double(requests))
        }
        let ratio = median(zip(ours, theirs).dropFirst().map { $0 / $1 })
        return Figure(
            name: "send-session", value: median(Array(ours.dropFirst())),
            unit: "CPU s per 100,000 requests", reference: median(Array(theirs.dropFirst())),
            ratio: ratio, target: "at most 1.2 of h2load", met: ratio <= 1.2,
            extra: ["session-alone": median(Array(bare.dropFirst()))])
    }

    /// Runs a body on the first core.
    private func pinned<R>(_ work: () throws -> R) throws -> R {
        let pin = try CorePin(core: 0)
        defer { withExtendedLifetime(pin) {} }
        return try work()
    }

    private let server = Process()

    /// Starts nghttpd on the second core.
    private func start() throws -> UInt16 {
        let root = place.file("root")
        try FileManager.default.createDirectory(
            atPath: root, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: root + "/d"))
        // The port of a listener that is closed again.
        let port = try TLSListener().port
        server.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
        server.arguments = [
            "-c", "1", Self.server, "-a", "127.0.0.1", "-m", "1000", "-d", root, "\(port)",
            certificates.key(.server), certificates.certificate(.server),
        ]
        server.standardOutput = FileHandle.nullDevice
        try server.run()
        let deadline = Deadline.in(.seconds(10))
        let pause = try Interrupt()
        while (try? connect(port)) == nil {
            guard !deadline.hasPassed else {
                throw BenchmarkFailure(description: "nghttpd does not listen on port \(port)")
            }
            _ = pause.wait(until: .in(.milliseconds(20)))
        }
        return port
    }

    private func connect(_ port: UInt16) throws -> TLSConnection {
        guard let address = try NameResolution.resolve(host: "127.0.0.1", port: port).first else {
            throw BenchmarkFailure(description: "127.0.0.1 has no address")
        }
        return try TLSConnection.connect(
            to: address, hostName: "127.0.0.1",
            context: TLSClientContext(trust: .file(certificates.authority), alpn: ["h2"]),
            connectDeadline: .in(.seconds(5)), handshakeTimeout: .seconds(5), interrupt: nil)
    }

    private func h2load(_ port: UInt16) throws -> Double {
        let list = place.file("uris")
        let uris = (0..<1000).map { "https://127.0.0.1:\(port)\(Self.path($0))" }
        try uris.joined(separator: "\n").write(toFile: list, atomically: true, encoding: .utf8)
        let payload = place.file("payload")
        try Self.payload.write(toFile: payload, atomically: true, encoding: .utf8)
        let finished = try FinishedProcess(
            path: "/usr/bin/taskset",
            [
                "-c", "0", Self.reference, "-n", "\(requests)", "-c", "1", "-m", "1000", "-t", "1",
                "-i", list, "-d", payload, "-H", "authorization: \(Self.bearer)",
                "-H", "apns-topic: com.example.chat", "-H", "apns-push-type: alert",
                "-H", "apns-priority: 10", "-H", "apns-expiration: 0",
                "-H", "apns-id: 01234567-89ab-4def-8123-456789abcdef",
            ])
        guard finished.exit == 0 else {
            throw BenchmarkFailure(description: "h2load ended with \(finished.exit)")
        }
        return finished.cpuMilliseconds / 1e3 * 100_000 / Double(requests)
    }

    /// A path; every fiftieth is for a device that is gone.
    private static func path(_ number: Int) -> String {
        (number % oneInSoMany == 0 ? "/gone?" : "/d?") + hexadecimal(number, 64)
    }

    private static func hexadecimal(_ number: Int, _ length: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "7", count: length - digits.count) + digits
    }

    private func session(_ port: UInt16) throws -> Double {
        let (time, answered) = try pinned {
            let began = processorTime()
            let answered = try drive(try connect(port))
            return (processorTime() - began, answered)
        }
        let gone = (requests + Self.oneInSoMany - 1) / Self.oneInSoMany
        guard answered == [200: requests - gone, 404: gone] else {
            throw BenchmarkFailure(description: "wrong answers: \(answered)")
        }
        return time * 100_000 / Double(requests)
    }

    /// Sends all requests and counts the answers by status.
    private func drive(_ connection: TLSConnection) throws -> [Int: Int] {
        let session = try HTTP2ClientSession(connection)
        var request = HTTP2Request(Self.template)
        let payload = Array(Self.payload.utf8)
        var hexadecimal = Array(Self.hexadecimal(0, 64).utf8)
        var identifier = Array("00000000-89ab-4def-8123-456789abcdef".utf8)
        var (next, good, gone) = (0, 0, 0)
        while good + gone < requests {
            while next < requests, session.room > 0 {
                request.reset()
                Self.count(next, in: &hexadecimal, at: 56)
                Self.count(next, in: &identifier, at: 0)
                request.append((next % Self.oneInSoMany == 0 ? "/gone?" : "/d?").utf8)
                request.append(hexadecimal)
                request.endValue()
                request.append(identifier)
                request.endValue()
                request.append(payload)
                guard session.submit(request, key: UInt64(next)) else { break }
                next += 1
            }
            guard session.exchange(until: .in(.seconds(30))) == .outcomes else {
                throw BenchmarkFailure(
                    description: "\(session.closed.map(\.description) ?? "idle")")
            }
            for outcome in session.outcomes.outcomes {
                if outcome.kind == .response(status: 200) {
                    good += 1
                } else if outcome.kind == .response(status: 404), outcome.bodyLength > 0 {
                    gone += 1
                } else {
                    throw BenchmarkFailure(description: "\(outcome.kind)")
                }
            }
        }
        session.close()
        return [200: good, 404: gone]
    }

    /// Writes a number as eight hexadecimal digits.
    private static func count(_ number: Int, in text: inout [UInt8], at start: Int) {
        for place in 0..<8 {
            let digit = UInt8(truncatingIfNeeded: number >> (28 - 4 * place)) & 15
            text[start + place] = digit < 10 ? digit + 48 : digit + 87
        }
    }

    private static var template: HTTP2RequestTemplate {
        HTTP2RequestTemplate([
            HTTP2Field(":method", "POST"), HTTP2Field(":scheme", "https"),
            HTTP2Field(":authority", "127.0.0.1"), .perRequest(":path"),
            HTTP2Field("authorization", bearer, isIndexed: false),
            HTTP2Field("apns-topic", "com.example.chat"), HTTP2Field("apns-push-type", "alert"),
            HTTP2Field("apns-priority", "10"), HTTP2Field("apns-expiration", "0"),
            .perRequest("apns-id"),
        ])
    }
}

/// Keeps this process on one core as long as the object lives.
private final class CorePin {
    private let cores = ProcessInfo.processInfo.activeProcessorCount

    init(core: Int) throws { try Self.pin(to: "\(core)") }

    deinit { try? Self.pin(to: "0-\(cores - 1)") }

    private static func pin(to cores: String) throws {
        let finished = try FinishedProcess(
            path: "/usr/bin/taskset", ["-a", "-c", "-p", cores, "\(getpid())"])
        guard finished.exit == 0 else {
            throw BenchmarkFailure(description: "this process cannot be kept on cores \(cores)")
        }
    }
}

// The client's cost of the binary interface: 100,000 notifications from the queue of the provider to the
// last byte at the gateway, against one write of the same bytes over TLS. The gateway is a thread that
// reads and drops all it gets, so both have the same other side. The waits are no part of the figure:
// that for error packets is a setting, and that for the refusal of a certificate comes once.

import APNsConnection
import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization

/// The figure `send-binary`.
struct SendBinaryBenchmark {
    /// The notifications on their way at once, as `pushsweep send` has them.
    private static let window = 20_000
    /// The notifications of one list handed over.
    private static let batch = 1_000
    /// The bytes of one raw write: as in the provider.
    private static let piece = 64 << 10

    private let context: BenchmarkContext
    private let count: Int
    private let certificates: SimulatorCertificates
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        count = context.scaled(100_000)
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    /// Notifications per second, alternately ours and the raw write's; medians.
    func run() throws -> Figure {
        let notifications = try (0..<count).map(Self.notification)
        var bytes: [UInt8] = []
        for (number, item) in notifications.enumerated() {
            try BinaryFrame(
                .framed, identifier: UInt32(number + 1), expiration: 0, priority: .immediate,
                token: item.token, payload: item.payload
            ).encode(into: &bytes)
        }
        // A sender hands over lists that it has made from rows.
        let batches = stride(from: 0, to: count, by: Self.batch).map {
            Array(notifications[$0..<min($0 + Self.batch, count)])
        }
        var ours: [Double] = []
        var raw: [Double] = []
        for round in 0...context.runs {
            context.note("send-binary: round \(round) of \(context.runs)")
            raw.append(Double(count) / (try write(bytes)))
            ours.append(Double(count) / (try send(notifications[0], batches, bytes.count)))
        }
        let ratio = median(zip(ours, raw).dropFirst().map { $0 / $1 })
        return Figure(
            name: "send-binary", value: median(Array(ours.dropFirst())),
            unit: "notifications/s", reference: median(Array(raw.dropFirst())), ratio: ratio,
            target: "at least 0.5 of a raw write", met: ratio >= 0.5)
    }

    private static func notification(_ number: Int) throws -> PushNotification {
        var bytes = [UInt8](repeating: 0x77, count: 32)
        withUnsafeBytes(of: UInt32(number).bigEndian) { bytes.replaceSubrange(28..., with: $0) }
        guard let token = DeviceToken(bytes) else { preconditionFailure("32 bytes are a token") }
        return PushNotification(
            key: UInt64(number), token: token, id: APNsID(high: 0, low: UInt64(number)),
            headers: NotificationHeaders(priority: 10, expiration: 0),
            payload: Array(
                (#"{"aps":{"alert":""# + String(repeating: "p", count: 200) + #""}}"#).utf8)
        )
    }

    /// Seconds until the gateway has read all bytes of one writer.
    private func write(_ bytes: [UInt8]) throws -> Double {
        let drain = try Drain(certificates)
        let connection = try ProviderPlan.local(drain.port, certificates).connect(
            Interrupt())
        let began = DispatchTime.now().uptimeNanoseconds
        try bytes.withUnsafeBytes { buffer in
            for start in stride(from: 0, to: buffer.count, by: Self.piece) {
                let end = min(start + Self.piece, buffer.count)
                try connection.write(
                    UnsafeRawBufferPointer(rebasing: buffer[start..<end]),
                    deadline: .in(.seconds(60)))
            }
        }
        let ended = try drain.time(of: bytes.count)
        connection.close()
        return Double(ended - began) / 1e9
    }

    /// Seconds until the gateway has read all frames of the provider, after a first one that connects.
    private func send(
        _ first: PushNotification, _ batches: [[PushNotification]], _ bytes: Int
    ) throws -> Double {
        let drain = try Drain(certificates)
        let provider = try Provider(.local(drain.port, certificates))
        provider.submit([first])
        while provider.outcomes(within: 1_000).isEmpty {
            if let failure = provider.failure { throw failure }
        }
        let before = try drain.bytes(after: 1)
        let began = DispatchTime.now().uptimeNanoseconds
        var (given, settled) = (0, 0)
        var rest = batches[...]
        while settled < count {
            if let batch = rest.first, given - settled + batch.count <= Self.window {
                provider.submit(batch)
                given += batch.count
                rest = rest.dropFirst()
            }
            let mayGive = rest.first.map { given - settled + $0.count <= Self.window } ?? false
            for outcome in provider.outcomes(within: mayGive ? 0 : 20) {
                guard outcome.kind == .accepted else {
                    throw BenchmarkFailure(description: "\(outcome.kind)")
                }
                settled += 1
            }
            if let failure = provider.failure { throw failure }
        }
        let ended = try drain.time(of: before + bytes)
        provider.stop()
        return Double(ended - began) / 1e9
    }
}

extension ProviderPlan {
    /// A gateway on this machine; notifications are settled as soon as its host has received them.
    fileprivate static func local(
        _ port: UInt16, _ certificates: SimulatorCertificates
    ) throws -> ProviderPlan {
        var limits = Limits()
        limits.errorWait = .milliseconds(1)
        return ProviderPlan(
            .binary(.framed), host: "127.0.0.1", port: port, topic: "com.example.chat",
            context: try TLSClientContext(
                trust: .file(certificates.authority), identity: certificates.identity(.client)),
            limits: limits, now: { EpochSeconds(1_750_000_000) })
    }
}

/// A server that reads and drops all bytes of one client, and remembers when it had how many.
private final class Drain: Sendable {
    private struct State {
        var bytes = 0
        var last: UInt64 = 0
        var isEnded = false
    }

    /// The thread's data, apart from the server.
    private final class Book: Sendable {
        let state = Mutex(State())
        let news = DispatchSemaphore(value: 0)
    }

    private let listener: TLSListener
    private let book = Book()

    var port: UInt16 { listener.port }

    init(_ certificates: SimulatorCertificates) throws {
        let context = try TLSServerContext(
            identity: certificates.identity(.server), clients: .notAsked)
        listener = try TLSListener()
        let (listener, book) = (listener, book)
        Thread {
            guard
                let client = try? listener.accept(deadline: .in(.seconds(60))),
                let connection = try? client.handshake(context: context, timeout: .seconds(10))
            else { return }
            var buffer = [UInt8](repeating: 0, count: 256 << 10)
            while true {
                let count = buffer.withUnsafeMutableBytes { bytes -> Int in
                    guard
                        case .bytes(let count)? = try? connection.read(
                            into: bytes, deadline: .in(.seconds(60)))
                    else { return 0 }
                    return count
                }
                book.state.withLock {
                    $0.bytes += count
                    $0.last = DispatchTime.now().uptimeNanoseconds
                    $0.isEnded = count == 0
                }
                book.news.signal()
                if count == 0 { return }
            }
        }.start()
    }

    /// The number of bytes that are there, once there are `least`.
    func bytes(after least: Int) throws -> Int {
        _ = try time(of: least)
        return book.state.withLock { $0.bytes }
    }

    /// The time at which so many bytes were there, in nanoseconds of the monotonic clock.
    func time(of bytes: Int) throws -> UInt64 {
        while true {
            let state = book.state.withLock { $0 }
            if state.bytes >= bytes { return state.last }
            guard !state.isEnded, book.news.wait(timeout: .now() + 60) == .success else {
                throw BenchmarkFailure(description: "\(state.bytes) of \(bytes) bytes arrived")
            }
        }
    }
}

// The speed of reading a feed, journaling it durably and decoding it, compared with a drain of the
// same bytes over the same TLS connection that stores and decodes nothing. The gateway computes its
// tuples in a separate process, so both sides have a core.

import APNsConnection
import APNsProtocol
import APNsSimulator
import EvidenceJournal
import Foundation
import Operations
import SecureTransport
import TokenHygiene

/// The figure `feed-read`.
struct FeedReadBenchmark {
    private let context: BenchmarkContext
    private let tuples: Int

    init(_ context: BenchmarkContext) {
        self.context = context
        tuples = context.scaled(1_000_000)
    }

    /// Million tuples per second, alternately ours and the raw drain's; medians.
    func run() throws -> Figure {
        let place = try BenchmarkFolder()
        let certificates = try SimulatorCertificates(directory: place.file("certificates"))
        var ours: [Double] = []
        var raw: [Double] = []
        // The first round warms the caches and does not count.
        for round in 0...context.runs {
            context.note("feed-read: round \(round) of \(context.runs)")
            raw.append(try rate(certificates) { try drain(certificates, $0) })
            // The state folder exists already, as on any host but a new one. Each round has a fresh one.
            let state = place.file("state")
            try? FileManager.default.removeItem(atPath: state)
            let folder = try StateFolder(state)
            ours.append(try rate(certificates) { try capture(certificates, $0, folder) })
        }
        let ratio = median(zip(ours, raw).dropFirst().map { $0 / $1 })
        return Figure(
            name: "feed-read", value: median(Array(ours.dropFirst())), unit: "million tuples/s",
            reference: median(Array(raw.dropFirst())), ratio: ratio,
            target: "at least 0.33 of the raw drain", met: ratio >= 1.0 / 3)
    }

    private func rate(
        _ certificates: SimulatorCertificates, _ work: (UInt16) throws -> Void
    ) throws -> Double {
        let gateway = try GatewayProcess(
            certificates, ["--generate", "\(tuples)", "--seed", "7"])
        let (time, _) = try seconds { try work(gateway.port) }
        return Double(tuples) / time / 1e6
    }

    private func drain(_ certificates: SimulatorCertificates, _ port: UInt16) throws {
        guard let address = try NameResolution.resolve(host: "127.0.0.1", port: port).first else {
            throw BenchmarkFailure(description: "127.0.0.1 has no address")
        }
        let connection = try TLSConnection.connect(
            to: address, hostName: "127.0.0.1", context: certificates.clientContext(),
            connectDeadline: .in(.seconds(5)), handshakeTimeout: .seconds(5), interrupt: nil)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        var bytes = 0
        while case .bytes(let count) = try connection.read(into: buffer, deadline: .never) {
            bytes += count
        }
        connection.close()
        guard bytes == tuples * 38 else {
            throw BenchmarkFailure(description: "the drain lost bytes")
        }
    }

    private func capture(
        _ certificates: SimulatorCertificates, _ port: UInt16, _ folder: StateFolder
    ) throws {
        let now = EpochMilliseconds.current
        let capture = try folder.beginList(
            run: "benchmark", partition: Partition(app: "chat", environment: "production"),
            source: "benchmark", at: now)
        let reader = FeedbackReader(
            host: "127.0.0.1", port: port, context: try certificates.clientContext(),
            interrupt: try Interrupt())
        let reading = try reader.read(arriving: capture.arrive, into: { try capture.append($0) })
        guard case .captured(let end, _) = reading else {
            throw BenchmarkFailure(description: "the feed was not captured")
        }
        try capture.close(end, at: now)
        var decoder = FeedbackDecoder()
        var found: [FeedbackTuple] = []
        var count = 0
        try folder.readBytes(of: folder.list(capture.id)) { chunk in
            found.removeAll(keepingCapacity: true)
            decoder.decode(chunk, into: &found)
            count += found.count
        }
        guard count == tuples else {
            throw BenchmarkFailure(description: "the capture lost tuples")
        }
    }
}

extension SimulatorCertificates {
    /// The TLS context of a client of the simulator.
    func clientContext() throws -> TLSClientContext {
        try TLSClientContext(
            trust: .file(authority),
            identity: TLSIdentity.load(file: certificate(.client), key: key(.client)))
    }
}

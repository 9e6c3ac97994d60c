import APNsConnection
import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization
import TestSupport
import Testing

/// The bytes that a sink received, for the test's thread to read while the reader works.
private final class Pieces: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var sizes: [Int] = []
        var isComplete = false
    }

    private let state = Mutex(State())
    private let changed = DispatchSemaphore(value: 0)

    func take(_ piece: UnsafeRawBufferPointer) {
        state.withLock {
            $0.bytes.append(contentsOf: piece)
            $0.sizes.append(piece.count)
        }
        changed.signal()
    }

    var bytes: [UInt8] { state.withLock { $0.bytes } }
    var sizes: [Int] { state.withLock { $0.sizes } }

    /// Waits until so many bytes have arrived; false after 20 seconds.
    func wait(for count: Int) -> Bool {
        while bytes.count < count {
            guard changed.wait(timeout: .now() + 20) == .success else { return false }
        }
        return true
    }
}

/// One gateway with one list, and a reader for it.
private struct Line {
    let gateway: FeedbackGateway
    let interrupt: Interrupt
    let context: TLSClientContext
    var limits = FeedbackReader.Limits()

    init(_ feed: [UInt8], _ behaviour: FeedbackBehaviour = FeedbackBehaviour()) throws {
        let certificates = try SweepStage.certificates.get()
        gateway = try FeedbackGateway(
            certificates: certificates, feeds: [.bytes(feed)], behaviour: behaviour)
        interrupt = try Interrupt()
        context = try TLSClientContext(
            trust: .file(certificates.authority), identity: certificates.identity(.client))
    }

    func reader(host: String = "127.0.0.1") -> FeedbackReader {
        FeedbackReader(
            host: host, port: gateway.port, context: context, limits: limits,
            interrupt: interrupt)
    }
}

@Suite("Reading a feed")
struct FeedbackReaderTests {
    private func feed(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    }

    @Test(
        "the reader passes all bytes on, in pieces of at most half of what may be un-synced",
        arguments: [1, 38, 1_000, 16_384, nil] as [Int?])
    func pieces(writeSize: Int?) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.writeSize = writeSize
        let count = writeSize == 1 ? 5_000 : FeedbackReader.unsyncedBytes * 5 / 2 + 7
        let bytes = feed(count)
        let line = try Line(bytes, behaviour)
        let pieces = Pieces()
        let reading = try line.reader().read { pieces.take($0) }
        #expect(pieces.bytes == bytes)
        #expect(pieces.sizes.allSatisfy { $0 <= FeedbackReader.unsyncedBytes / 2 })
        expect(reading, .closeNotify, count)
    }

    @Test(
        "the reader keeps all bytes that came before a silence, while the silence lasts",
        arguments: [1, 37, 5_000, 16_385, FeedbackReader.unsyncedBytes + 1])
    func silence(after byte: Int) throws {
        var behaviour = FeedbackBehaviour()
        // The feed ends with the gateway only, so its end did not release the bytes seen before.
        behaviour.pause = .init(afterByte: byte, duration: .seconds(600))
        let bytes = feed(byte + 100)
        let line = try Line(bytes, behaviour)
        let (pieces, reader) = (Pieces(), line.reader())
        let reading = try WorkerThread { _ = try? reader.read { pieces.take($0) } }
        #expect(pieces.wait(for: byte), "\(pieces.bytes.count) of \(byte) bytes were kept")
        #expect(line.gateway.records.isEmpty, "the gateway still pauses")
        line.interrupt.trip()
        reading.join()
        #expect(pieces.bytes == Array(bytes[..<byte]))
    }

    @Test("the reader takes lasting silence as the end, after the last byte is kept")
    func idle() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let bytes = feed(380)
        var line = try Line(bytes, behaviour)
        line.limits.idle = .milliseconds(100)
        let pieces = Pieces()
        let reading = try line.reader().read { pieces.take($0) }
        #expect(pieces.bytes == bytes)
        expect(reading, .idle, 380)
    }

    @Test("the reader fails with the error of a sink that cannot keep bytes, and reads no more")
    func throwingSink() throws {
        struct DiskFull: Error {}
        var behaviour = FeedbackBehaviour()
        behaviour.isEndless = true
        let line = try Line(feed(1 << 20), behaviour)
        var calls = 0
        #expect(throws: DiskFull.self) {
            _ = try line.reader().read { _ in
                calls += 1
                if calls == 2 { throw DiskFull() }
            }
        }
        #expect(calls == 2)
        // An endless list ends only because the reader left.
        let record = try #require(line.gateway.records(atLeast: 1).first)
        #expect(record.end == .unfinished)
    }

    @Test("the reader stops on request during silence and has kept the bytes so far")
    func stop() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        var line = try Line(feed(76), behaviour)
        line.limits.idle = .seconds(600)
        let (pieces, reader) = (Pieces(), line.reader())
        let reading = Mutex<FeedbackReading?>(nil)
        let thread = try WorkerThread {
            let ended = try? reader.read { pieces.take($0) }
            reading.withLock { $0 = ended }
        }
        #expect(pieces.wait(for: 76))
        line.interrupt.trip()
        thread.join()
        expect(reading.withLock { $0 }, .stopped, 76)
    }

    @Test("the reader stops exactly at the limit of bytes", arguments: [1, 38, 16_384, 700_001])
    func full(limit: Int) throws {
        let bytes = feed(1 << 20)
        var line = try Line(bytes)
        line.limits.bytes = limit
        let pieces = Pieces()
        let reading = try line.reader().read { pieces.take($0) }
        #expect(pieces.bytes == Array(bytes[..<limit]))
        expect(reading, .full, limit)
    }

    @Test(
        "the reader uses the next address of a name where the first one refuses",
        .enabled(
            if: (try? NameResolution.resolve(host: "localhost", port: 1).count) ?? 0 > 1,
            "localhost has one address here"))
    func nextAddress() throws {
        // The gateway listens on 127.0.0.1 only, and ::1 comes first (RFC 6724).
        let bytes = feed(76)
        let line = try Line(bytes)
        let pieces = Pieces()
        let reading = try line.reader(host: "localhost").read { pieces.take($0) }
        #expect(pieces.bytes == bytes)
        expect(reading, .closeNotify, 76)
        #expect(line.gateway.records(atLeast: 1).count == 1)
    }

    private func expect(
        _ reading: FeedbackReading?, _ end: CaptureEnd, _ count: Int,
        at location: SourceLocation = #_sourceLocation
    ) {
        guard case .captured(end, count) = reading else {
            Issue.record(
                "ended \(String(describing: reading)), expected \(end) after \(count) bytes",
                sourceLocation: location)
            return
        }
    }
}

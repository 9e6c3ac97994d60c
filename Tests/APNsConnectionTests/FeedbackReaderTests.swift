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
private struct Line: Sendable {
    let gateway: FeedbackGateway
    let interrupt: Interrupt
    let context: TLSClientContext
    var limits = FeedbackReader.Limits()
    let pieces = Pieces()

    init(_ feed: [UInt8], _ change: (inout FeedbackBehaviour) -> Void = { _ in }) throws {
        try self.init(.bytes(feed), change)
    }

    init(_ feed: ListSource, _ change: (inout FeedbackBehaviour) -> Void) throws {
        let certificates = try SweepStage.certificates.get()
        var behaviour = FeedbackBehaviour()
        change(&behaviour)
        gateway = try FeedbackGateway(
            certificates: certificates, feeds: [feed], behaviour: behaviour)
        interrupt = try Interrupt()
        context = try TLSClientContext(
            trust: .file(certificates.authority), identity: certificates.identity(.client))
    }

    func reader(host: String = "127.0.0.1", port: UInt16? = nil) -> FeedbackReader {
        FeedbackReader(
            host: host, port: port ?? gateway.port, context: context, limits: limits,
            interrupt: interrupt)
    }

    func read(host: String = "127.0.0.1", port: UInt16? = nil) throws -> FeedbackReading {
        try reader(host: host, port: port).read { pieces.take($0) }
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
        let count = writeSize == 1 ? 5_000 : FeedbackReader.unsyncedBytes * 5 / 2 + 7
        let bytes = feed(count)
        let line = try Line(bytes) { $0.writeSize = writeSize }
        expect(try line.read(), .closeNotify, count)
        #expect(line.pieces.bytes == bytes)
        #expect(line.pieces.sizes.allSatisfy { $0 <= FeedbackReader.unsyncedBytes / 2 })
    }

    @Test("a record is handed over whole, so that no part of it waits in OpenSSL")
    func records() throws {
        // The gateway computes whole tuples, in portions of 128 KiB. Each ends with a shorter record.
        let (size, portion) = (10_000, 128 * 1024 / 38 * 38)
        let line = try Line(.generated(GeneratedList(count: 40_000, seed: 1))) {
            $0.writeSize = size
        }
        expect(try line.read(), .closeNotify, 40_000 * 38)
        var end = 0
        for piece in line.pieces.sizes.dropLast() {
            end += piece
            #expect(end % portion % size == 0, "\(line.pieces.sizes)")
        }
        #expect(line.pieces.sizes.count > 1)
    }

    @Test("each piece is shown as it comes, and at most 1 MiB of them is not yet in the sink")
    func arriving() throws {
        let bytes = feed(FeedbackReader.unsyncedBytes * 7 / 2 + 7)
        let line = try Line(bytes)
        let arrived = Mutex<[UInt8]>([])
        let kept = Mutex(0)
        let most = Mutex(0)
        let reading = try line.reader().read { piece, offset in
            let isNext = arrived.withLock { all in
                defer { all += piece }
                return all.count == offset
            }
            #expect(isNext)
            let unsynced = offset + piece.count - kept.withLock { $0 }
            most.withLock { $0 = max($0, unsynced) }
        } into: { piece in
            let count = kept.withLock { $0 + piece.count }
            #expect(arrived.withLock { $0.count } >= count)
            kept.withLock { $0 = count }
        }
        expect(reading, .closeNotify, bytes.count)
        #expect(arrived.withLock { $0 } == bytes)
        let unsynced = most.withLock { $0 }
        #expect(unsynced <= FeedbackReader.unsyncedBytes, "\(unsynced)")
    }

    @Test("the reader names every end after bytes and never connects again")
    func ends() throws {
        let ends: [(CaptureEnd, (inout FeedbackBehaviour) -> Void)] = [
            (.closeNotify, { _ in }), (.cut, { $0.ending = .noCloseNotify }),
            (.reset, { $0.ending = .reset }), (.idle, { $0.ending = .holdOpen }),
        ]
        for (end, change) in ends {
            var line = try Line(feed(380), change)
            if end == .idle { line.limits.idle = .milliseconds(300) }
            let reading = try line.read()
            // A reset may overtake the bytes before it.
            guard end != .reset || line.pieces.bytes.count == 380 else { continue }
            expect(reading, end, 380)
            #expect(line.gateway.records(atLeast: 1).count == 1, "\(end)")
        }
    }

    @Test("a connection that is lost before the first byte is tried again, three times in all")
    func tries() throws {
        let line = try Line(feed(76)) { $0.resetAfter = 0 }
        guard case .unreachable(let failure) = try line.read() else {
            Issue.record("it was read")
            return
        }
        #expect(failure.code == .reset)
        // One more asks by ALPN what listens there, and completes no handshake.
        #expect(line.gateway.records(atLeast: 3).filter { $0.end == .reset }.count == 3)
    }

    @Test("an empty list is not clean after a connection was lost before the first byte")
    func emptyAfterLoss() throws {
        for (bytes, end) in [([], CaptureEnd.reset), (feed(38), .closeNotify)] {
            let line = try Line([])
            let peer = try BinaryPeer(SweepStage.certificates.get()) { number, wire in
                if number == 0 { return wire.reset() }
                wire.say(bytes)
                wire.close()
            }
            expect(try line.read(port: peer.port), end, bytes.count)
        }
    }

    @Test(
        "the reader gives up at once where a new try cannot help",
        arguments: [
            (.expired, .certificateExpired), (.notYetValid, .certificateNotYetValid),
            (.foreign, .certificateUntrusted), (.wrongHost, .hostNameMismatch),
        ] as [(FeedbackBehaviour.Certificate, TransportFailure.Code)])
    func finalFailures(
        certificate: FeedbackBehaviour.Certificate, code: TransportFailure.Code
    ) throws {
        let line = try Line(feed(76)) { $0.certificate = certificate }
        guard case .unreachable(let failure) = try line.read() else {
            Issue.record("it was read")
            return
        }
        #expect(failure.code == code)
        #expect(line.gateway.records(atLeast: 1).count == 1)
    }

    @Test("the reader stops on request before the list is opened, and looks a name up three times")
    func stopsEarly() throws {
        let line = try Line([])
        guard case .unreachable(let failure) = try line.read(host: "no-such-host.invalid") else {
            Issue.record("it was found")
            return
        }
        #expect(failure.code == .nameNotFound)
        line.interrupt.trip()
        guard case .stopped = try line.read(host: "no-such-host.invalid") else {
            Issue.record("it went on")
            return
        }
    }

    @Test(
        "the reader keeps all bytes that came before a silence, while the silence lasts",
        arguments: [1, 37, 5_000, 16_385, FeedbackReader.unsyncedBytes + 1])
    func silence(after byte: Int) throws {
        let bytes = feed(byte + 100)
        // The feed ends with the gateway only, so its end did not release the bytes seen before.
        let line = try Line(bytes) {
            $0.pause = .init(afterByte: byte, duration: .seconds(600))
        }
        let reading = try WorkerThread { _ = try? line.read() }
        #expect(
            line.pieces.wait(for: byte), "\(line.pieces.bytes.count) of \(byte) bytes were kept")
        #expect(line.gateway.records.isEmpty, "the gateway still pauses")
        line.interrupt.trip()
        reading.join()
        #expect(line.pieces.bytes == Array(bytes[..<byte]))
    }

    @Test("the reader fails with the error of a sink that cannot keep bytes, and reads no more")
    func throwingSink() throws {
        struct DiskFull: Error {}
        let line = try Line(feed(1 << 20)) { $0.isEndless = true }
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
        var line = try Line(feed(76)) { $0.ending = .holdOpen }
        line.limits.idle = .seconds(600)
        let reading = Mutex<FeedbackReading?>(nil)
        let thread = try WorkerThread { [line] in
            let ended = try? line.read()
            reading.withLock { $0 = ended }
        }
        #expect(line.pieces.wait(for: 76))
        line.interrupt.trip()
        thread.join()
        expect(reading.withLock { $0 }, .stopped, 76)
    }

    @Test("a list that trickles ends once its patience is used up, and what came is kept")
    func trickle() throws {
        var line = try Line(feed(4_000)) { behaviour in
            (behaviour.writeSize, behaviour.delay) = (1, .milliseconds(20))
        }
        line.limits.idle = .seconds(20)
        line.limits.patience = .milliseconds(500)
        guard case .captured(.slow, let bytes) = try line.read() else {
            Issue.record("it was read on")
            return
        }
        #expect(bytes > 0 && line.pieces.bytes == Array(feed(4_000).prefix(bytes)))
    }

    @Test("a list of a thousand bytes a second and more is read on, however long it takes")
    func steady() throws {
        // Some 8,000 bytes a second: twice the patience in all.
        var line = try Line(feed(8_000)) { behaviour in
            (behaviour.writeSize, behaviour.delay) = (80, .milliseconds(10))
        }
        line.limits.patience = .milliseconds(500)
        guard case .captured(.closeNotify, 8_000) = try line.read() else {
            Issue.record("it was left")
            return
        }
    }

    @Test("the reader stops exactly at the limit of bytes", arguments: [1, 38, 16_384, 700_001])
    func full(limit: Int) throws {
        let bytes = feed(1 << 20)
        var line = try Line(bytes)
        line.limits.bytes = limit
        expect(try line.read(), .full, limit)
        #expect(line.pieces.bytes == Array(bytes[..<limit]))
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
        expect(try line.read(host: "localhost"), .closeNotify, 76)
        #expect(line.pieces.bytes == bytes)
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

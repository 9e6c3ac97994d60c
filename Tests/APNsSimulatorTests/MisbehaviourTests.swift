import APNsSimulator
import SecureTransport
import TestSupport
import Testing

@Suite("Misbehaviour on request")
struct MisbehaviourTests {
    private static let f2 = FeedbackVector.all[1].bytes
    private var f2: [UInt8] { Self.f2 }

    /// A behaviour, what a client reads to the end, and how the gateway says that it ended.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var bytes = f2
        var end = ConnectionEnd.closeNotify
        var record = FeedbackRecord.End.closeNotify
        let change: @Sendable (inout FeedbackBehaviour) -> Void

        static let all =
            [
                Case("one byte at a time") { $0.writeSize = 1 },
                Case("in two pieces with a delay") {
                    ($0.writeSize, $0.delay) = (57, .milliseconds(1))
                },
                Case("no close_notify", end: .cut, .noCloseNotify) { $0.ending = .noCloseNotify },
                Case("garbage behind the list", f2 + [1, 2, 3]) { $0.appendix = [1, 2, 3] },
                Case("garbage in its place, and the list is lost", [9, 9]) {
                    $0.replacement = [9, 9]
                },
            ]
            + [0, 3, 6, 37, 38, 113].map { count in
                Case("an early close at byte \(count)", Array(f2[..<count])) {
                    $0.closeAfter = count
                }
            }

        init(
            _ name: String, _ bytes: [UInt8] = f2, end: ConnectionEnd = .closeNotify,
            _ record: FeedbackRecord.End = .closeNotify,
            _ change: @escaping @Sendable (inout FeedbackBehaviour) -> Void
        ) {
            (testDescription, self.bytes, self.end) = (name, bytes, end)
            (self.record, self.change) = (record, change)
        }
    }

    @Test("a client sees the bytes and the end asked for", arguments: Case.all)
    func behaviour(_ one: Case) throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)], one.change)
        let seen = try gateway.read()
        #expect(seen.bytes == one.bytes)
        #expect(seen.end == .end(one.end))
        let records = gateway.records(atLeast: 1)
        #expect(records.map(\.bytes) == [one.bytes.count])
        #expect(records.map(\.end) == [one.record])
        #expect(records.map(\.list) == [0])
    }

    @Test("the gateway waits after a write of the size asked for, and pauses at the byte asked for")
    func waits() throws {
        // Ends only when the gateway stops, so the client can see where it began.
        let hour = Duration.seconds(3600)
        for (count, change) in [
            (5, { ($0.writeSize, $0.delay) = (5, hour) }),
            (41, { $0.pause = .init(afterByte: 41, duration: hour) }),
        ] as [(Int, (inout FeedbackBehaviour) -> Void)] {
            let gateway = try FeedbackGateway.start([.bytes(f2)], change)
            #expect(try gateway.read(limit: count).bytes == Array(f2[..<count]))
            gateway.stop()
            #expect(gateway.records.map(\.bytes) == [count])
            #expect(gateway.records.map(\.end) == [.unfinished])
        }
    }

    @Test("a reset after some bytes reaches the client as a reset")
    func resetAfter() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.resetAfter = 41 }
        let seen = try gateway.read()
        #expect(seen.end == .end(.reset))
        #expect(seen.bytes == Array(f2[..<seen.bytes.count]))
        #expect(gateway.records(atLeast: 1).map(\.end) == [.reset])
        #expect(gateway.records.map(\.bytes) == [41])
    }

    @Test("a held connection gives the list and then nothing, until the client leaves")
    func holdOpen() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.ending = .holdOpen }
        let connection = try shared.get().certificates.connect(to: gateway.address)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: f2.count, alignment: 1)
        defer { buffer.deallocate() }
        #expect(try connection.read(into: buffer, deadline: .in(patience)) == .bytes(f2.count))
        #expect(try connection.read(into: buffer, deadline: .now) == .timedOut)
        #expect(gateway.records.isEmpty)
        connection.close()
        #expect(gateway.records(atLeast: 1).map(\.end) == [.heldOpen])
    }

    @Test("silence after the handshake keeps the list for the next connection")
    func silentAfter() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) {
            $0.opening = .silentAfterHandshake
        }
        let seen = try gateway.read(deadline: .in(.milliseconds(50)))
        #expect(seen.end == .timedOut)
        let record = try #require(gateway.records(atLeast: 1).first)
        #expect(record.list == nil)
        #expect(record.subject != nil)
        #expect(record.end == .heldOpen)
    }

    @Test("silence before the handshake lasts until the client's time limit")
    func silentBefore() throws {
        let gateway = try FeedbackGateway.start { $0.opening = .silentBeforeHandshake }
        let seen = try gateway.read(handshakeTimeout: .milliseconds(50))
        #expect(seen.failure == .timedOut)
        #expect(gateway.records(atLeast: 1).map(\.end) == [.heldOpen])
    }

    @Test("an answer in plaintext is not TLS, with a list or without", arguments: [true, false])
    func plaintext(hasList: Bool) throws {
        let gateway = try FeedbackGateway.start(hasList ? [.bytes(f2)] : []) {
            $0.opening = .plaintext
        }
        #expect(try gateway.read().failure == .notTLS)
        #expect(gateway.records(atLeast: 1).map(\.end) == [.plaintext])
        if hasList {
            #expect(gateway.records.map(\.bytes) == [f2.count])
        }
    }

    @Test("an endless feed continues until the client stops")
    func endless() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.isEndless = true }
        let seen = try gateway.read(limit: 50 * f2.count)
        for turn in 0..<50 {
            let start = turn * f2.count
            #expect(seen.bytes[start..<(start + f2.count)].elementsEqual(f2))
        }
        #expect(gateway.records(atLeast: 1).map(\.end) == [.unfinished])
        let empty = try FeedbackGateway.start { $0.isEndless = true }
        #expect(try empty.read().end == .end(.closeNotify))
    }

    @Test(
        "a client names the fault of each bad server certificate",
        arguments: [
            (FeedbackBehaviour.Certificate.expired, TransportFailure.Code.certificateExpired),
            (.notYetValid, .certificateNotYetValid), (.foreign, .certificateUntrusted),
            (.wrongHost, .hostNameMismatch),
        ])
    func certificates(
        certificate: FeedbackBehaviour.Certificate, code: TransportFailure.Code
    ) throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.certificate = certificate }
        #expect(try gateway.read().failure == code)
        #expect(gateway.records(atLeast: 1).map(\.end) == [.handshakeFailed])
        #expect(gateway.records.map(\.list) == [nil])
    }

    @Test(
        "a gateway that refuses every client certificate keeps its list",
        arguments: [TLSServerContext.Version.tls12, .tls13])
    func refusal(version: TLSServerContext.Version) throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) {
            $0.refusesClients = true
            $0.versions = version...version
        }
        #expect(try gateway.read().failure == .clientCertificateRefused)
        #expect(gateway.records(atLeast: 1).map(\.list) == [nil])
    }

    @Test("a gateway limited to TLS 1.1 is refused for its version")
    func oldVersion() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.versions = .tls11 ... .tls11 }
        #expect(try gateway.read().failure == .protocolVersion)
    }
}

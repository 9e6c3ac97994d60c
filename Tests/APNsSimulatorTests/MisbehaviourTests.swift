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

    /// A behaviour that a client refuses or that refuses it: what the client sees, and what the gateway keeps.
    struct Refusal: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let failure: TransportFailure.Code
        let end: FeedbackRecord.End
        let change: @Sendable (inout FeedbackBehaviour) -> Void

        init(
            _ name: String, _ failure: TransportFailure.Code,
            _ end: FeedbackRecord.End = .handshakeFailed,
            _ change: @escaping @Sendable (inout FeedbackBehaviour) -> Void
        ) {
            (testDescription, self.failure, self.end, self.change) = (name, failure, end, change)
        }

        static let all = [
            Refusal("an expired certificate", .certificateExpired) { $0.certificate = .expired },
            Refusal("one of tomorrow", .certificateNotYetValid) { $0.certificate = .notYetValid },
            Refusal("a foreign authority", .certificateUntrusted) { $0.certificate = .foreign },
            Refusal("another host's", .hostNameMismatch) { $0.certificate = .wrongHost },
            Refusal("no client welcome, TLS 1.2", .clientCertificateRefused) {
                ($0.refusesClients, $0.versions) = (true, .tls12 ... .tls12)
            },
            Refusal("no client welcome, TLS 1.3", .clientCertificateRefused) {
                ($0.refusesClients, $0.versions) = (true, .tls13 ... .tls13)
            },
            Refusal("TLS 1.1 alone", .protocolVersion) { $0.versions = .tls11 ... .tls11 },
            Refusal("plaintext", .notTLS, .plaintext) { $0.opening = .plaintext },
            Refusal("silence before the handshake", .timedOut, .heldOpen) {
                $0.opening = .silentBeforeHandshake
            },
        ]
    }

    @Test("a client that is refused, or refuses, learns why", arguments: Refusal.all)
    func refused(_ one: Refusal) throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)], one.change)
        let timeout: Duration = one.failure == .timedOut ? .milliseconds(50) : patience
        #expect(try gateway.read(handshakeTimeout: timeout).failure == one.failure)
        let records = gateway.records(atLeast: 1)
        #expect(records.map(\.end) == [one.end])
        // What is sent in plaintext is sent; every other list waits for the next client.
        let isSent = one.end == .plaintext
        #expect(records.map(\.list) == [isSent ? 0 : nil])
        #expect(records.map(\.bytes) == [isSent ? f2.count : 0])
    }
}

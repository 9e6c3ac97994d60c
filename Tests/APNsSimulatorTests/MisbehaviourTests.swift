import APNsSimulator
import SecureTransport
import TestSupport
import Testing

@Suite("Misbehaviour on request")
struct MisbehaviourTests {
    private let f2 = FeedbackVector.all[1].bytes

    @Test("a client loses nothing when the gateway writes one byte at a time")
    func drip() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.writeSize = 1 }
        #expect(try gateway.read().bytes == f2)
    }

    @Test("the gateway waits after each write, and a write has the size asked for")
    func delay() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) {
            $0.writeSize = 5
            // Ends only when the gateway stops, so the client can see where it began.
            $0.delay = .seconds(3600)
        }
        #expect(try gateway.read(limit: 5).bytes == Array(f2[..<5]))
        gateway.stop()
        #expect(gateway.records.map(\.bytes) == [5])
        let quick = try FeedbackGateway.start([.bytes(f2)]) {
            $0.writeSize = 57
            $0.delay = .milliseconds(1)
        }
        #expect(try quick.read().bytes == f2)
    }

    @Test("the gateway pauses after exactly the byte asked for")
    func pause() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) {
            // Ends only when the gateway stops, so the client can see where it began.
            $0.pause = .init(afterByte: 41, duration: .seconds(3600))
        }
        let seen = try gateway.read(limit: 41)
        #expect(seen.bytes == Array(f2[..<41]))
        gateway.stop()
        #expect(gateway.records.map(\.bytes) == [41])
        #expect(gateway.records.map(\.end) == [.unfinished])
    }

    @Test("an early close cuts the list at the byte asked for", arguments: [0, 3, 6, 37, 38, 113])
    func closeAfter(count: Int) throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.closeAfter = count }
        let seen = try gateway.read()
        #expect(seen.bytes == Array(f2[..<count]))
        #expect(seen.end == .end(.closeNotify))
        #expect(gateway.records(atLeast: 1).map(\.bytes) == [count])
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

    @Test("an end without close_notify is a cut after the whole list")
    func noCloseNotify() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.ending = .noCloseNotify }
        let seen = try gateway.read()
        #expect(seen.bytes == f2)
        #expect(seen.end == .end(.cut))
        #expect(gateway.records(atLeast: 1).map(\.end) == [.noCloseNotify])
    }

    @Test("a held connection gives the list and then nothing, until the client leaves")
    func holdOpen() throws {
        let gateway = try FeedbackGateway.start([.bytes(f2)]) { $0.ending = .holdOpen }
        let connection = try gateway.connect()
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

    @Test("garbage follows the list or replaces it")
    func garbage() throws {
        let behind = try FeedbackGateway.start([.bytes(f2)]) { $0.appendix = [1, 2, 3] }
        #expect(try behind.read().bytes == f2 + [1, 2, 3])
        let instead = try FeedbackGateway.start([.bytes(f2)]) { $0.replacement = [9, 9] }
        #expect(try instead.read().bytes == [9, 9])
        // The list was lost with it.
        #expect(instead.records(atLeast: 1).map(\.list) == [0])
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

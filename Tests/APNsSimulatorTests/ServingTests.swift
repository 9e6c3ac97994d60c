import APNsProtocol
import APNsSimulator
import Encodings
import Foundation
import SecureTransport
import Synchronization
import TestSupport
import Testing

@Suite("Serving as Apple's feedback service did")
struct ServingTests {
    @Test("successive connections get successive lists, and lists offered later")
    func successive() throws {
        let gateway = try FeedbackGateway.start([.bytes([1]), .bytes([2, 2])])
        #expect(try gateway.read().bytes == [1])
        #expect(try gateway.read().bytes == [2, 2])
        #expect(try gateway.read().bytes == [])
        gateway.add(.bytes([3]))
        #expect(try gateway.read().bytes == [3])
        let records = gateway.records(atLeast: 4)
        #expect(records.map(\.connection) == [1, 2, 3, 4])
        #expect(records.map(\.list) == [0, 1, nil, 2] && records.map(\.bytes) == [1, 2, 0, 1])
        let subject = "CN=Apple Push Services: com.example.chat,UID=com.example.chat"
        #expect(records.allSatisfy { $0.end == .closeNotify && $0.subject == subject })
    }

    @Test("with repetition the gateway serves its lists again and again")
    func repeats() throws {
        let gateway = try FeedbackGateway.start([.bytes([1]), .bytes([2])]) { $0.repeats = true }
        #expect(try (1...5).map { _ in try gateway.read().bytes } == [[1], [2], [1], [2], [1]])
        #expect(gateway.records(atLeast: 5).map(\.list) == [0, 1, 0, 1, 0])
    }

    @Test("the gateway reads a list from a file")
    func file() throws {
        let folder = try TemporaryFolder()
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let path = folder.file("feed")
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let gateway = try FeedbackGateway.start([.file(path), .file(folder.file("none"))])
        #expect(try gateway.read().bytes == bytes)
        #expect(try gateway.read().end == .end(.cut))
        #expect(gateway.records(atLeast: 2).last?.error?.contains("none") == true)
    }

    @Test("64 clients at once get the list exactly once between them")
    func concurrent() throws {
        let bytes = [UInt8](repeating: 7, count: 100_000)
        let gateway = try FeedbackGateway.start([.bytes(bytes)])
        let seen = Mutex<[Seen]>([])
        let clients = try (0..<64).map { _ in
            try WorkerThread {
                if let one = try? gateway.read() {
                    seen.withLock { $0.append(one) }
                }
            }
        }
        clients.forEach { $0.join() }
        let all = seen.withLock { $0 }
        #expect(all.count == 64)
        #expect(all.allSatisfy { $0.end == .end(.closeNotify) })
        #expect(all.filter { !$0.bytes.isEmpty }.map(\.bytes) == [bytes])
        let records = gateway.records(atLeast: 64)
        #expect(records.filter { $0.list == 0 }.count == 1)
        #expect(Set(records.map(\.connection)) == Set(1...64))
    }

    @Test(
        "a client without a certificate, or with a bad one, is refused and takes no list",
        arguments: [nil, SimulatorCertificates.Name.foreignClient, .expiredClient])
    func badClients(name: SimulatorCertificates.Name?) throws {
        let gateway = try FeedbackGateway.start([.bytes([1])])
        #expect(try gateway.read(name).failure == .clientCertificateRefused)
        #expect(try gateway.read().bytes == [1])
        let refused = gateway.records(atLeast: 2).first { $0.connection == 1 }
        #expect(refused?.end == .handshakeFailed)
        #expect(refused?.error != nil)
    }

    @Test("stopping the gateway ends connections that it holds open")
    func stop() throws {
        let gateway = try FeedbackGateway.start([.bytes([1])]) { $0.ending = .holdOpen }
        let connection = try shared.get().certificates.connect(to: gateway.address)
        gateway.stop()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 10, alignment: 1)
        defer { buffer.deallocate() }
        var outcome = try connection.read(into: buffer, deadline: .in(patience))
        if outcome == .bytes(1) {
            outcome = try connection.read(into: buffer, deadline: .in(patience))
        }
        guard case .end = outcome else {
            Issue.record("the connection continued: \(outcome)")
            return
        }
        #expect(gateway.records.count == 1)
    }
}

@Suite("Generated feeds")
struct GeneratedFeedTests {
    @Test(
        "the gateway serves exactly the tuples that are computed one by one",
        arguments: [([32], 20_001), ([32, 0, 100, 7], 20_001), ([.max], 3)] as [([UInt16], Int)])
    func reproducible(lengths: [UInt16], count: Int) throws {
        var generator = SeededGenerator("generated feed")
        let feed = GeneratedList(
            count: count, seed: generator.next(), lengths: lengths, timeSpan: 1000)
        var expected: [UInt8] = []
        for index in 0..<feed.count {
            feed.tuple(at: index).encode(into: &expected)
        }
        #expect(feed.encodedLength == expected.count)
        #expect(try FeedbackGateway.start([.generated(feed)]).read().bytes == expected)
    }

    @Test("the tokens of one feed all differ, also from those of another seed")
    func distinct() {
        let count = 20_000
        let tokens = [UInt64(1), 2].flatMap { seed in
            let feed = GeneratedList(count: count, seed: seed)
            return (0..<count).compactMap { feed.token(at: $0) }
        }
        #expect(Set(tokens).count == 2 * count)
    }

    @Test("a known seed gives known tokens, so that stored expectations stay true")
    func pinned() throws {
        let feed = GeneratedList(count: 2, seed: 1, firstTime: 1_700_000_000, timeSpan: 1)
        #expect(feed.time(at: 5) == EpochSeconds(1_700_000_000))
        // Computed by an independent script from the layout as documented.
        let expected = [
            "7ab40e090f363a7d4181b152fb77616f169c646d52269d624a5de8d8d53b7280",
            "bfef8030ddc2d77255c55969ed403149fb85af9c9a7e41f156db6c9436996a50",
        ]
        #expect((0...1).compactMap { feed.token(at: $0)?.hex } == expected)
    }
}

@Suite("Lists as people write them")
struct FeedTextTests {
    private func bytes(_ source: ListSource) -> [UInt8]? {
        if case .bytes(let bytes) = source {
            return bytes
        }
        return nil
    }

    @Test("lines of seconds and token become tuples; comments and blank lines do not")
    func lines() throws {
        let text = """
            # two tuples
            1700000000 \(FeedbackVector.tutorialHex)

            1700000001   # without a token
            """
        var expected: [UInt8] = []
        FeedbackTuple(
            time: EpochSeconds(1_700_000_000), token: DeviceToken(FeedbackVector.tutorial)
        ).encode(into: &expected)
        FeedbackTuple(time: EpochSeconds(1_700_000_001), token: nil).encode(into: &expected)
        #expect(try bytes(.lines(text, of: "list")) == expected)
    }

    @Test("a bad line is named by its number", arguments: ["x y", "1 zz", "-1 ab", "1 ab cd"])
    func badLines(line: String) {
        let failure = #expect(throws: Refusal.self) {
            try ListSource.lines("1 ab\n\(line)\n", of: "list")
        }
        #expect(failure?.description.contains("list: ") == true)
        #expect(failure?.description.contains("line 2") == true)
    }

    @Test("hex may have spaces, but no odd length and no other letters")
    func hex() throws {
        #expect(try ListSource.hexBytes("00 ff\n7F") == [0, 255, 127])
        #expect(throws: Refusal.self) { try ListSource.hexBytes("123") }
        #expect(throws: Refusal.self) { try ListSource.hexBytes("zz") }
    }
}

import APNsProtocol
import APNsSimulator
import SecureTransport
import Synchronization
import TestSupport
import Testing

@testable import APNsConnection

/// A provider with a peer, and the notifications it was given.
private struct Line {
    let provider: Provider
    let peer: BinaryPeer
    let said = Said()

    final class Said: Sendable {
        let words = Mutex<[String]>([])
    }

    init(
        command: BinaryCommand = .framed, wait: Duration = .milliseconds(300),
        window: Int = 20_000, _ script: @escaping @Sendable (Int, BinaryPeer.Wire) -> Void
    ) throws {
        let certificates = try SweepStage.certificates.get()
        peer = try BinaryPeer(certificates, script)
        var limits = ProviderPlan.Limits()
        limits.errorWait = wait
        limits.window = window
        limits.request = .seconds(1)
        limits.pace = 0.01
        let said = said
        provider = try Provider(
            ProviderPlan(
                .binary(command), host: "127.0.0.1", port: peer.port, topic: "com.example.chat",
                context: try TLSClientContext(
                    trust: .file(certificates.authority),
                    identity: certificates.identity(.client)),
                limits: limits, now: { EpochSeconds(1_750_000_000) },
                log: { words in said.words.withLock { $0.append(words) } }))
    }

    /// Sends notifications with the keys 1 to `count`, and waits for all outcomes; at most 20 seconds.
    func outcomes(_ count: Int, payload: Int = 2) throws -> [UInt64: ProviderOutcome.Kind] {
        provider.submit(
            try (1...count).map {
                try Self.notification($0, [UInt8](repeating: UInt8(ascii: "1"), count: payload))
            })
        var outcomes: [UInt64: ProviderOutcome.Kind] = [:]
        let deadline = Deadline.in(.seconds(20))
        while outcomes.count < count, !deadline.hasPassed {
            for outcome in provider.outcomes(within: 100) {
                #expect(outcomes[outcome.key] == nil, "two outcomes for \(outcome.key)")
                outcomes[outcome.key] = outcome.kind
            }
            if provider.failure != nil { break }
        }
        return outcomes
    }

    static func notification(_ number: Int, _ payload: [UInt8]) throws -> PushNotification {
        PushNotification(
            key: UInt64(number), token: .numbered(number),
            id: APNsID(high: 0, low: UInt64(number)),
            payload: payload)
    }

    /// The numbers of the tokens that the peer read, by connection.
    var numbers: [[Int]] {
        peer.frames.map {
            $0.map { frame in (1...3_000).first { .numbered($0) == frame.token } ?? 0 }
        }
    }
}

@Suite("Sending over the binary interface")
struct BinaryProviderTests {
    @Test(
        "without a word of the gateway all count as accepted after the wait, on one connection",
        arguments: BinaryCommand.allCases)
    func silence(_ command: BinaryCommand) throws {
        let line = try Line(command: command) { _, wire in wire.read(.max) }
        let outcomes = try line.outcomes(150)
        #expect(outcomes.count == 150 && outcomes.values.allSatisfy { $0 == .accepted })
        line.provider.stop()
        #expect(line.numbers == [Array(1...150)])
        #expect(line.peer.frames[0].allSatisfy { $0.command == command })
    }

    @Test("command 1 keeps a notification without an expiration for a day, command 2 leaves it out")
    func expirations() throws {
        for (command, expected) in [
            (BinaryCommand.enhanced, NotificationExpiration.until(EpochSeconds(1_750_086_400))),
            (.framed, nil),
        ] as [(BinaryCommand, NotificationExpiration?)] {
            let line = try Line(command: command) { _, wire in wire.read(.max) }
            _ = try line.outcomes(1)
            line.provider.stop()
            #expect(line.peer.frames[0][0].expiration == expected)
        }
    }

    @Test("what follows a refused one is sent again on a new connection, and nothing else is")
    func refusal() throws {
        let line = try Line { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            // The packet comes long after the frame that it names.
            wire.read(100)
            wire.say(.invalidToken, 40)
            wire.close()
        }
        let outcomes = try line.outcomes(100)
        line.provider.stop()
        #expect(outcomes.count == 100)
        #expect(outcomes[40] == .refusedBinary(.invalidToken))
        #expect(outcomes.filter { $0.value == .accepted }.count == 99)
        #expect(line.numbers.count == 2 && line.numbers[1] == Array(41...100))
    }

    @Test("after a shutdown the named one counts as done")
    func shutdown() throws {
        let line = try Line { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(50)
            wire.say(.shutdown, 30)
            wire.close()
        }
        let outcomes = try line.outcomes(50)
        line.provider.stop()
        #expect(outcomes.count == 50 && outcomes.values.allSatisfy { $0 == .accepted })
        #expect(line.numbers.dropFirst().first == Array(31...50))
    }

    @Test(
        "an error packet is the same in six pieces, and with the end of the connection in between")
    func pieces() throws {
        let line = try Line { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(10)
            for byte in [8, 8, 0, 0, 0, 4] as [UInt8] { wire.say([byte]) }
            wire.close()
        }
        let outcomes = try line.outcomes(10)
        line.provider.stop()
        #expect(outcomes[4] == .refusedBinary(.invalidToken))
        #expect(outcomes.filter { $0.value == .accepted }.count == 9)
    }

    @Test(
        "an end without a whole packet leaves unknown what was on the wire",
        arguments: [[], [8, 8, 0, 0, 0]] as [[UInt8]])
    func cut(_ bytes: [UInt8]) throws {
        let line = try Line { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(10)
            wire.say(bytes)
            wire.close()
        }
        let outcomes = try line.outcomes(10)
        line.provider.stop()
        #expect(outcomes.count == 10)
        for (key, kind) in outcomes {
            guard case .unknown(let why) = kind else {
                Issue.record("\(key): \(kind)")
                continue
            }
            #expect(why.contains(bytes.isEmpty ? "no error packet" : "5 of the 6 bytes"))
        }
        // None of them may have been sent twice.
        #expect(line.numbers.flatMap { $0 } == Array(1...10))
    }

    @Test(
        "command 0 has no identifiers, so a refusal leaves its window unknown, and the window is small"
    )
    func withoutIdentifiers() throws {
        let line = try Line(command: .simple, wait: .milliseconds(200)) { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(5)
            wire.say(.invalidToken, 0)
            wire.reset()
        }
        let outcomes = try line.outcomes(1_000)
        line.provider.stop()
        #expect(outcomes.count == 1_000)
        let unknown = outcomes.values.filter { if case .unknown = $0 { true } else { false } }
        #expect((5...ProviderPlan.windowWithoutIdentifiers).contains(unknown.count))
        let twice = Dictionary(grouping: line.numbers.flatMap { $0 }) { $0 }.filter { $1.count > 1 }
        #expect(twice.isEmpty, "\(twice.keys)")
    }

    @Test("bytes that are no error packet end the sending as a broken protocol")
    func foreign() throws {
        let line = try Line { _, wire in
            wire.read(1)
            wire.say(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
            wire.close()
        }
        let outcomes = try line.outcomes(1)
        #expect(
            outcomes[1].map { if case .garbled = $0 { true } else { false } } == true,
            "\(outcomes)")
        _ = try line.outcomes(1)
        line.provider.stop(abruptly: true)
        #expect(line.said.words.withLock { $0.contains { $0.contains("the first is 72") } })
    }

    @Test("a packet about one that counted as accepted is told, and what followed is sent again")
    func late() throws {
        let line = try Line(wait: .milliseconds(100)) { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(11)
            wire.say(.invalidToken, 7)
            wire.close()
        }
        var outcomes = try line.outcomes(10)
        #expect(outcomes.count == 10 && outcomes.values.allSatisfy { $0 == .accepted })
        line.provider.submit([try Line.notification(11, [1])])
        while outcomes.count < 11 {
            for outcome in line.provider.outcomes(within: 100) {
                outcomes[outcome.key] = outcome.kind
            }
        }
        line.provider.stop()
        #expect(outcomes[11] == .accepted)
        #expect(line.provider.settledTooEarly == 4)
        #expect(line.numbers == [Array(1...11), [11]])
    }

    @Test("what the host of a gateway has not acknowledged never counts as sent")
    func frozen() throws {
        let release = Interrupting()
        let line = try Line(wait: .milliseconds(100)) { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(1)
            // More than the buffers of both hosts hold follows, and nothing of it is read.
            release.wait()
            wire.reset()
        }
        line.provider.submit(
            try (1...20_000).map { try Line.notification($0, [UInt8](repeating: 49, count: 2_000)) }
        )
        var kinds: [ProviderOutcome.Kind] = []
        let deadline = Deadline.in(.seconds(20))
        while line.said.words.withLock({
            !$0.contains { $0.contains("no byte") || $0.contains("writing") }
        }),
            !deadline.hasPassed
        {
            kinds += line.provider.outcomes(within: 50).map(\.kind)
        }
        release.end()
        line.provider.stop(abruptly: true)
        kinds += line.provider.outcomes(within: 0).map(\.kind)
        let unknown = kinds.filter { if case .unknown = $0 { true } else { false } }
        #expect(!unknown.isEmpty)
        #expect(line.said.words.withLock { $0.count { $0.contains("connected") } } > 0)
    }

    @Test("a payload or token beyond the interface is refused here, and the others go on")
    func unsendable() throws {
        let line = try Line(command: .enhanced) { _, wire in wire.read(.max) }
        line.provider.submit([
            try Line.notification(1, [1]),
            try Line.notification(2, [UInt8](repeating: 49, count: 257)),
            try Line.notification(3, [1]),
        ])
        var outcomes: [UInt64: ProviderOutcome.Kind] = [:]
        while outcomes.count < 3 {
            for outcome in line.provider.outcomes(within: 100) {
                outcomes[outcome.key] = outcome.kind
            }
        }
        line.provider.stop()
        #expect(outcomes[1] == .accepted && outcomes[3] == .accepted)
        #expect(outcomes[2] == .unsendable("invalid payload size (7)"))
        #expect(line.numbers == [[1, 3]])
    }

    @Test(
        "an end without a word gives all back that was not written, and three of them end the sending"
    )
    func givingUp() throws {
        let line = try Line(window: 2) { _, wire in
            wire.read(2)
            wire.reset()
        }
        for round in 1...3 {
            #expect(line.provider.failure == nil)
            let outcomes = try line.outcomes(50)
            #expect(outcomes.values.filter { $0 == .untouched }.count == 48, "round \(round)")
        }
        let deadline = Deadline.in(.seconds(20))
        while line.provider.failure == nil, !deadline.hasPassed {
            _ = line.provider.outcomes(within: 20)
        }
        #expect(line.provider.failure?.code == .unreachable)
        line.provider.stop()
        #expect(line.numbers.map(\.count) == [2, 2, 2])
    }

    @Test("from the first byte of a packet nothing is settled, however late the others come")
    func slowPacket() throws {
        let line = try Line(wait: .milliseconds(100)) { number, wire in
            guard number == 0 else {
                wire.read(.max)
                return
            }
            wire.read(3)
            wire.say([8, 8, 0])
            // Many times the wait for errors.
            Interrupting().wait(.milliseconds(900))
            wire.say([0, 0, 2])
            wire.close()
        }
        let outcomes = try line.outcomes(3)
        line.provider.stop()
        #expect(outcomes[2] == .refusedBinary(.invalidToken), "\(outcomes)")
        #expect(outcomes[1] == .accepted && outcomes[3] == .accepted)
        #expect(line.provider.settledTooEarly == 0)
    }

    @Test("a stop waits for the notifications on the wire, an abrupt one leaves them unknown")
    func stops() throws {
        for isAbrupt in [false, true] {
            let line = try Line(wait: .milliseconds(500)) { _, wire in wire.read(.max) }
            line.provider.submit(try (1...10).map { try Line.notification($0, [1]) })
            while line.peer.frames.first?.count != 10 {}
            line.provider.stop(abruptly: isAbrupt)
            let outcomes = line.provider.outcomes(within: 0)
            #expect(outcomes.count == 10)
            #expect(outcomes.allSatisfy { ($0.kind == .accepted) != isAbrupt })
        }
    }
}

/// Lets a script wait until the test goes on.
private final class Interrupting: Sendable {
    private let interrupt = try? Interrupt()
    func wait(_ time: Duration = .seconds(20)) { _ = interrupt?.wait(until: .in(time)) }
    func end() { interrupt?.trip() }
}

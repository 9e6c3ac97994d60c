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

    /// `script` gets each connection, or with `first` the first one only; the others read all.
    init(
        command: BinaryCommand = .framed, wait: Duration = .milliseconds(300),
        window: Int = 20_000, first: Bool = true,
        _ script: @escaping @Sendable (BinaryPeer.Wire) -> Void = { $0.read(.max) }
    ) throws {
        let certificates = try SweepStage.certificates.get()
        peer = try BinaryPeer(certificates) { number, wire in
            if first, number > 0 { wire.read(.max) } else { script(wire) }
        }
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

    func has(said text: String) -> Bool {
        said.words.withLock { $0.contains { $0.contains(text) } }
    }

    /// Sends notifications with the keys 1 to `count`, and waits for all outcomes; at most 20 seconds.
    func outcomes(_ count: Int) throws -> [UInt64: ProviderOutcome.Kind] {
        provider.submit(try (1...count).map { try Self.notification($0) })
        return outcomes(until: count)
    }

    func outcomes(until count: Int) -> [UInt64: ProviderOutcome.Kind] {
        var outcomes: [UInt64: ProviderOutcome.Kind] = [:]
        let deadline = Deadline.in(.seconds(20))
        while outcomes.count < count, !deadline.hasPassed {
            for outcome in provider.outcomes(within: 100) {
                #expect(outcomes[outcome.key] == nil, "two outcomes for \(outcome.key)")
                outcomes[outcome.key] = outcome.kind
            }
            // A connection gives its last outcomes before its failure.
            if provider.failure != nil {
                for outcome in provider.outcomes(within: 0) { outcomes[outcome.key] = outcome.kind }
                break
            }
        }
        return outcomes
    }

    static func notification(_ number: Int, bytes: Int = 2) throws -> PushNotification {
        PushNotification(
            key: UInt64(number), token: .numbered(number), id: APNsID(high: 0, low: UInt64(number)),
            payload: [UInt8](repeating: 49, count: bytes))
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
        let line = try Line(command: command)
        let outcomes = try line.outcomes(150)
        #expect(outcomes.count == 150 && outcomes.values.allSatisfy { $0 == .accepted })
        line.provider.stop()
        #expect(line.numbers == [Array(1...150)])
        // Command 1 keeps a notification without an expiration for a day, command 2 leaves it out.
        let expiration: UInt32? = command == .enhanced ? 1_750_086_400 : nil
        #expect(
            line.peer.frames[0].allSatisfy {
                $0.command == command && $0.expiration == expiration
            })
    }

    /// An error packet, in the pieces in which the gateway sends it, about the fourth of ten notifications.
    struct Packet: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var pieces: [[UInt8]]
        /// Many times the wait for errors.
        var pause = Duration.zero
        var refused: BinaryStatus? = .invalidToken
    }

    @Test(
        "what follows the named one is sent again on a new connection, and nothing else is",
        arguments: [
            Packet(testDescription: "refusal", pieces: [[8, 8, 0, 0, 0, 4]]),
            Packet(testDescription: "in six pieces", pieces: [[8], [8], [0], [0], [0], [4]]),
            Packet(
                testDescription: "late in the middle", pieces: [[8, 8, 0], [0, 0, 4]],
                pause: .milliseconds(900)),
            Packet(testDescription: "shutdown", pieces: [[8, 10, 0, 0, 0, 4]], refused: nil),
        ])
    func packets(_ packet: Packet) throws {
        let line = try Line(wait: .milliseconds(100)) { wire in
            wire.read(10)
            for piece in packet.pieces {
                wire.say(piece)
                if packet.pause > .zero { Interrupting().wait(packet.pause) }
            }
            wire.close()
        }
        let outcomes = try line.outcomes(10)
        line.provider.stop()
        #expect(outcomes.count == 10)
        for (key, kind) in outcomes {
            #expect(
                kind == (key == 4 ? packet.refused.map { .refusedBinary($0) } : nil) ?? .accepted)
        }
        #expect(line.provider.settledTooEarly == 0)
        #expect(line.numbers == [Array(1...10), Array(5...10)])
    }

    @Test(
        "an end without a whole packet leaves unknown what was on the wire",
        arguments: [[], [8, 8, 0, 0, 0]] as [[UInt8]])
    func cut(_ bytes: [UInt8]) throws {
        let line = try Line { wire in
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
        let line = try Line(command: .simple, wait: .milliseconds(200)) { wire in
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
        let line = try Line(first: false) { wire in
            wire.read(1)
            wire.say(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
            wire.close()
        }
        let kind = try line.outcomes(1)[1]
        #expect(kind.map { if case .garbled = $0 { true } else { false } } == true)
        _ = try line.outcomes(1)
        line.provider.stop(abruptly: true)
        #expect(line.has(said: "the first is 72"))
    }

    @Test("a packet about one that counted as accepted is told, and what followed is sent again")
    func late() throws {
        let line = try Line(wait: .milliseconds(100)) { wire in
            wire.read(11)
            wire.say(.invalidToken, 7)
            wire.close()
        }
        let early = try line.outcomes(10)
        #expect(early.count == 10 && early.values.allSatisfy { $0 == .accepted })
        line.provider.submit([try Line.notification(11)])
        #expect(line.outcomes(until: 1) == [11: .accepted])
        line.provider.stop()
        #expect(line.provider.settledTooEarly == 4)
        #expect(line.numbers == [Array(1...11), [11]])
    }

    @Test("what the host of a gateway has not acknowledged never counts as sent")
    func frozen() throws {
        let release = Interrupting()
        let line = try Line(wait: .milliseconds(100)) { wire in
            wire.read(1)
            // More than the buffers of both hosts hold follows, and nothing of it is read.
            release.wait()
            wire.reset()
        }
        line.provider.submit(try (1...20_000).map { try Line.notification($0, bytes: 2_000) })
        var kinds: [ProviderOutcome.Kind] = []
        let deadline = Deadline.in(.seconds(20))
        while !line.has(said: "no byte"), !line.has(said: "writing"), !deadline.hasPassed {
            kinds += line.provider.outcomes(within: 50).map(\.kind)
        }
        release.end()
        line.provider.stop(abruptly: true)
        kinds += line.provider.outcomes(within: 0).map(\.kind)
        #expect(kinds.contains { if case .unknown = $0 { true } else { false } })
        #expect(line.has(said: "connected"))
    }

    @Test("a payload or token beyond the interface is refused here, and the others go on")
    func unsendable() throws {
        let line = try Line(command: .enhanced)
        line.provider.submit([
            try Line.notification(1), try Line.notification(2, bytes: 257),
            try Line.notification(3),
        ])
        let outcomes = line.outcomes(until: 3)
        line.provider.stop()
        #expect(
            outcomes == [
                1: .accepted, 2: .unsendable("invalid payload size (7)"), 3: .accepted,
            ])
        #expect(line.numbers == [[1, 3]])
    }

    @Test(
        "an end without a word gives all back that was not written, and three of them end the sending"
    )
    func givingUp() throws {
        let line = try Line(window: 2, first: false) { wire in
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

    @Test("a stop waits for the notifications on the wire, an abrupt one leaves them unknown")
    func stops() throws {
        for isAbrupt in [false, true] {
            let line = try Line(wait: .milliseconds(500))
            line.provider.submit(try (1...10).map { try Line.notification($0) })
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

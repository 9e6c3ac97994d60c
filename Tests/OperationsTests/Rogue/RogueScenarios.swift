import APNsProtocol
import APNsSimulator
import SecureTransport
import TestSupport

/// One rogue gateway and the queue it meets, drawn from a seed.
struct RogueCase: CustomStringConvertible {
    let seed: UInt64
    var rows: Int
    var connections: Int
    var scenario: ProviderScenario
    /// Looks around after which the sender is told to stop; nil for never.
    var stopsAfter: Int?
    /// Whether another sender follows, with a gateway that accepts everything.
    var isContinued: Bool

    var description: String {
        "gateway of seed \(seed): \(rows) rows, \(connections) connections, stopped after "
            + "\(stopsAfter.map(String.init) ?? "-"), \(scenario.connections)"
    }

    /// Draws a gateway.
    init(seed: UInt64) {
        var random = SeededGenerator(seed)
        self.seed = seed
        rows = Int.random(in: 1...(Bool.random(using: &random) ? 12 : 60), using: &random)
        connections = Int.random(in: 1...2, using: &random)
        let mood = Mood.allCases.randomElement(using: &random) ?? .chaos
        scenario = ProviderScenario(
            (0..<Int.random(in: 1...6, using: &random)).map { _ in mood.scene(using: &random) })
        stopsAfter =
            Int.random(in: 0..<10, using: &random) == 0 ? .random(in: 1...30, using: &random) : nil
        isContinued = Int.random(in: 0..<4, using: &random) == 0
    }

    /// What all actions of the scenario have in common: how patient the sender must be.
    private var actions: [ProviderScenario.Action] {
        scenario.connections.flatMap { $0.actions + [$0.rest] }
    }

    /// Whether an act waits for a deadline, so that deadlines must be short.
    var isSlow: Bool {
        actions.contains { act in
            switch act {
            case .noAnswer, .partialAnswer, .answerLate, .rawBytes, .changeStreams: true
            default: false
            }
        }
    }

    /// Whether answers may be lost on the way, and requests left unread.
    func isViolent(_ connection: Int) -> Bool {
        let scene = scenario.connection(connection)
        return scene.opening != .normal
            || (scene.actions + [scene.rest]).contains { action in
                switch action {
                case .resetConnection, .closeConnection, .rawBytes: true
                default: false
                }
            }
    }

    /// Whether any connection is violent.
    var isViolent: Bool {
        stopsAfter != nil || (1...scenario.connections.count).contains(where: isViolent)
    }
}

/// The main behaviour of a gateway.
private enum Mood: CaseIterable {
    case kind, mute, resets, refuses, cuts, goesAway, garbles, bad, throttles, chaos

    func scene(using random: inout SeededGenerator) -> ProviderScenario.Connection {
        let greetings: [ProviderScenario.Opening] = [.reset, .plaintext, .silent, .close]
        let isRude = self != .kind && Int.random(in: 0..<8, using: &random) == 0
        let greeting = isRude ? greetings.randomElement(using: &random) ?? .silent : .normal
        let actions = (0..<Int.random(in: 0...30, using: &random)).map { _ in act(using: &random) }
        let goesOn = Int.random(in: 0..<5, using: &random) < 3
        return .init(greeting, actions: actions, rest: goesOn ? .serve : act(using: &random))
    }

    private func act(using random: inout SeededGenerator) -> ProviderScenario.Action {
        let share = Int.random(in: 0..<100, using: &random)
        switch self {
        case .kind: return share < 95 ? .serve : Self.answer(using: &random)
        case .mute: return share < 70 ? .noAnswer : share < 85 ? .partialAnswer : .serve
        case .resets: return share < 70 ? .reset(Self.code(using: &random)) : .serve
        case .refuses: return share < 60 ? .reset(.refusedStream) : .serve
        case .cuts: return share < 30 ? .resetConnection : share < 45 ? .closeConnection : .serve
        case .goesAway: return share < 20 ? .goAway : share < 30 ? .noAnswer : .serve
        case .garbles: return share < 50 ? .rawBytes(Self.bytes(using: &random)) : .serve
        case .bad: return share < 85 ? .answer(ScriptedReply(.badDeviceToken)) : .serve
        case .throttles: return share < 60 ? Self.answer(using: &random) : .serve
        case .chaos: return Self.anything(using: &random)
        }
    }

    private static func anything(using random: inout SeededGenerator) -> ProviderScenario.Action {
        switch Int.random(in: 0..<14, using: &random) {
        case 0..<5: .serve
        case 5: answer(using: &random)
        case 6: .answerLate
        case 7: .noAnswer
        case 8: .partialAnswer
        case 9: .reset(code(using: &random))
        case 10: .goAway
        case 11: .resetConnection
        case 12: .rawBytes(bytes(using: &random))
        default: .changeStreams(.random(in: 0...20, using: &random))
        }
    }

    private static func code(using random: inout SeededGenerator) -> HTTP2ErrorCode {
        HTTP2ErrorCode(rawValue: .random(in: 0...14, using: &random))
    }

    private static func answer(using random: inout SeededGenerator) -> ProviderScenario.Action {
        let replies: [ScriptedReply] = [
            .accepted, ScriptedReply(.unregistered, timestamp: 1_700_000_000_123),
            ScriptedReply(.badDeviceToken), ScriptedReply(.payloadTooLarge),
            ScriptedReply(.tooManyRequests, retryAfter: "7"), ScriptedReply(.internalServerError),
            ScriptedReply(.serviceUnavailable), ScriptedReply(.shutdown),
            ScriptedReply(status: 418, body: Array("{".utf8)),
            ScriptedReply(status: 410, body: random.bytes(20)),
            ScriptedReply(status: 500, body: random.bytes(9_000), largestPiece: 100),
        ]
        let isFatal = Int.random(in: 0..<40, using: &random) == 0
        return .answer(
            isFatal
                ? ScriptedReply(.topicDisallowed)
                : replies.randomElement(using: &random) ?? .accepted)
    }

    /// Bytes where a frame should be: frames that HTTP/2 forbids, and noise.
    private static func bytes(using random: inout SeededGenerator) -> [UInt8] {
        func frame(_ type: UInt8, _ stream: Int32, _ payload: [UInt8]) -> [UInt8] {
            HTTP2ServerSession.frame(type: type, flags: 4, streamID: stream, length: payload.count)
                + payload
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return frame(0, 0, [1, 2, 3])
        case 1: return frame(1, 1, random.bytes(30))
        case 2: return frame(3, 99, [0, 0, 0, 7])
        case 3: return frame(4, 0, [1])
        case 4: return frame(5, 1, random.bytes(12))
        case 5: return frame(8, 0, [0, 0, 0, 0])
        case 6: return [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1]
        default: return random.bytes(Int.random(in: 1...64, using: &random))
        }
    }
}

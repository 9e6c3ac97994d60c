import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("Serving as Apple's binary gateway did")
struct BinaryGatewayTests {
    @Test("good frames of every command have no answer, and each is logged once in its order")
    func silence() throws {
        let gateway = try BinaryGateway.start()
        let client = try gateway.connect()
        let frames = try BinaryVector.all.map { try $0.frame() }
        try client.write(BinaryVector.all.flatMap(\.bytes))
        #expect(gateway.log.totals(atLeast: 5).accepted == 5)
        client.finish()
        #expect(try client.answer() == .nothing)
        #expect(client.end == .end(.closeNotify))
        #expect(gateway.log.accepted == frames)
        let record = try #require(gateway.log.connections(atLeast: 1).first)
        #expect(record.end == .client && record.frames == 5 && record.unfinished == 0)
        #expect(record.bytes == BinaryVector.all.reduce(0) { $0 + $1.bytes.count })
        #expect(record.subject?.contains("UID=com.example.chat") == true)
    }

    /// What the rules make of notifications to the tokens from 1 on.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let count: Int
        let command: BinaryCommand
        let answer: BinaryAnswer
        let end: ConnectionEnd
        let accepted: [Int]
        let change: @Sendable (inout BinaryRules) -> Void

        init(
            _ name: String, _ count: Int, _ answer: BinaryAnswer,
            of command: BinaryCommand = .framed, end: ConnectionEnd = .closeNotify,
            accepted: [Int] = [],
            _ change: @escaping @Sendable (inout BinaryRules) -> Void
        ) {
            (testDescription, self.count, self.command) = (name, count, command)
            (self.answer, self.end, self.accepted) = (answer, end, accepted)
            self.change = change
        }

        private static func packet(_ identifier: UInt32) -> BinaryAnswer {
            .packet(BinaryErrorPacket(.invalidToken, identifier: identifier))
        }

        private static func reject(_ number: Int) -> @Sendable (inout BinaryRules) -> Void {
            { $0.script.tokens[Numbered.token(number)] = .reject(.invalidToken) }
        }

        static let all = [
            Case(
                "a rejected token: all behind is discarded", 6, packet(3), accepted: [1, 2],
                reject(3)),
            Case("a token that is not known", 2, packet(2), accepted: [1]) {
                $0.known = [Numbered.token(1)]
            },
            Case("command 0 has no packet", 3, .nothing, of: .simple, accepted: [1], reject(2)),
            Case("a silent close", 1, .nothing) { $0.script.usual = .close },
            Case("a reset", 1, .nothing, end: .reset) { $0.script.usual = .reset },
            Case("a packet in pieces", 1, packet(1)) {
                ($0.script.usual, $0.packetPiece) = (.reject(.invalidToken), 1)
            },
            Case("a packet that is cut short", 1, .unfinished(bytes: 5)) {
                ($0.script.usual, $0.packetBytes) = (.reject(.invalidToken), 5)
            },
            Case("a packet without a byte", 1, .nothing) {
                ($0.script.usual, $0.packetBytes) = (.reject(.invalidToken), 0)
            },
        ]
    }

    @Test("the rules decide what is accepted, answered and discarded", arguments: Case.all)
    func rules(_ one: Case) throws {
        let gateway = try BinaryGateway.start(one.change)
        let client = try gateway.connect()
        try client.write(try (1...one.count).map { try Numbered.frame($0, one.command) })
        #expect(try client.answer() == one.answer)
        #expect(client.end == .end(one.end))
        let totals = gateway.log.totals(atLeast: one.count)
        #expect(gateway.log.accepted.map(\.token) == one.accepted.map(Numbered.token))
        let rejected = totals.rejected["8", default: 0]
        #expect(totals.discarded + rejected == one.count - one.accepted.count)
        // The next connection is read like the first.
        try gateway.connect().write([try Numbered.frame(1)])
        #expect(gateway.log.totals(atLeast: one.count + 1).frames == one.count + 1)
    }

    @Test("a token of fewer than 32 bytes has status 5, one of 32 to 100 is accepted")
    func tokenSizes() throws {
        for (count, status) in [(31, BinaryStatus.invalidTokenSize), (32, nil), (100, nil)] {
            let gateway = try BinaryGateway.start()
            let client = try gateway.connect()
            let token = try #require(DeviceToken([UInt8](repeating: 7, count: count)))
            try client.write([
                try BinaryFrame(
                    .framed, identifier: 9, priority: .immediate, token: token,
                    payload: BinaryVector.payload)
            ])
            if let status {
                #expect(
                    try client.answer() == .packet(BinaryErrorPacket(status, identifier: 9)))
            }
            #expect(gateway.log.totals(atLeast: 1).accepted == (status == nil ? 1 : 0))
        }
    }

    @Test("lengths of one byte have status 128, and the log says why")
    func malformed() throws {
        let gateway = try BinaryGateway.start()
        let client = try gateway.connect()
        try client.write(BinaryVector.all[1].bytes + BinaryVector.oneByteLengths)
        #expect(
            try client.answer() == .packet(BinaryErrorPacket(.protocolError, identifier: 0)))
        // The gateway waits for the client's end, so that no reset overtakes the packet.
        client.connection.close()
        let record = try #require(gateway.log.connections(atLeast: 1).first)
        #expect(record.accepted == 1 && record.status == 128)
        #expect(record.error?.contains("one byte") == true)
        #expect(gateway.log.totals.malformed == 1)
    }

    @Test("a delayed packet comes after that many later frames, and not before")
    func delayedFrames() throws {
        let gateway = try BinaryGateway.start {
            $0.script.tokens[Numbered.token(2)] = .reject(.invalidToken, delay: .frames(500))
            $0.quiet = .seconds(3600)
        }
        let client = try gateway.connect()
        try client.write(try (1...501).map { try Numbered.frame($0) })
        #expect(gateway.log.totals(atLeast: 501).discarded == 499)
        #expect(try client.answer(by: .now) == .nothing)
        try client.write([try Numbered.frame(502)])
        #expect(
            try client.answer() == .packet(BinaryErrorPacket(.invalidToken, identifier: 2)))
        #expect(gateway.log.totals.accepted == 1)
    }

    @Test("a delayed packet comes after that many later bytes, or when the client stays silent")
    func delayedBytes() throws {
        let gateway = try BinaryGateway.start {
            $0.script.tokens[Numbered.token(1)] = .reject(.invalidToken, delay: .bytes(100))
            $0.script.tokens[Numbered.token(2)] = .reject(.unknown, delay: .frames(9))
            $0.quiet = .milliseconds(1)
        }
        let silent = try gateway.connect()
        try silent.write([try Numbered.frame(2)])
        #expect(
            try silent.answer() == .packet(BinaryErrorPacket(.unknown, identifier: 2)))
        let client = try gateway.connect()
        try client.write([try Numbered.frame(1), try Numbered.frame(3), try Numbered.frame(4)])
        #expect(
            try client.answer() == .packet(BinaryErrorPacket(.invalidToken, identifier: 1)))
    }

    @Test("a shutdown accepts the notification that it names, and the rest goes elsewhere")
    func shutdown() throws {
        let gateway = try BinaryGateway.start {
            $0.shutdownAt = 3
            $0.connections = 1
        }
        let client = try gateway.connect()
        try client.write(try (1...5).map { try Numbered.frame($0, .enhanced) })
        #expect(try client.answer() == .packet(BinaryErrorPacket(.shutdown, identifier: 3)))
        let again = try gateway.connect()
        try again.write(try (4...5).map { try Numbered.frame($0, .enhanced) })
        #expect(gateway.log.totals(atLeast: 7).accepted == 5)
        #expect(gateway.log.accepted.map(\.identifier) == [1, 2, 3, 4, 5])
    }

    @Test(
        "a client without a certificate, or with a bad one, sends nothing that counts",
        arguments: [nil, SimulatorCertificates.Name.foreignClient, .expiredClient])
    func badClients(name: SimulatorCertificates.Name?) throws {
        let gateway = try BinaryGateway.start()
        #expect(throws: TransportFailure.self) {
            let client = try gateway.connect(name)
            try client.write([try Numbered.frame(1)])
            _ = try client.answer()
        }
        #expect(gateway.log.connections(atLeast: 1).first?.end == .handshakeFailed)
        #expect(gateway.log.totals.frames == 0)
    }

    @Test("a certificate of several topics names them all, and its client is served")
    func severalTopics() throws {
        let identity = try shared.get().certificates.identity(.clientOfSeveralTopics)
        #expect(identity.topics == SimulatorCertificates.severalTopics)
        let gateway = try BinaryGateway.start()
        try gateway.connect(.clientOfSeveralTopics).write([try Numbered.frame(1)])
        #expect(gateway.log.totals(atLeast: 1).accepted == 1)
    }

    @Test(
        "a token dies after three notifications, and the feedback list has it with the time, once")
    func dying() throws {
        let dead = DeadTokens()
        let gateway = try BinaryGateway.start(dead: dead) {
            $0.script.tokens[Numbered.token(1)] = .dead(after: 3)
        }
        let feedback = try FeedbackGateway(
            certificates: try shared.get().certificates, dead: dead)
        let client = try gateway.connect()
        let one = try Numbered.frame(1)
        try client.write([one, one, one, try Numbered.frame(2)])
        #expect(gateway.log.totals(atLeast: 4).dead == 0)
        #expect(try feedback.read().bytes.isEmpty)
        try client.write([one, one])
        #expect(gateway.log.totals(atLeast: 6).dead == 2)
        dead.kill(Numbered.token(2))
        try client.write([try Numbered.frame(2)])
        #expect(gateway.log.totals(atLeast: 7).accepted == 7)
        #expect(dead.waiting == 2)
        var list: [UInt8] = []
        for number in 1...2 {
            FeedbackTuple(
                time: EpochSeconds(FeedbackVector.start), token: Numbered.token(number)
            ).encode(into: &list)
        }
        #expect(try feedback.read().bytes == list)
        #expect(try feedback.read().bytes.isEmpty, "each list is served once")
        dead.revive(Numbered.token(1))
        try client.write([one])
        #expect(gateway.log.totals(atLeast: 8).accepted == 8)
        #expect(dead.waiting == 0)
    }

    @Test("many notifications with one bad in a hundred are each accepted once")
    func many() throws {
        let gateway = try BinaryGateway.start {
            $0.script.shares = [
                .init(millionths: 10_000, action: .reject(.invalidToken, delay: .frames(40)))
            ]
        }
        let count = Series.length("PUSHSWEEP_TEST_BINARY_FRAMES", short: 20_000, long: 100_000)
        var encoded: [UInt8] = []
        var starts = [0]
        for number in 0..<count {
            try Numbered.frame(number).encode(into: &encoded)
            starts.append(encoded.count)
        }
        var next = 0
        var rejected: Set<Int> = []
        // A sender that asks after each part whether there is an answer.
        while next < count {
            let client = try gateway.connect()
            var answer = BinaryAnswer.nothing
            while next < count, client.end == nil {
                let end = min(count, next + 1_000)
                do {
                    try client.write(Array(encoded[starts[next]..<starts[end]]))
                } catch { break }
                next = end
                answer = try client.answer(by: .now)
            }
            if client.end == nil { client.finish() }
            answer = try client.answer()
            guard case .packet(let packet) = answer else { break }
            #expect(packet.status == .invalidToken)
            rejected.insert(Int(packet.identifier))
            next = Int(packet.identifier) + 1
        }
        let totals = gateway.log.totals(atLeast: count)
        gateway.stop()
        let byToken = gateway.log.acceptedByToken
        #expect(byToken.count == count - rejected.count)
        #expect(byToken.values.allSatisfy { $0 == 1 })
        #expect(totals.rejected["8"] == rejected.count)
        #expect((count / 143...count / 77).contains(rejected.count))
        #expect(rejected.allSatisfy { byToken[Numbered.token($0)] == nil })
    }
}

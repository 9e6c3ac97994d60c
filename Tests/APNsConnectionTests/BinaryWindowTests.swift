import APNsProtocol
import TestSupport
import Testing

@testable import APNsConnection

@Suite("The open notifications of a binary connection")
struct BinaryWindowTests {
    /// A window with five notifications of 100 bytes each, whose keys are their identifiers, of which silence
    /// has settled some.
    private static func window(settled: Int = 0) throws -> BinaryWindow {
        var window = BinaryWindow(wait: 1_000)
        for number in 1...5 {
            window.append([try notification(number)], ends: [number * 100])
        }
        window.received(settled * 100, at: 0)
        if settled > 0 { #expect(window.settle(at: 1_000).count == settled) }
        return window
    }

    static func notification(_ number: Int) throws -> PushNotification {
        PushNotification(
            key: UInt64(number), token: .numbered(number),
            id: APNsID(high: 0, low: UInt64(number)),
            payload: Array("{}".utf8))
    }

    @Test("silence settles what was received before it, in order, and nothing else")
    func silence() throws {
        var window = try Self.window()
        window.received(250, at: 10_000)
        #expect(window.settle(at: 10_999).isEmpty)
        #expect(window.settle(at: 11_000) == [1, 2])
        #expect(window.first == 3 && window.count == 3)
        // The rest was never received, so no time settles it.
        #expect(window.settle(at: 99_000).isEmpty)
        window.received(500, at: 99_000)
        #expect(window.settle(at: 100_000) == [3, 4, 5])
        #expect(window.isEmpty)
    }

    /// What ends a connection, and what follows for the five notifications.
    struct End: Sendable, CustomTestStringConvertible {
        var settled = 0
        var packet: BinaryErrorPacket?
        /// Whether the frames have identifiers.
        var isNamed = true
        var sent = 500
        var accepted: [UInt64] = []
        var refused: UInt64?
        var again: [UInt64] = []
        var unknown: [UInt64] = []
        var early = 0

        var testDescription: String {
            "\(packet.map { "\($0)" } ?? "no packet"), \(settled) settled, \(sent) sent"
        }
    }

    static let ends: [End] =
        [
            // A refusal accepts those before it and sends those after it again.
            End(
                packet: .init(.invalidToken, identifier: 3), accepted: [1, 2], refused: 3,
                again: [4, 5]),
            // A shutdown accepts the one that it names too.
            End(packet: .init(.shutdown, identifier: 3), accepted: [1, 2, 3], again: [4, 5]),
            // About one that silence has settled: those that were dropped with it are counted.
            End(
                settled: 3, packet: .init(.invalidToken, identifier: 2), again: [4, 5], early: 2),
            End(settled: 3, packet: .init(.shutdown, identifier: 2), again: [4, 5], early: 1),
            // Status 0 about a settled one says nothing about the others.
            End(settled: 3, packet: .init(.noErrors, identifier: 2), unknown: [4, 5]),
            // One that was never sent whole is none of ours.
            End(
                packet: .init(.invalidToken, identifier: 4), sent: 399, again: [4, 5],
                unknown: [1, 2, 3]),
            // Without a name it counts as late only when all were settled.
            End(
                settled: 5, packet: .init(.invalidToken, identifier: 0), isNamed: false, early: 1),
            End(
                settled: 3, packet: .init(.invalidToken, identifier: 0), isNamed: false,
                unknown: [4, 5]),
            // The third frame lacks its last byte.
            End(sent: 299, again: [3, 4, 5], unknown: [1, 2]),
        ]
        // A packet that names nothing of ours, or says nothing about those after it.
        + [
            BinaryErrorPacket(.invalidToken, identifier: 0), .init(.invalidToken, identifier: 6),
            .init(.shutdown, identifier: 0), .init(.protocolError, identifier: .max),
            .init(.noErrors, identifier: 3),
        ].map { End(packet: $0, unknown: [1, 2, 3, 4, 5]) }

    @Test("the end of a connection decides about each open notification", arguments: ends)
    func decided(end: End) throws {
        var window = try Self.window(settled: end.settled)
        let resolution =
            if let packet = end.packet, end.isNamed {
                window.resolve(packet, sent: end.sent)
            } else if end.packet != nil {
                window.abandonAfterPacket(sent: end.sent)
            } else {
                window.abandon(sent: end.sent)
            }
        #expect(resolution.accepted == end.accepted)
        #expect(resolution.refused?.notification.key == end.refused)
        #expect(resolution.refused == nil || resolution.refused?.status == end.packet?.status)
        #expect(resolution.again.map(\.key) == end.again)
        #expect(resolution.unknown.map(\.key) == end.unknown)
        #expect(resolution.settledTooEarly == end.early)
        #expect(window.isEmpty)
    }

    @Test("each notification leaves the window once, whatever happens in which order")
    func conservation() throws {
        var random = SeededGenerator("binary windows")
        for _ in 0..<2_000 {
            var window = BinaryWindow(wait: 50)
            var (added, offset, now) = (0, 0, Int64(0))
            var left: [UInt64] = []
            for _ in 0..<Int.random(in: 1...60, using: &random) {
                now += Int64.random(in: 0...30, using: &random)
                switch Int.random(in: 0...2, using: &random) {
                case 0:
                    var (batch, ends): ([PushNotification], [Int]) = ([], [])
                    for _ in 0..<Int.random(in: 0...4, using: &random) {
                        added += 1
                        offset += Int.random(in: 50...150, using: &random)
                        batch.append(try Self.notification(added))
                        ends.append(offset)
                    }
                    window.append(batch[...], ends: ends)
                case 1: window.received(Int.random(in: 0...offset, using: &random), at: now)
                default: left += window.settle(at: now)
                }
            }
            let identifier = UInt32.random(in: 0...UInt32(added + 1), using: &random)
            let status = BinaryStatus.listed.randomElement(using: &random) ?? .unknown
            let resolution =
                Bool.random(using: &random)
                ? window.resolve(
                    BinaryErrorPacket(status, identifier: identifier), sent: offset)
                : window.abandon(sent: Int.random(in: 0...offset, using: &random))
            left += resolution.accepted
            left += resolution.refused.map { [$0.notification.key] } ?? []
            left += resolution.unknown.map(\.key) + resolution.again.map(\.key)
            #expect(
                left.sorted() == (0..<added).map { UInt64($0 + 1) },
                "seed \(random.seed): \(left) of \(added)")
            #expect(window.isEmpty)
        }
    }
}

@Suite("The decisions about binary connections")
struct BinaryConversationTests {
    /// A new connection with some notifications of 100 bytes on it.
    private static func connect(
        _ conversation: inout BinaryConversation, _ numbers: ClosedRange<Int> = 1...1
    ) throws {
        conversation.connected()
        try put(&conversation, numbers)
    }

    private static func put(
        _ conversation: inout BinaryConversation, _ numbers: ClosedRange<Int>
    ) throws {
        for number in numbers {
            conversation.window.append(
                [try BinaryWindowTests.notification(number)], ends: [number * 100])
        }
    }

    @Test(
        "the next connection follows at once after an accepted one, and at growing pauses after refusals"
    )
    func pauses() throws {
        var conversation = BinaryConversation(wait: 1_000)
        try Self.connect(&conversation, 1...3)
        _ = conversation.resolve(BinaryErrorPacket(.invalidToken, identifier: 2), sent: 300)
        #expect(conversation.ended() == 0)
        let pauses = try (0..<9).map { _ in
            try Self.connect(&conversation)
            _ = conversation.resolve(BinaryErrorPacket(.invalidToken, identifier: 1), sent: 100)
            return conversation.ended()
        }
        #expect(pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000])
    }

    @Test(
        "three connections in a row without progress are the last, and an accepted one forgives them"
    )
    func givingUp() throws {
        var conversation = BinaryConversation(wait: 1_000)
        for pause in [500, 1_000] {
            try Self.connect(&conversation)
            _ = conversation.resolve(nil, sent: 100)
            #expect(conversation.ended() == pause)
        }
        var other = conversation
        #expect(other.ended() == nil)
        try Self.connect(&conversation)
        _ = conversation.received(100, at: 0)
        #expect(conversation.received(100, at: 1_000).count == 1)
        #expect(conversation.ended() == 0)
        #expect(conversation.ended() == 500)
    }

    @Test("after a loss a connection has three open, then twice as many as were accepted on it")
    func caution() throws {
        var conversation = BinaryConversation(wait: 1_000)
        try Self.connect(&conversation, 1...3)
        #expect(conversation.room(of: 20_000) == 19_997)
        _ = conversation.resolve(nil, sent: 300)
        conversation.connected()
        var (sent, now) = (0, Int64(0))
        var rooms: [Int] = []
        while conversation.room(of: 20_000) < 20_000, rooms.count < 30 {
            let room = conversation.room(of: 20_000)
            rooms.append(room)
            try Self.put(&conversation, sent + 1...sent + room)
            sent += room
            _ = conversation.received(sent * 100, at: now)
            now += 1_000
            #expect(conversation.received(sent * 100, at: now).count == room)
        }
        #expect(rooms == [3, 6, 18, 54, 162, 486, 1_458])
        // The next connection may have all again.
        conversation.connected()
        #expect(conversation.room(of: 20_000) == 20_000)
    }
}

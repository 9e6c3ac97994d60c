import APNsProtocol
import TestSupport
import Testing

@testable import APNsConnection

@Suite("The open notifications of a binary connection")
struct BinaryWindowTests {
    /// A window with notifications of 100 bytes each, whose keys are their identifiers.
    private static func window(_ count: Int, wait: Int64 = 1_000) throws -> BinaryWindow {
        var window = BinaryWindow(wait: wait)
        for number in 1...count {
            window.append([try notification(number)], ends: [number * 100])
        }
        return window
    }

    static func notification(_ number: Int) throws -> PushNotification {
        PushNotification(
            key: UInt64(number), token: .numbered(number),
            id: APNsID(high: 0, low: UInt64(number)),
            payload: Array("{}".utf8))
    }

    private static func keys(_ notifications: ArraySlice<PushNotification>) -> [UInt64] {
        notifications.map(\.key)
    }

    @Test("silence settles what was received before it, in order, and nothing else")
    func silence() throws {
        var window = try Self.window(5)
        window.received(250, at: 10_000)
        #expect(window.settle(at: 10_999).isEmpty)
        #expect(window.nextSettlement == 11_000)
        #expect(window.settle(at: 11_000) == [1, 2])
        #expect(window.first == 3 && window.count == 3)
        // The rest was never received, so no time settles it.
        #expect(window.settle(at: 99_000).isEmpty)
        window.received(500, at: 99_000)
        #expect(window.settle(at: 100_000) == [3, 4, 5])
        #expect(window.isEmpty)
    }

    @Test("a refusal accepts those before it and sends those after it again")
    func refusal() throws {
        var window = try Self.window(5)
        let resolution = window.resolve(BinaryErrorPacket(.invalidToken, identifier: 3), sent: 500)
        #expect(resolution.accepted == [1, 2])
        #expect(resolution.refused?.notification.key == 3)
        #expect(resolution.refused?.status == .invalidToken)
        #expect(Self.keys(resolution.again) == [4, 5])
        #expect(resolution.unknown.isEmpty && resolution.settledTooEarly == 0)
        #expect(window.isEmpty)
    }

    @Test("a shutdown accepts the one that it names too")
    func shutdown() throws {
        var window = try Self.window(5)
        let resolution = window.resolve(BinaryErrorPacket(.shutdown, identifier: 3), sent: 500)
        #expect(resolution.accepted == [1, 2, 3])
        #expect(resolution.refused == nil)
        #expect(Self.keys(resolution.again) == [4, 5])
    }

    @Test(
        "a packet that names nothing of ours leaves all unknown",
        arguments: [
            BinaryErrorPacket(.invalidToken, identifier: 0),
            BinaryErrorPacket(.invalidToken, identifier: 6),
            BinaryErrorPacket(.shutdown, identifier: 0),
            BinaryErrorPacket(.protocolError, identifier: .max),
            // "No errors" does not say what became of those after it.
            BinaryErrorPacket(.noErrors, identifier: 3),
        ])
    func unusablePacket(_ packet: BinaryErrorPacket) throws {
        var window = try Self.window(5)
        let resolution = window.resolve(packet, sent: 500)
        #expect(Self.keys(resolution.unknown) == [1, 2, 3, 4, 5])
        #expect(resolution.accepted.isEmpty && resolution.again.isEmpty)
        #expect(resolution.refused == nil)
    }

    @Test("a packet about one that silence has settled counts those that were dropped with it")
    func lateRefusal() throws {
        for (status, early) in [(BinaryStatus.invalidToken, 2), (.shutdown, 1)] {
            var window = try Self.window(5)
            window.received(300, at: 0)
            #expect(window.settle(at: 1_000).count == 3)
            let resolution = window.resolve(BinaryErrorPacket(status, identifier: 2), sent: 500)
            #expect(resolution.settledTooEarly == early)
            #expect(Self.keys(resolution.again) == [4, 5])
            #expect(resolution.unknown.isEmpty && resolution.refused == nil)
        }
    }

    @Test("a packet about one that was never sent whole names none of ours")
    func unsentName() throws {
        var window = try Self.window(5)
        let resolution = window.resolve(
            BinaryErrorPacket(.invalidToken, identifier: 4), sent: 399)
        #expect(Self.keys(resolution.unknown) == [1, 2, 3])
        #expect(Self.keys(resolution.again) == [4, 5])
        #expect(resolution.accepted == [] && resolution.refused == nil)
    }

    @Test("status 0 about a settled one says nothing about the others")
    func lateNoErrors() throws {
        var window = try Self.window(5)
        window.received(300, at: 0)
        _ = window.settle(at: 1_000)
        let resolution = window.resolve(BinaryErrorPacket(.noErrors, identifier: 2), sent: 500)
        #expect(resolution.settledTooEarly == 0)
        #expect(Self.keys(resolution.unknown) == [4, 5])
    }

    @Test("a packet without a name counts as late only when all were settled")
    func namelessRefusal() throws {
        for (offset, early) in [(500, 1), (300, 0)] {
            var window = try Self.window(5)
            window.received(offset, at: 0)
            _ = window.settle(at: 1_000)
            #expect(window.abandonAfterPacket(sent: 500).settledTooEarly == early)
        }
    }

    @Test("an end without a packet leaves unknown what was sent whole, and nothing else")
    func cut() throws {
        var window = try Self.window(5)
        // The third frame lacks its last byte.
        let resolution = window.abandon(sent: 299)
        #expect(Self.keys(resolution.unknown) == [1, 2])
        #expect(Self.keys(resolution.again) == [3, 4, 5])
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
            left += Self.keys(resolution.unknown) + Self.keys(resolution.again)
            #expect(
                left.sorted() == (0..<added).map { UInt64($0 + 1) },
                "seed \(random.seed): \(left) of \(added)")
            #expect(window.isEmpty)
        }
    }
}

@Suite("The decisions about binary connections")
struct BinaryConversationTests {
    private static func connected() throws -> BinaryConversation {
        var conversation = BinaryConversation(wait: 1_000)
        conversation.connected()
        for number in 1...3 {
            conversation.put([try BinaryWindowTests.notification(number)], ends: [number * 100])
        }
        return conversation
    }

    @Test("the next connection follows at once after one that brought an accepted notification")
    func progress() throws {
        var conversation = try Self.connected()
        _ = conversation.refused(BinaryErrorPacket(.invalidToken, identifier: 2), sent: 300)
        #expect(conversation.ended() == .milliseconds(0))
    }

    @Test("connections that bring only refusals follow at growing pauses, up to a second")
    func refusals() throws {
        var conversation = try Self.connected()
        var pauses: [Int] = []
        for _ in 0..<9 {
            conversation.connected()
            conversation.put([try BinaryWindowTests.notification(1)], ends: [100])
            _ = conversation.refused(BinaryErrorPacket(.invalidToken, identifier: 1), sent: 100)
            guard case .milliseconds(let pause) = conversation.ended() else {
                Issue.record("it gave up")
                return
            }
            pauses.append(pause)
        }
        #expect(pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000])
    }

    @Test("three connections in a row without progress are the last")
    func givingUp() throws {
        var conversation = BinaryConversation(wait: 1_000)
        var pauses: [NextConnection] = []
        for _ in 0..<3 {
            conversation.connected()
            conversation.put([try BinaryWindowTests.notification(1)], ends: [100])
            _ = conversation.lost(sent: 100)
            pauses.append(conversation.ended())
        }
        #expect(pauses == [.milliseconds(500), .milliseconds(1_000), .giveUp])
    }

    @Test("after a loss a connection has three open, then twice as many as were accepted on it")
    func caution() throws {
        var conversation = try Self.connected()
        #expect(conversation.room(of: 20_000) == 19_997)
        _ = conversation.lost(sent: 300)
        conversation.connected()
        #expect(conversation.room(of: 20_000) == 3)
        var (sent, now) = (0, Int64(0))
        var rooms: [Int] = []
        while conversation.room(of: 20_000) < 20_000, rooms.count < 30 {
            let room = conversation.room(of: 20_000)
            rooms.append(room)
            for _ in 0..<room {
                sent += 1
                conversation.put([try BinaryWindowTests.notification(sent)], ends: [sent * 100])
            }
            _ = conversation.received(sent * 100, at: now)
            now += 1_000
            #expect(conversation.received(sent * 100, at: now).count == room)
        }
        #expect(rooms == [3, 6, 18, 54, 162, 486, 1_458])
        // The next connection may have all again.
        conversation.connected()
        #expect(conversation.room(of: 20_000) == 20_000)
    }

    @Test("an end after accepted notifications forgives the failures before it")
    func forgiveness() throws {
        var conversation = try Self.connected()
        for _ in 0..<2 { _ = conversation.ended() }
        conversation.connected()
        conversation.put([try BinaryWindowTests.notification(1)], ends: [100])
        _ = conversation.received(100, at: 0)
        #expect(conversation.received(100, at: 1_000).count == 1)
        #expect(conversation.ended() == .milliseconds(0))
        #expect(conversation.ended() == .milliseconds(500))
    }
}

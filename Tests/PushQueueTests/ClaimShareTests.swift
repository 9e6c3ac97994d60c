import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Shares of a queue")
struct ClaimShareTests {
    private static func stage(_ queueCase: QueueCase, rows: Int) throws -> QueueStage {
        let stage = try QueueStage(queueCase)
        try stage.register(0..<10)
        try stage.enqueue((0..<rows).map { $0 % 10 })
        return stage
    }

    @Test("a sender beside another claims its own stretches first", arguments: QueueCase.all)
    func apart(_ queueCase: QueueCase) throws {
        let stage = try Self.stage(queueCase, rows: 5_000)
        let (first, second) = (try stage.queue(run: "a"), try stage.queue(run: "b"))
        let opening = try #require(try first.claim(3))
        #expect(opening.keys == [1, 2, 3])
        // The second sees the first, and its stretches are the odd ones.
        var cursor = QueueCursor()
        let early = try #require(try second.claim(chat, limit: 700, from: &cursor))
        let late = try #require(try second.claim(chat, limit: 700, from: &cursor))
        // The first look shows that the other one lives.
        let (one, two) = (early.keys.map { $0 >> 10 }, late.keys.map { $0 >> 10 })
        #expect(Set(one) == [1] && Set(two) == [1, 3])
        let again = try #require(try first.claim(3_000))
        #expect(Set(again.keys.map { $0 >> 10 }) == [0, 2, 4])
        #expect(again.keys == again.keys.sorted())
    }

    @Test(
        "a sender without rows in its share leaves the next stretches of others to them",
        arguments: QueueCase.all)
    func yields(_ queueCase: QueueCase) throws {
        let stage = try Self.stage(queueCase, rows: 6_500)
        let first = try stage.queue(run: "a")
        let second = try stage.queue(run: "b")
        #expect(try first.claim(3)?.keys == [1, 2, 3])
        var cursor = QueueCursor()
        var stretches: [Set<Int64>] = []
        while stretches.count < 6, let claim = try second.claim(chat, limit: 2_000, from: &cursor) {
            stretches.append(Set(claim.keys.map { $0 >> 10 }))
        }
        // Its own are 1, 3 and 5; of the others it begins behind the next two, from its place on.
        #expect(stretches == [[1, 3], [3, 5], [4, 6], [0, 2], [2]])
    }

    @Test(
        "a sender without rows in its share claims those of others", arguments: QueueCase.all)
    func rest(_ queueCase: QueueCase) throws {
        let stage = try Self.stage(queueCase, rows: 900)
        let first = try stage.queue(run: "a")
        let second = try stage.queue(run: "b")
        #expect(try first.claim(3)?.keys == [1, 2, 3])
        #expect(try second.claim(3)?.keys == [4, 5, 6])
    }

    @Test(
        "every eighth claim beside others begins with the oldest row", arguments: QueueCase.all)
    func oldest(_ queueCase: QueueCase) throws {
        let stage = try Self.stage(queueCase, rows: 4_500)
        let first = try stage.queue(run: "a")
        let second = try stage.queue(run: "b")
        #expect(try first.claim(3)?.keys == [1, 2, 3])
        var cursor = QueueCursor()
        let keys = try (0..<16).map { _ in
            try #require(try second.claim(chat, limit: 10, from: &cursor)).keys[0]
        }
        #expect(keys.enumerated().filter { $0.element < 1_024 }.map(\.offset) == [7, 15])
        #expect(keys[7] == 4)
    }

    @Test("a sender that has ended is forgotten, and the order is that of the keys again")
    func forgotten() {
        var senders = LivingSenders(own: "b")
        #expect(senders.share == nil)
        senders.note(["b"], at: 0)
        #expect(senders.share == nil)
        senders.note(["a", "c"], at: 100)
        #expect(senders.share == ClaimShare(senders: 3, place: 1))
        senders.note(["c"], at: 4_000)
        #expect(senders.share == ClaimShare(senders: 3, place: 1))
        senders.note([], at: 5_200)
        #expect(senders.share == ClaimShare(senders: 2, place: 0))
        senders.note([], at: 9_100)
        #expect(senders.share == nil)
    }

    @Test("the guards of keys are those of their stretches, however far apart")
    func guards() {
        #expect(ClaimGuards.guards(of: KeySet(sorted: [1, 1_023])) == [0])
        #expect(ClaimGuards.guards(of: KeySet(sorted: [1_023, 1_024])) == [0, 1])
        #expect(ClaimGuards.guards(of: KeySet(sorted: [-1, 65_536, .max])) == [0, 63])
        #expect(ClaimGuards.guards(of: KeySet(sorted: Array(0..<200_000))) == Array(0..<64))
    }
}

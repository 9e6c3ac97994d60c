import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Shares of a queue")
struct ClaimShareTests {
    /// Two senders of a queue, of which the first has claimed the first three rows.
    private func withSenders(
        _ queueCase: QueueCase, rows: Int, _ body: (PushQueue, PushQueue) throws -> Void
    ) throws {
        let stage = try QueueStage(queueCase, 0..<10, rows: (0..<rows).map { $0 % 10 })
        let (first, second) = (try stage.queue(run: "a"), try stage.queue(run: "b"))
        #expect(try first.claim(3)?.keys == [1, 2, 3])
        try withExtendedLifetime(stage) { try body(first, second) }
    }

    private static func stretches(_ batch: Batch?) -> Set<Int64> {
        Set((batch?.keys ?? []).map { $0 >> 10 })
    }

    @Test("a sender beside another claims its own stretches first", arguments: QueueCase.all)
    func apart(_ queueCase: QueueCase) throws {
        try withSenders(queueCase, rows: 5_000) { first, second in
            // The second sees the first, and its stretches are the odd ones.
            var cursor = QueueCursor()
            #expect(Self.stretches(try second.claim(chat, limit: 700, from: &cursor)) == [1])
            #expect(Self.stretches(try second.claim(chat, limit: 700, from: &cursor)) == [1, 3])
            let again = try #require(try first.claim(3_000))
            #expect(Self.stretches(again) == [0, 2, 4] && again.keys == again.keys.sorted())
        }
    }

    @Test(
        "a sender without rows in its share leaves the next stretches of others to them",
        arguments: QueueCase.all)
    func yields(_ queueCase: QueueCase) throws {
        try withSenders(queueCase, rows: 6_500) { _, second in
            var cursor = QueueCursor()
            var stretches: [Set<Int64>] = []
            while stretches.count < 6,
                let claim = try second.claim(chat, limit: 2_000, from: &cursor)
            {
                stretches.append(Self.stretches(claim))
            }
            // Its own are 1, 3 and 5; of the others it begins behind the next two, from its place on.
            #expect(stretches == [[1, 3], [3, 5], [4, 6], [0, 2], [2]])
        }
    }

    @Test(
        "a sender without rows in its share claims those of others", arguments: QueueCase.all)
    func rest(_ queueCase: QueueCase) throws {
        try withSenders(queueCase, rows: 900) { _, second in
            let keys = try second.claim(3)?.keys
            #expect(keys == [4, 5, 6])
        }
    }

    @Test(
        "every eighth claim beside others begins with the oldest row", arguments: QueueCase.all)
    func oldest(_ queueCase: QueueCase) throws {
        try withSenders(queueCase, rows: 4_500) { _, second in
            var cursor = QueueCursor()
            let keys = try (0..<16).map { _ in
                try #require(try second.claim(chat, limit: 10, from: &cursor)).keys[0]
            }
            #expect(keys.enumerated().filter { $0.element < 1_024 }.map(\.offset) == [7, 15])
            #expect(keys[7] == 4)
        }
    }

    @Test("a sender that has ended is forgotten, and the order is that of the keys again")
    func forgotten() {
        var senders = LivingSenders(own: "b")
        for (runs, time, share) in [
            (["b"], 0, nil), (["a", "c"], 100, (3, 1)), (["c"], 4_000, (3, 1)),
            ([], 5_200, (2, 0)), ([], 9_100, nil),
        ] as [(Set<String>, Double, (Int, Int)?)] {
            senders.note(runs, at: time)
            #expect(senders.share == share.map { ClaimShare(senders: $0.0, place: $0.1) })
        }
    }

    @Test("the guards of keys are those of their stretches, however far apart")
    func guards() {
        #expect(ClaimGuards.guards(of: KeySet(sorted: [1, 1_023])) == [0])
        #expect(ClaimGuards.guards(of: KeySet(sorted: [1_023, 1_024])) == [0, 1])
        #expect(ClaimGuards.guards(of: KeySet(sorted: [-1, 65_536, .max])) == [0, 63])
        #expect(ClaimGuards.guards(of: KeySet(sorted: Array(0..<200_000))) == Array(0..<64))
    }
}

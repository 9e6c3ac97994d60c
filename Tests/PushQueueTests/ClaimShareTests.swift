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

    @Test("a share has every so many stretches of keys, and the next ones are those of others")
    func shares() {
        let share = ClaimShare(senders: 3, place: 1)
        for (key, isOwn) in [
            (0, false), (1_023, false), (1_024, true), (2_047, true), (2_048, false), (4_096, true),
            (4_095, false),
        ] as [(Int64, Bool)] {
            #expect(share.contains(key) == isOwn, "\(key)")
        }
        #expect(share.yielded(0) == 4_095 && share.yielded(1_023) == 4_095)
        #expect(share.yielded(1_024) == 5_119 && share.yielded(.max) == .max)
        #expect(share.condition("k", .mariaDB).sql == "k DIV 1024 % ? = ?")
        #expect(share.condition("k", .sqlite).sql == "k / 1024 % ? = ?")
        #expect(share.condition("k", .sqlite).values == [.integer(3), .integer(1)])
        #expect(ClaimGuards.name(9, space: 255) == "claims ff 09")
        #expect(ClaimGuards.name(10, space: 255) == "claims ff 10")
    }

    @Test("rows of no app are told in order, five groups at most, one row as one")
    func unowned() {
        func rows(_ counts: [Int], isCut: Bool = false) -> UnownedRows {
            UnownedRows(
                table: "q",
                groups: counts.enumerated().map {
                    .init(values: ["app = '\($0)'", "env = NULL"], count: $1)
                },
                isCut: isCut, wanted: ["app = 'a'", "app = 'b'"])
        }
        #expect(
            rows([1]).sentence
                == "1 waiting row of q belongs to no app of the settings, so no sender takes it: app = '0', "
                + "env = NULL (1)")
        let many = rows([6, 5, 4, 3, 2, 1], isCut: true)
        #expect(
            many.count == 21
                && many.sentence.hasPrefix("at least 21 waiting rows of q belong to no"))
        #expect(many.sentence.hasSuffix("app = '4', env = NULL (2); and others"))
        #expect(rows([5, 4, 3, 2, 1]).sentence.hasSuffix("(1)"))
        #expect(
            many.cure
                == "write what the settings look for into these rows, and let the program that inserts do so: "
                + "app = 'a'; or app = 'b'; or name their app and environment in the settings")
        #expect(many.finding.rule == "queue-rows-of-no-app" && many.finding.severity == .medium)
    }
}

import Testing

@testable import Database
@testable import TokenTable

@Suite("Sizes and pauses")
struct SizingTests {
    @Test("chunks grow towards the target time, by half at most")
    func grows() {
        var sizing = ChunkSizing(first: 900)
        sizing.committed(900, in: 1)
        #expect(sizing.size == 1_350)
        sizing.committed(1_350, in: ChunkSizing.aim * 2)
        #expect(sizing.size == 675)
    }

    @Test("a lost conflict halves the chunk, within limits")
    func halves() {
        var sizing = ChunkSizing(first: 900)
        for expected in [450, 225, 112, 100, 100] {
            sizing.lost()
            #expect(sizing.size == expected)
        }
        for _ in 0..<120 { sizing.committed(sizing.size, in: 0) }
        #expect(sizing.size == 5_000)
    }

    @Test("after a lost conflict the chunk grows by a sixteenth until 64 chunks were committed")
    func growsCarefully() {
        var sizing = ChunkSizing(first: 3_200)
        sizing.lost()
        sizing.committed(1_600, in: 1)
        #expect(sizing.size == 1_700)
        // Each loss starts the count again.
        for _ in 0..<62 { sizing.committed(sizing.size, in: ChunkSizing.aim) }
        sizing.lost()
        for _ in 0..<64 { sizing.committed(sizing.size, in: ChunkSizing.aim) }
        #expect(sizing.size == 850)
        sizing.committed(850, in: 1)
        #expect(sizing.size == 1_275)
    }

    @Test("large rows shrink the chunk down to one token, and growth respects their size")
    func bytes() {
        var sizing = ChunkSizing(first: 900)
        sizing.exceeded(900, rows: 3)
        #expect(sizing.size == 2)
        sizing.lost()
        #expect(sizing.size == 2)
        sizing.exceeded(2, rows: 2)
        #expect(sizing.size == 1)
        sizing.committed(1, in: 1, bytes: ChunkSizing.mostBytes)
        #expect(sizing.size == 1)
        sizing.committed(1, in: 1, bytes: ChunkSizing.mostBytes / 40)
        #expect(sizing.size == 30)
    }

    @Test("a short last chunk does not change the size")
    func ignoresShort() {
        var sizing = ChunkSizing(first: 900)
        sizing.committed(3, in: 500)
        #expect(sizing.size == 900)
    }

    @Test("pauses grow, with jitter and a limit")
    func pauses() {
        let pauses = { (random: Double) in
            (1...9).map { Pacing(random: { random }).pause(after: $0) }
        }
        #expect(pauses(0) == [25, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000])
        #expect(pauses(0.999).allSatisfy { $0 <= 2_000 })
        #expect(zip(pauses(0), pauses(0.5)).allSatisfy { $0 < $1 })
    }

    @Test("pauses after conflicts start short and grow to the same limit")
    func pausesAfterConflicts() {
        let pauses = (1...12).map {
            Pacing(random: { 0 }).pause(after: $0, ofConflict: true)
        }
        #expect(pauses == [2, 5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000])
    }

    @Test("lists in statements have few different lengths and repeat their last entry")
    func shapes() {
        #expect(StatementShape.padded([1, 2, 3]) == [1, 2, 3, 3, 3, 3, 3, 3, 3, 3])
        #expect(StatementShape.padded([7]) == [7])
        func named(_ numbers: [Int64]) -> BoundSQL { StatementShape.naming("id", numbers) }
        #expect(named([7]).sql == "(id BETWEEN ? AND ? OR id = ?)")
        #expect(named([7]).values == [7, 6, 7].map(SQLValue.integer))
        #expect(
            named([.max - 1, .max]).values == [.max - 1, .max - 1, .max].map(SQLValue.integer))
        #expect(named([.min]).values == [.min, .min, .min].map(SQLValue.integer))
        // Many runs are a list.
        #expect(named((0..<900).map { $0 * 2 }).sql.hasPrefix("id IN (?, ?"))
        let lengths = (1...900).map { StatementShape.length(for: $0) }
        #expect(Set(lengths).count == 13)
        #expect(zip(1...900, lengths).allSatisfy { $0 <= $1 && ($0 < 200 || $1 * 3 <= $0 * 4) })
        #expect(Array(0..<7).runs(of: 3).map(Array.init) == [[0, 1, 2], [3, 4, 5], [6]])
    }

    @Test("the cache keeps statements by use and drops the oldest")
    func cache() {
        var cache = StatementCache<Int>(capacity: 2)
        cache["a"] = 1
        cache["b"] = 2
        #expect(cache["a"] == 1)
        cache["c"] = 3
        #expect(cache["b"] == nil && cache["a"] == 1 && cache["c"] == 3)
    }
}

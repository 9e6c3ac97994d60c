import TestSupport
import Testing

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Sets of keys as runs")
struct KeySetTests {
    @Test("keys next to each other are one run, and each counts once")
    func runs() {
        let set = KeySet(sorted: [-2, -1, 0, 0, 1, 5, 7, 8])
        #expect(set.runs == [-2...1, 5...5, 7...8])
        #expect(set.count == 7)
        #expect(Array(set.keys) == [-2, -1, 0, 1, 5, 7, 8])
    }

    @Test("the smallest and largest numbers are keys like any other")
    func ends() {
        let set = KeySet(sorted: [.min, .min + 1, 0, .max - 1, .max])
        #expect(set.count == 5)
        #expect(KeySet(encoded: set.encoded) == set)
        #expect(set.subtracting(KeySet(sorted: [.min, .max])).count == 3)
        #expect(set.pieces(of: 2).map(\.count) == [2, 2, 1])
        #expect(set.union(KeySet(sorted: [.max])) == set)
    }

    @Test("union, difference, membership, pieces and bytes agree with a plain set")
    func againstSets() throws {
        var random = SeededGenerator("sets of keys")
        for _ in 0..<500 {
            func some() -> Set<Int64> {
                let width = Int64.random(in: 1...200, using: &random)
                let count = Int.random(in: 0...150, using: &random)
                return Set(
                    (0..<count).map { _ in Int64.random(in: -width...width, using: &random) })
            }
            let (one, two) = (some(), some())
            let (left, right) = (KeySet(sorted: one.sorted()), KeySet(sorted: two.sorted()))
            #expect(Array(left.union(right).keys) == one.union(two).sorted())
            #expect(Array(left.subtracting(right).keys) == one.subtracting(two).sorted())
            #expect(left.count == one.count && left.isEmpty == one.isEmpty)
            for key in -210...210 { #expect(left.contains(Int64(key)) == one.contains(Int64(key))) }
            let limit = Int.random(in: 1...40, using: &random)
            let pieces = left.pieces(of: limit)
            #expect(pieces.flatMap { Array($0.keys) } == one.sorted())
            #expect(pieces.dropLast().allSatisfy { $0.count == limit })
            #expect(KeySet(encoded: left.encoded) == left)
        }
    }

    @Test("runs pass over gaps only where other keys fill them")
    func passing() {
        var random = SeededGenerator("gaps between keys")
        for _ in 0..<500 {
            var owner: [Int64: Int] = [:]
            for key in 0..<Int64(120) { owner[key] = Int.random(in: 0...4, using: &random) / 2 }
            func of(_ number: Int) -> [Int64] {
                owner.filter { $0.value == number }.keys.sorted()
            }
            let ours = KeySet(sorted: of(0))
            let runs = ours.runs(passing: KeySet(sorted: of(1)))
            let covered = runs.flatMap { Array($0) }
            #expect(covered.filter { owner[$0] == 0 } == of(0))
            #expect(!covered.contains { owner[$0] == 2 })
            // No two runs could have been one.
            for (run, next) in zip(runs, runs.dropFirst()) {
                #expect((run.upperBound..<next.lowerBound).contains { owner[$0] == 2 })
            }
        }
    }

    @Test("bytes that are not a set are refused")
    func damage() {
        #expect(KeySet(encoded: []) == KeySet())
        #expect(KeySet(encoded: [0x80]) == nil)
        #expect(KeySet(encoded: [1]) == nil)
        // Longer than any claim.
        #expect(KeySet(encoded: [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]) == nil)
        // The second run begins in the first.
        #expect(KeySet(encoded: [5, 3, 0, 1]) == nil)
        var random = SeededGenerator("damaged sets of keys")
        for _ in 0..<2_000 {
            let bytes = random.bytes(Int.random(in: 0...40, using: &random))
            if let set = KeySet(encoded: bytes) { #expect(set.count <= 1 << 24) }
        }
    }
}

import APNsProtocol
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Order of evidence")
struct OrderTests {
    @Test(
        "any order, repetition and overlap of the same evidence leaves the same rows",
        arguments: TestEngine.available, 0..<4)
    func commutes(_ engine: TestEngine, _ round: Int) throws {
        var random = SeededGenerator("order of evidence")
        let seed = random.seed
        let action: RemovalPolicy.Action = round % 2 == 0 ? .mark : .delete
        let tokens = 60
        let registrations = (0..<tokens).map { _ in
            start + Int64.random(in: 0..<10_000, using: &random)
        }
        let marks = (0..<tokens).map { _ in
            Bool.random(using: &random) ? start + Int64.random(in: 0..<10_000, using: &random) : nil
        }
        let evidence = (0..<150).map { _ in
            TokenEvidence.dead(
                Int.random(in: 0..<tokens + 5, using: &random),
                at: start + Int64.random(in: 0..<12_000, using: &random))
        }
        func rows(after feeds: [[TokenEvidence]]) throws -> [String] {
            let database = try TokenDatabase.own(engine)
            for token in 0..<tokens {
                try database.register(
                    .numbered(token), at: registrations[token], mark: marks[token])
            }
            let store = try database.store()
            for feed in feeds { try store.apply(feed, policy: RemovalPolicy(action: action)) }
            let left = try database.marks()
            for feed in feeds {
                let again = try store.apply(feed, policy: RemovalPolicy(action: action))
                #expect(again.rowsChanged == 0, "seed \(seed)")
            }
            // A reason only shows that we set the mark.
            return left
        }
        let whole = try rows(after: [evidence])
        var shuffled = evidence.shuffled(using: &random)
        shuffled += shuffled.prefix(40)
        let cut = Int.random(in: 1..<shuffled.count, using: &random)
        let parts = [Array(shuffled[cut...]), Array(shuffled[..<cut]), Array(shuffled.suffix(60))]
        let split = try rows(after: parts)
        #expect(
            split.map { $0.split(separator: " ").prefix(3) }
                == whole.map { $0.split(separator: " ").prefix(3) }, "seed \(seed)")
    }
}

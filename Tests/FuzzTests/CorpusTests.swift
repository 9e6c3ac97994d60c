import Encodings
import TestSupport
import Testing

@Suite("Arbitrary bytes")
struct CorpusTests {
    @Test("every kept input keeps the promises of its parser", arguments: FuzzTarget.all)
    func kept(target: FuzzTarget) throws {
        let inputs = try Corpus.inputs(target)
        #expect(!inputs.isEmpty)
        for input in inputs {
            do {
                try target.check(input.bytes)
            } catch {
                Issue.record("Tests/Corpus/\(target)/\(input.name): \(error)")
            }
        }
    }

    @Test(
        "mutations of the kept inputs keep the promises of their parser", arguments: FuzzTarget.all)
    func near(target: FuzzTarget) throws {
        let kept = try Corpus.inputs(target).map(\.bytes)
        var random = SeededGenerator("mutations of the corpus \(target)")
        for round in 0..<target.mutations {
            let input = Mutation.mutate(
                kept.randomElement(using: &random) ?? [], with: kept, &random)
            do {
                try target.check(input)
            } catch {
                Issue.record(
                    "seed \(random.seed), round \(round), input \(Hex.text(input)): \(error)")
                return
            }
        }
    }

    @Test("every feedback vector is among the kept inputs")
    func vectors() throws {
        let inputs = try Corpus.inputs(.feedback)
        for vector in FeedbackVector.all {
            let kept = inputs.first { $0.name == vector.name.lowercased() }
            #expect(kept?.bytes.dropFirst() == vector.bytes[...], "\(vector)")
        }
    }

    @Test("an input that breaks a promise is reported")
    func told() {
        #expect(throws: FuzzFinding.self) { try promise(false, "broken") }
    }
}

// The promises of a parser about arbitrary bytes, as functions for two callers: the tests, which
// run the kept corpus and some thousand mutations of it in a few seconds everywhere, and
// `scripts/fuzz`, where libFuzzer looks for new paths through the code for a given time.
//
// The first half of each promise is that a target does not end the process. The other half is about
// its result: the same tuples at any split, the same token from its own spelling, a time that the
// text contains. A broken promise is a `FuzzFinding`.

/// A promise that some input broke.
struct FuzzFinding: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A parser with what it promises.
struct FuzzTarget: Sendable, CustomStringConvertible {
    /// The name in `scripts/fuzz` and of the folder below Tests/Corpus.
    let name: String
    /// Number of mutations in a run of the tests: as many as need well under a second.
    let mutations: Int
    /// Longest input of libFuzzer in bytes.
    let longest: Int
    /// Checks one input.
    let check: @Sendable ([UInt8]) throws -> Void

    var description: String { name }

    /// All of them.
    static let all = [
        feedback, token, body, json, settings, list, keys, images, words, frames, packet,
    ]
}

/// Stops the check of an input where a promise does not hold.
func promise(
    _ holds: Bool, _ otherwise: @autoclosure () -> String
) throws(FuzzFinding) {
    guard holds else { throw FuzzFinding(otherwise()) }
}

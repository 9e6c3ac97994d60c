// What a parser promises about any bytes whatever, as functions that two callers share: the tests,
// which run the kept corpus and some thousand mutations of it in a few seconds everywhere, and
// `scripts/fuzz`, which has libFuzzer look for new paths through the code for as long as it is told.
//
// That a target does not end the process is only half of each promise. The other half is what has to
// hold where it answers: the same tuples at any split, the same token from its own spelling, a time
// that stands in the text. A broken one is a `FuzzFinding`.

/// A promise that some input broke.
struct FuzzFinding: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A parser with what it promises.
struct FuzzTarget: Sendable, CustomStringConvertible {
    /// The name in `scripts/fuzz` and of the folder below Tests/Corpus.
    let name: String
    /// Mutations that a run of the tests tries: as many as take well under a second.
    let mutations: Int
    /// Bytes that libFuzzer goes up to.
    let longest: Int
    /// Looks at one input.
    let check: @Sendable ([UInt8]) throws -> Void

    var description: String { name }

    /// All of them.
    static let all = [feedback, token, body, settings, journal, keys, images, words]
}

/// Stops the check of an input where a promise does not hold.
func promise(
    _ holds: Bool, _ otherwise: @autoclosure () -> String
) throws(FuzzFinding) {
    guard holds else { throw FuzzFinding(otherwise()) }
}

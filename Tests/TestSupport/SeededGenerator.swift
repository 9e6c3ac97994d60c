/// A small random generator (SplitMix64). One printed number determines all its values, so that a
/// failed random test can be repeated.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// The number that repeats the values.
    package let seed: UInt64

    /// Takes the given seed, else that of `Series`, and prints it.
    package init(_ purpose: String, seed: UInt64? = nil) {
        let seed = seed ?? Series.seed(of: purpose)
        self.seed = seed
        state = seed
        print("seed \(purpose): PUSHSWEEP_TEST_SEED=\(seed)")
    }

    /// Takes a seed that the caller prints if necessary.
    package init(_ seed: UInt64) { (self.seed, state) = (seed, seed) }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// The given number of random bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
    }
}

extension Array {
    /// A random element of an array, which must not be empty.
    package func one(_ random: inout SeededGenerator) -> Element {
        self[Int.random(in: indices, using: &random)]
    }
}

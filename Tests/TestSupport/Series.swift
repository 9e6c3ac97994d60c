/// How long the random series of the tests are, and where their seeds come from.
///
/// The usual run is what everybody waits for, so a series there is short and its seed is fixed:
/// nothing passes or fails by luck. `scripts/test --long` takes the long forms and draws new seeds.
/// A variable of its own sets the length of one series, in either run.
package enum Series {
    /// Whether this run takes the long forms.
    package static let isLong = Environment.text("PUSHSWEEP_TEST_SERIES") == "long"

    /// The number of rounds of a series.
    ///
    /// - Parameter variable: the environment variable that sets it.
    package static func length(_ variable: String, short: Int, long: Int) -> Int {
        Environment.number(variable).map { Int($0) } ?? (isLong ? long : short)
    }

    /// The seed of a series that is given none: that of the environment, a new one in a long run,
    /// else one that only its purpose decides (FNV-1a).
    static func seed(of purpose: String) -> UInt64 {
        if let seed = Environment.number("PUSHSWEEP_TEST_SEED") { return seed }
        guard !isLong else { return .random(in: 1...(.max)) }
        return purpose.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

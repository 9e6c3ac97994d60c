/// The tokens that a send would go to.
package struct TokenCounts: Encodable, Hashable, Sendable {
    /// All values that were read. The sum of the next five.
    package var read = 0
    /// Tokens that a row without a mark, or with a later registration, has.
    package var living = 0
    /// Tokens whose rows are all dead.
    package var stale = 0
    /// Tokens that no row of the app has.
    package var unknown = 0
    /// Tokens that only rows of the app's other environment have.
    package var otherEnvironment = 0
    /// Values that are not tokens.
    package var malformed = 0
    /// Living tokens that APNs called bad in the last seven days; each is in `living` too.
    package var suspect = 0
    /// Tokens that occurred before among the same tokens; each is in one of the counts above too.
    package var duplicate = 0
}

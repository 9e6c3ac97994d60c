import FoundationEssentials

/// The names of runs and batches: UUIDs in lower case.
package enum UUIDText {
    /// A name that no other has.
    @Sendable package static func random() -> String { UUID().uuidString.lowercased() }

    /// A UUID of the first half of a digest in hex.
    static func name(_ digest: String) -> String {
        var name = String(digest.prefix(32))
        for place in [20, 16, 12, 8] {
            name.insert("-", at: name.index(name.startIndex, offsetBy: place))
        }
        return name
    }
}

/// A count with a name.
package struct NamedCount: Codable, Hashable, Sendable {
    /// What is counted: a reason, a spelling, a range of ages.
    package var name: String
    /// How many there are; never negative.
    package var count: Int

    package init(_ name: String, _ count: Int) { (self.name, self.count) = (name, count) }
}

/// Why a text, a value or a file is not taken: a clause that follows its name, with the cure. The caller
/// who knows the name makes a whole sentence of it.
package struct Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Why the simulator cannot do what it was asked.
package struct SimulatorFailure: Error, Sendable, CustomStringConvertible {
    /// One line: what was done, to what, what happened.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

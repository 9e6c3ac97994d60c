import Foundation

/// What the caller of the tests says through environment variables.
package enum Environment {
    /// The value of a variable, if it is set and not empty.
    package static func text(_ name: String) -> String? {
        guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else {
            return nil
        }
        return value
    }

    /// The value of a variable as a number.
    package static func number(_ name: String) -> UInt64? { text(name).flatMap { UInt64($0) } }

    /// Whether the tests run under a sanitizer, whose own memory and pace say nothing about ours.
    package static var isSanitized: Bool { text("PUSHSWEEP_TEST_SANITIZER") != nil }
}

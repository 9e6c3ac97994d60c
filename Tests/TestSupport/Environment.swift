import Foundation

/// The environment variables that configure the tests.
package enum Environment {
    /// The value of a variable; nil when it is unset or empty.
    package static func text(_ name: String) -> String? {
        guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else {
            return nil
        }
        return value
    }

    /// The value of a variable as a number; nil when it is unset or not a number.
    package static func number(_ name: String) -> UInt64? { text(name).flatMap { UInt64($0) } }

    /// Whether the tests run under a sanitizer, which changes memory use and speed.
    package static var isSanitized: Bool { text("PUSHSWEEP_TEST_SANITIZER") != nil }
}

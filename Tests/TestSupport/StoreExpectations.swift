import Database
import Findings
import Testing

extension Trait where Self == ConditionTrait {
    /// The test needs a server, MariaDB or MySQL.
    package static var needsServer: ConditionTrait {
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence))
    }
}

/// Expects a failure of a code, with all of these words in its sentence.
@discardableResult
package func expectFailure<R>(
    _ code: StoreFailure.Code? = nil, _ words: String...,
    at place: SourceLocation = #_sourceLocation, _ body: () throws -> R
) -> StoreFailure? {
    let failure = #expect(throws: StoreFailure.self, sourceLocation: place) { _ = try body() }
    if let code { #expect(failure?.code == code, "\(failure as Any)", sourceLocation: place) }
    for word in words {
        #expect(
            failure?.sentence.contains(word) == true, "\(failure as Any)", sourceLocation: place)
    }
    return failure
}

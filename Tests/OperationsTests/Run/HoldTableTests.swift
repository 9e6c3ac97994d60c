import Database
import TestSupport
import Testing

@testable import Operations

@Suite("The token table of a list of holds")
struct HoldTableTests {
    private struct Other: Error {}

    @Test("after its first failure it is not asked again, so a dead database is waited for once")
    func once() throws {
        let stage = try PreflightStage()
        defer { withExtendedLifetime(stage) {} }
        let table = HoldTable(try stage.settings())
        var asked = 0
        // What is wrong with one hold says nothing about the table.
        #expect(throws: Other.self) { try table.ask { _ in throw Other() } }
        for _ in 0..<3 {
            #expect(throws: StoreFailure(.unreachable, "dead")) {
                try table.ask { _ in
                    asked += 1
                    throw StoreFailure(.unreachable, "dead")
                }
            }
        }
        #expect(asked == 1)
    }
}

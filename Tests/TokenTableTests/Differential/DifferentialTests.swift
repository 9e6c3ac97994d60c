// The store against a model of the rules, over unusual tables. Each table is made by its own
// statements and read as the server prints it, so that the drivers' view of a value is never
// compared with itself. For every table one of two things holds: the examination refuses it and no
// row changes, or every row is as the model says after each step, and an undo restores all rows
// that did not change since. A second course has what persons refuse and ask for, in any order.

import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Random tables against the model")
struct DifferentialTests {
    /// Takes a number of random tables through a course, and returns what they met.
    private func run(
        _ course: TableTrial.Course, _ count: Int, on engine: TestEngine, _ words: String
    ) throws -> TableTrial.Tally {
        var random = SeededGenerator("\(words) on \(engine.rawValue)")
        let trial = try TableTrial(engine)
        var tally = TableTrial.Tally()
        let alone = Environment.number("PUSHSWEEP_TEST_TABLE")
        for index in 0..<(alone == nil ? count : 1) {
            let seed = alone ?? random.next()
            let faults = try trial.run(seed, course, &tally)
            guard faults.isEmpty else {
                Issue.record(
                    """
                    table \(index + 1) on \(engine.rawValue), PUSHSWEEP_TEST_TABLE=\(seed): \
                    \(faults.joined(separator: "\n"))
                    """)
                break
            }
        }
        print("\(words) on \(engine.rawValue): \(tally)")
        if alone != nil { (tally.applied, tally.refusedTables) = (1, 1) }
        return tally
    }

    @Test(
        "every row of a random table agrees with the model, or the table is refused unchanged",
        arguments: TestEngine.available)
    func tables(_ engine: TestEngine) throws {
        let isFast = engine == .sqlite
        let count = Series.length(
            "PUSHSWEEP_TEST_TABLES", short: isFast ? 300 : 60, long: isFast ? 1_700 : 300)
        let tally = try run(.sweeps, count, on: engine, "random tables")
        #expect(tally.applied > 0 && tally.refusedTables > 0)
        #expect(tally.tables < 200 || tally.refusedRows > 0 && tally.undone > 0)
    }

    @Test(
        "what persons refuse and ask for in any order leaves every row and note as the model says",
        arguments: TestEngine.available)
    func refusals(_ engine: TestEngine) throws {
        let isFast = engine == .sqlite
        let count = Series.length(
            "PUSHSWEEP_TEST_REFUSALS", short: isFast ? 200 : 60, long: isFast ? 3_000 : 600)
        let tally = try run(.refusals, count, on: engine, "courses of refusals")
        #expect(tally.applied > 0)
        #expect(tally.tables < 50 || tally.spared > 0 && tally.undone > 0 && tally.noted > 0)
    }
}

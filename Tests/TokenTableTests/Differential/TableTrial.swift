import APNsProtocol
import Foundation
import TestSupport
import TokenHygiene

@testable import Database
@testable import TokenTable

/// One database in which random tables are made, swept, undone and dropped.
final class TableTrial {
    /// The cases that the trials of a run met, so that an empty test is noticed.
    struct Tally: CustomStringConvertible {
        var tables = 0
        var refusedTables = 0
        var applied = 0
        var refusedRows = 0
        var undone = 0
        var faults = 0
        var noted = 0
        var spared = 0

        var description: String {
            "\(tables) tables, \(refusedTables) refused, \(applied) rows changed, \(refusedRows) rows refused, "
                + "\(undone) rows brought back, \(noted) noted, \(spared) steps with spared rows, "
                + "\(faults) faults injected"
        }
    }

    /// What happens to a table.
    enum Course {
        /// Some sweeps, the end of grace periods, an undo of all.
        case sweeps
        /// What persons refuse and ask for, in random order.
        case refusals
    }

    private let engine: TestEngine
    private let database: TokenDatabase
    private let connection: KeptConnection

    init(_ engine: TestEngine) throws {
        self.engine = engine
        database = try TokenDatabase.withSideTables(engine)
        if engine == .mariaDB {
            try database.sql.run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
            try database.sql.run("SET SESSION time_zone = '+00:00'")
        } else {
            try database.sql.run("PRAGMA synchronous = OFF")
        }
        connection = KeptConnection(database.driver())
    }

    /// Makes a table from a seed, runs all steps on it, and returns the differences.
    func run(_ seed: UInt64, _ course: Course, _ tally: inout Tally) throws -> [String] {
        var random = SeededGenerator(seed)
        var table = RandomTable(engine, "t\(tally.tables)", &random)
        // The table of a course of refusals takes each change, and tells of each mark beside it what it is about.
        while course == .refusals,
            table.obstacle != .none
                || table.mark == .none
                    && table.rows.contains(where: { $0.registration == .unreadable })
        {
            table = RandomTable(engine, "t\(tally.tables)", &random)
        }
        tally.tables += 1
        for statement in table.statements {
            do {
                try database.sql.run(statement)
            } catch {
                // An engine may not hold such columns (1163) or keys (1071) at all, not in
                // partitions (1178), nor compute a column of such values (1901).
                if [1_071, 1_163, 1_178, 1_901].contains(error.code) {
                    return []
                }
                // A literal that its column does not take at all leaves a table with fewer rows.
                guard statement.hasPrefix("INSERT") else { throw error }
            }
        }
        for own in [
            "change", "part", "hold", "batch", "report", "run", "invalid", "suspect", "spared",
        ] {
            try database.sql.run("DELETE FROM pushsweep_\(own)")
        }
        // The numbers of the table before are young, and without their entries they tell of a gap.
        try database.sql.run("DELETE FROM pushsweep_commit WHERE number > 0")
        defer {
            if engine == .sqlite { try? database.sql.run("PRAGMA foreign_keys = OFF") }
            for suffix in ["_child", "_log", ""] {
                try? database.sql.run("DROP TABLE IF EXISTS \(table.name)\(suffix)")
            }
            if engine == .sqlite { try? database.sql.run("PRAGMA foreign_keys = ON") }
        }
        let wrong =
            course == .sweeps
            ? swept(table, &random, &tally) : refused(table, &random, &tally)
        return wrong.isEmpty ? [] : wrong + table.statements
    }

    private func swept(
        _ table: RandomTable, _ random: inout SeededGenerator, _ tally: inout Tally
    ) -> [String] {
        var course = TableCourse(table: table, database: database, connection: connection)
        do {
            try course.run(&random, &tally)
        } catch {
            course.findings.wrong.append("ended with: \(error)")
        }
        let wrong = course.findings.wrong
        return wrong.isEmpty ? [] : wrong + ["policy \(course.policy)"]
    }

    private func refused(
        _ table: RandomTable, _ random: inout SeededGenerator, _ tally: inout Tally
    ) -> [String] {
        var words: [String] = []
        do {
            guard
                var course = try RefusalCourse(table, database, connection, &random)
            else {
                tally.refusedTables += 1
                return []
            }
            words = ["policy \(course.policy)"]
            do {
                try course.run(&random, &tally)
            } catch {
                course.findings.wrong += ["ended with: \(error)"] + course.steps
            }
            let wrong = course.findings.wrong
            return wrong.isEmpty ? [] : wrong + words
        } catch {
            return ["ended with: \(error)"] + words
        }
    }
}

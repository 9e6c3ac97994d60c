import APNsProtocol
import Foundation
import TestSupport

// What the application does with its rows meanwhile.

extension RefusalCourse {
    mutating func application(_ random: inout SeededGenerator) throws {
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            guard let number = states.keys.sorted().randomElement(using: &random) else { return }
            switch Int.random(in: 0...4, using: &random) {
            case 0: try replaceToken(number, &random)
            case 1: try useAgain(number, &random)
            case 2: try correct(number)
            case 3: try register(number, &random)
            default: break
            }
        }
    }

    /// Puts another token into a row.
    private mutating func replaceToken(_ number: Int, _ random: inout SeededGenerator) throws {
        let (literal, token) = table.token.value(number, &random)
        try update(number, "device_token", literal, "another token in row \(number)")
        states[number]?.row.token = token
    }

    /// Gives the key of a row, which goes, to a new row; or only lets the row go.
    private mutating func useAgain(_ number: Int, _ random: inout SeededGenerator) throws {
        guard let place = places[number] else { return }
        try database.sql.run("DELETE FROM \(table.name) WHERE number = \(number)")
        states[number] = nil
        steps.append("row \(number) goes")
        guard Bool.random(using: &random),
            let first = table.rows.first(where: { $0.number == place })
        else { return }
        let again = 1_000 + steps.count
        let (literal, token) = table.token.value(place, &random)
        let columns = table.writable
        let values = columns.map { column in
            column == table.written("device_token")
                ? literal : column == "number" ? "\(again)" : column
        }
        try database.sql.run(
            "INSERT INTO \(table.name) (\(columns.joined(separator: ", "))) SELECT "
                + "\(values.joined(separator: ", ")) FROM \(table.name)_log WHERE number = \(place)"
        )
        guard let printed = try table.printed(on: database)[again] else { return }
        var row = first.numbered(again)
        row.token = token
        states[again] = ModelState(row: row, printed: printed)
        places[again] = place
        steps.append("key \(place) in row \(again)")
    }

    /// Corrects the environment of a row, which makes it another app's, and back.
    private mutating func correct(_ number: Int) throws {
        guard table.environment != nil, let state = states[number] else { return }
        if corrected.contains(number), !state.row.isOurs {
            try update(number, "environment", "'production'", "row \(number) of production")
            corrected.remove(number)
            states[number]?.row.isOurs = true
        } else if state.row.isOurs {
            try update(number, "environment", "'sandbox'", "row \(number) of the sandbox")
            corrected.insert(number)
            states[number]?.row.isOurs = false
        }
    }

    /// A device registers again.
    private mutating func register(_ number: Int, _ random: inout SeededGenerator) throws {
        guard table.registration != .none else { return }
        let time = start + [30_000, 600_000, 3_000_000].one(&random)
        try update(
            number, "registered_at", RandomTable.literal(table.registration, time, table.engine),
            "row \(number) registers at \(time - start)")
        let unit: Int64 = [.clock0, .stamp, .seconds].contains(table.registration) ? 1_000 : 1
        states[number]?.row.registration = .at(time - time % unit)
    }

    private mutating func update(
        _ number: Int, _ column: String, _ literal: String, _ step: String
    ) throws {
        try database.sql.run(
            "UPDATE \(table.name) SET \(table.written(column)) = \(literal) WHERE number = \(number)"
        )
        let printed = try table.printed(on: database)[number] ?? [:]
        states[number]?.printed = printed
        steps.append(step)
    }
}

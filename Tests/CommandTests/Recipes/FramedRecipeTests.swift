import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite(
    "The recipe for a framed sender",
    .needsServer)
struct FramedRecipeTests {
    /// The page's tables with upper-case tokens, and its files.
    private static func stage(_ tokens: [String]) throws -> RecipeStage {
        let stage = try RecipeStage("framed", .mariaDB)
        let certificates = try SweepStage.certificates.get()
        try stage.copy([
            (certificates.certificate(.client), "chat.pem"),
            (certificates.key(.client), "chat.key"),
        ])
        for token in tokens {
            try stage.database.execute(
                "INSERT INTO devices (device_token, registered_at) VALUES (?, '2020-01-01')",
                [.text(token.uppercased())])
        }
        return stage
    }

    @Test("command 2 has five items with priorities 10 and 5, and a dead token is read on 2196")
    func story() throws {
        let stage = try Self.stage([RecipeStage.hex, hexToken(1)])
        let token = try DeviceToken(spelling: RecipeStage.hex)
        var rules = BinaryRules()
        rules.script.tokens[token] = .dead(after: 1)
        let gateways = try stage.olderGateways("chat", rules)
        try stage.follow("First run")
        try stage.follow("Send with command 2")
        let frames = gateways.binary.log.accepted
        #expect(frames.map(\.token) == [token, token])
        let items = frames.map { frame -> [String] in
            guard let identifier = frame.identifier, let expiration = frame.expiration,
                let priority = frame.priority
            else { return ["an item is missing: \(frame)"] }
            return ["\(identifier)", "\(expiration)", "\(priority.rawValue)"]
        }
        #expect(items.map { $0.dropFirst() } == [["2000000000", "10"], ["2000000000", "5"]])
        #expect(Set(items.map { $0[0] }).count == 2, "each frame has its own identifier")
        try stage.follow("Dead tokens")
        #expect(
            try stage.database.texts("SELECT LOWER(HEX(token)) FROM pushsweep_invalid")
                == [[RecipeStage.hex]])
        #expect(
            try stage.database.texts("SELECT device_token FROM devices ORDER BY id").first
                == [RecipeStage.hex.uppercased()])
    }

    @Test("for every status of the error reply the row ends as the page about the interface says")
    func statuses() throws {
        let statuses = BinaryStatus.listed.map { Int($0.number) } + [9, 77]
        let good = (0..<12).map { hexToken(1_000 + $0) }
        let stage = try Self.stage(statuses.map(hexToken) + good)
        let simulator = try Self.simulator(stage, statuses)
        defer { simulator.signal(SIGTERM) }
        let table = try Self.documentedStates()
        try stage.follow("First run")
        var accepted = 0
        for status in statuses {
            let bad = hexToken(status)
            for token in good.prefix(6) + [bad] + good.suffix(6) {
                try stage.database.execute(
                    "INSERT INTO push_queue (app_id, device_token, payload) "
                        + "VALUES ('chat', UNHEX(?), ?)",
                    [.text(token), .text(payload(bytes: 60))])
            }
            let result = try stage.json("send")
            let rows = try stage.database.texts(
                "SELECT LOWER(HEX(device_token)), state, COALESCE(reason, '') FROM push_queue "
                    + "ORDER BY id")
            let expected = table[status] ?? table[nil] ?? "no state on the page"
            let row = try #require(rows.first { $0[0] == bad })
            #expect(row[1] == expected, "status \(status): \(row) \(result.error)")
            // A topic stops the sending, and more than one unknown outcome in ten asks for another run.
            let exits: [String: Int32] = ["pending": 78, "unknown": 75]
            #expect(result.exit == exits[expected, default: 0], "status \(status): \(result.error)")
            if ["failed", "retry"].contains(expected) {
                #expect(row[2].hasSuffix("(\(status))"), "\(row)")
            }
            // Rows of unknown outcome may be any that waited. Behind a refusal that stops the sending,
            // rows are sent on the next connection, or wait for a later run.
            let others = Set(rows.filter { $0[0] != bad }.map { $0[1] })
            let mayBe = ["pending", "unknown"].contains(expected) ? ["sent", expected] : ["sent"]
            #expect(others.isSubset(of: mayBe), "status \(status): \(others)")
            // Of the unknown ones the gateway took those before the named one.
            accepted += expected == "unknown" ? 6 : rows.count { $0[1] == "sent" }
            try stage.database.sql.run("DELETE FROM push_queue")
        }
        #expect(try stage.marked == 0, "no status removes a token")
        simulator.signal(SIGTERM)
        let totals = simulator.wait().json["totals"] as? [String: Any]
        #expect(totals?["accepted"] as? Int == accepted, "\(totals ?? [:])")
    }

    /// Starts the page's simulator, with an answer for the token of each status, on free ports and with
    /// the certificates of the tests.
    private static func simulator(
        _ stage: RecipeStage, _ statuses: [Int]
    ) throws -> RunningTool {
        let block = try #require(stage.blocks.first { $0.name == "try" })
        var words = try #require(block.commands.first?.words)
        try #require(words.removeFirst() == "apns-simulator")
        for option in ["--port", "--feedback-port"] {
            words[try #require(words.firstIndex(of: option)) + 1] = "0"
        }
        let folder = try #require(words.firstIndex(of: "--directory")) + 1
        words[folder] = try SweepStage.certificates.get().directory
        words += statuses.flatMap { ["--answer", "\(hexToken($0))=\($0)"] }
        let simulator = try RunningTool("apns-simulator", words)
        let line = try #require(simulator.firstLine())
        let greeting = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        let ports = try ["listening", "feedback"].map { name in
            let address = greeting?[name] as? String
            return try #require(address?.split(separator: ":").last.flatMap { UInt16($0) })
        }
        try stage.address("chat", binary: ports[0], feedback: ports[1])
        return simulator
    }

    /// The state of a row by its status, as the list of docs/binary.md says; nil for other numbers.
    /// Status 10, whose row is accepted, has a paragraph of its own.
    private static func documentedStates() throws -> [Int?: String] {
        let page = try String(contentsOf: DocumentBlock.path("docs/binary.md"), encoding: .utf8)
        #expect(page.contains("**Status 10**, a shutdown, says that the named row is done."))
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex { $0.hasPrefix("- 8 invalid token: ") })
        var states: [Int?: String] = [10: "sent"]
        for line in lines[start...].prefix(while: { !$0.isEmpty }) where line.hasPrefix("- ") {
            let cells = line.dropFirst(2).split(separator: ": ", maxSplits: 1).map(String.init)
            try #require(cells.count == 2)
            let state: String
            if cells[1].hasPrefix("back to the queue") {
                state = "pending"
            } else if let other = cells[1].firstMatch(of: /^as status (\d+)/)?.1 {
                state = try #require(states[Int(other)])
            } else {
                state = String(try #require(cells[1].firstMatch(of: /`([a-z]+)`/)?.1))
            }
            for match in cells[0].matches(of: /\d+/) { states[Int(match.0)] = state }
            if cells[0].hasSuffix("others") { states[nil] = state }
        }
        #expect(states.count > 12)
        return states
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

/// The table of the section about the older of two tokens, and the real program on it.
private struct DevicesStage {
    let stage: SweepStage
    var database: TokenDatabase { stage.database }
    private var isServer: Bool { database.engine == .mariaDB }

    init(_ engine: TestEngine) throws {
        stage = try SweepStage(
            engine, feeds: [ListSource](repeating: .tuples([]), count: 4), schema: false)
        stage.lines.limits = SweepStage.anyNumber
        stage.lines.apps = """
              - {name: talk, value: "7", topic: com.example.talk, environment: production}
            """
        try database.createSideTables()
        let (time, word) = isServer ? ("DATETIME(3)", "VARCHAR(64)") : ("TEXT", "TEXT")
        let id = isServer ? "BIGINT PRIMARY KEY AUTO_INCREMENT" : "INTEGER PRIMARY KEY"
        try database.execute(
            "CREATE TABLE active_users (id \(id), device_id \(word), device_token VARCHAR(200) NOT NULL, "
                + "app_id \(word) NOT NULL, environment \(word) NOT NULL, registered_at \(time), "
                + "invalidated_at \(time), invalid_reason \(word))")
        try database.execute("CREATE INDEX devices ON active_users (device_id)")
        // The statement is right whatever zone the session of the administrator has.
        try database.execute("SET SESSION time_zone = '+05:00'", on: .mariaDB)
    }

    /// The time some days ago, in SQL.
    private func ago(_ days: Double?) -> String {
        guard let days else { return "NULL" }
        let seconds = Int(days * 86_400)
        return isServer
            ? "UTC_TIMESTAMP(3) - INTERVAL \(seconds) SECOND"
            : "strftime('%Y-%m-%d %H:%M:%f', 'now', '-\(seconds) seconds')"
    }

    /// A row of a device, registered and perhaps marked so many days ago.
    func register(
        _ number: Int, _ device: String?, _ days: Double, app: String = "chat", mark: Double? = nil
    ) throws {
        try database.execute(
            "INSERT INTO active_users (device_id, device_token, app_id, environment, registered_at, invalidated_at) "
                + "VALUES (?, ?, ?, 'production', \(ago(days)), \(ago(mark)))",
            [
                device.map { .text($0) } ?? .null, .text(DeviceToken.numbered(number).hex),
                .text(app),
            ])
    }

    /// Lets a device register its token again now.
    func registerAgain(_ number: Int) throws {
        try database.execute(
            "UPDATE active_users SET registered_at = \(ago(0)) WHERE device_token = ?",
            [.text(DeviceToken.numbered(number).hex)])
    }

    /// Runs the statements of the file that the page links.
    func runStatement() throws {
        for statement in try statements() { try database.execute(statement) }
    }

    /// The rows that the SELECT alone gives.
    func selected() throws -> Int {
        let last = try #require(try statements().last)
        let start = try #require(last.range(of: "\nSELECT ")?.lowerBound)
        return try database.texts(String(last[start...])).count
    }

    private func statements() throws -> [String] {
        let kind = isServer ? "mysql" : "sqlite"
        let text = try String(
            contentsOf: DocumentBlock.path("docs/examples/older-tokens.\(kind).sql"),
            encoding: .utf8)
        return text.split(separator: "\n").filter { !$0.hasPrefix("--") }.joined(separator: "\n")
            .components(separatedBy: ";").map { $0.trimmingCharacters(in: .newlines) }
            .filter { !$0.isEmpty }
    }

    var waiting: Int { get throws { try database.rows(of: "pushsweep_evidence") } }

    /// The numbers of the tokens whose rows a query names.
    func numbers(_ condition: String) throws -> [Int] {
        let found = Set(
            try database.texts("SELECT device_token FROM active_users WHERE \(condition)").map {
                $0[0]
            })
        return (0..<40).filter { found.contains(DeviceToken.numbered($0).hex) }
    }
}

@Suite("The document about registrations")
struct RegistrationDocumentTests {
    @Test(
        "the statement reports the older token of each device once; one that registers meanwhile lives",
        arguments: TestEngine.available)
    func olderTokens(_ engine: TestEngine) throws {
        let devices = try DevicesStage(engine)
        for (number, device, days, app, mark) in [
            (1, "ada", 100, "chat", nil), (2, "ada", 50, "chat", nil),
            // Its row came back later than that of the other token.
            (3, "bob", 30, "chat", nil), (4, "bob", 60, "chat", nil),
            (5, nil, 100, "chat", nil), (6, nil, 50, "chat", nil),
            (7, "", 100, "chat", nil), (8, "", 50, "chat", nil),
            (9, "eve", 100, "chat", nil), (10, "eve", 50, "7", nil),
            (11, "fay", 100, "chat", nil), (12, "fay", 3, "chat", nil),
            (13, "gus", 100, "chat", nil), (14, "gus", 50, "chat", nil),
            (15, "hal", 50.5, "chat", nil), (16, "hal", 50, "chat", nil),
            (17, "ida", 100, "chat", 90), (18, "ida", 50, "chat", nil),
            (19, "joe", 100, "chat", nil), (20, "joe", 50, "chat", 40),
            // It registered after its mark.
            (21, "kim", 60, "7", 90), (22, "kim", 50, "7", nil),
            // Its token is another device's now.
            (24, "lea", 100, "chat", nil), (25, "lea", 50, "chat", nil),
            (24, "max", 60, "chat", nil),
        ] as [(Int, String?, Double, String, Double?)] {
            try devices.register(number, device, days, app: app, mark: mark)
        }
        #expect(try devices.selected() == 4)
        #expect(try devices.waiting == 0)
        try devices.runStatement()
        #expect(try devices.waiting == 4)
        let sent =
            engine == .mariaDB
            ? "UNIX_TIMESTAMP(sent_at)" : "(julianday(sent_at) - 2440587.5) * 86400"
        #expect(
            try devices.database.rows(
                of: "pushsweep_evidence", "ABS(\(sent) * 1000 - timestamp_ms) < 2") == 4)
        try devices.registerAgain(13)
        try devices.stage.run("explain", DeviceToken.numbered(13).hex).ends(
            0, "after this evidence")
        try devices.stage.sweep().ends(0)
        #expect(try devices.numbers("invalid_reason = 'Superseded'") == [1, 4, 21])
        #expect(try devices.numbers("registered_at < invalidated_at") == [1, 4, 17, 20, 21])
        try devices.stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "its device registered another token later, as pushsweep_evidence says")
        // What is marked is not reported again; what came anew has no later token.
        #expect(try devices.selected() == 0)
        try devices.runStatement()
        #expect(try devices.waiting == 0)
        try devices.register(23, "ada", 20)
        try devices.runStatement()
        #expect(try devices.waiting == 1)
        try devices.stage.sweep().ends(0)
        #expect(try devices.numbers("invalid_reason = 'Superseded'") == [1, 2, 4, 21])
    }

    @Test(
        "the guard holds a long list of older tokens as any other", arguments: TestEngine.available)
    func guarded(_ engine: TestEngine) throws {
        let devices = try DevicesStage(engine)
        devices.stage.lines.limits = "guard: {floor: 2}"
        for number in 0..<20 {
            try devices.register(number, "d\(number / 2)", Double(100 - number % 2 * 50))
        }
        try devices.runStatement()
        try devices.stage.sweep().ends(3)
        #expect(try devices.numbers("invalidated_at IS NOT NULL").isEmpty)
    }

    @Test(
        "under action delete the older tokens are removed as any other, and an undo brings them back",
        arguments: TestEngine.available)
    func deleted(_ engine: TestEngine) throws {
        let devices = try DevicesStage(engine)
        devices.stage.lines.policy = "policy: {action: delete}"
        for (number, days) in [(1, 100.0), (2, 50)] { try devices.register(number, "ada", days) }
        try devices.runStatement()
        try devices.stage.sweep().ends(0)
        #expect(try devices.numbers("1 = 1") == [2])
        let run = try #require(
            try devices.database.texts("SELECT run FROM \(ledgerWithRuns)").first?.first)
        try devices.stage.run("undo", run).ends(0)
        #expect(try devices.numbers("1 = 1") == [1, 2])
    }

    @Test(
        "the condition by age leaves out who has not come for long, until the next registration; nothing is marked",
        arguments: TestEngine.available)
    func ages(_ engine: TestEngine) throws {
        let devices = try DevicesStage(engine)
        for (number, days) in [(1, 181.0), (2, 179), (3, 900)] {
            try devices.register(number, "d\(number)", days)
        }
        let page = try String(
            contentsOf: DocumentBlock.path("docs/registrations.md"), encoding: .utf8)
        let conditions = page.matches(of: /`(AND registered_at > [^`]*)`/).map {
            String($0.output.1)
        }
        try #require(conditions.count == 2)
        let condition = "invalidated_at IS NULL " + conditions[engine == .mariaDB ? 0 : 1]
        #expect(try devices.numbers(condition) == [2])
        try devices.stage.run("audit").says("Ages of registrations")
        try devices.stage.sweep().ends(0)
        #expect(try devices.numbers("invalidated_at IS NOT NULL").isEmpty)
        try devices.registerAgain(3)
        #expect(try devices.numbers(condition) == [2, 3])
    }
}

import APNsProtocol
import Database
import Foundation
import Operations
import PushQueue
import TestSupport
import Testing
import TokenHygiene
import TokenTable

private let began: Int64 = 1_700_000_000_000

/// A document of `pushsweep deliveries`.
struct DeliveryDocument: Decodable {
    let deliveries: [DeliveryLine]
    let exit: Int32
    let gaps: [String]
    let more: Bool
    let notes: [String]
    let schema: Int

    /// Reads what a run printed, which must be the document alone.
    init(_ result: ToolResult) throws {
        self = try JSONDecoder().decode(DeliveryDocument.self, from: Data(result.output.utf8))
    }
}

extension SweepStage {
    /// Lists notifications as JSON; the run must end with 0.
    func deliveries(
        _ words: String..., environment: [String: String] = [:]
    ) throws -> DeliveryDocument {
        let result = try start(
            ["deliveries", "--format", "json"] + words, environment: environment
        ).wait()
        #expect(result.exit == 0, "\(result.error)")
        return try DeliveryDocument(result)
    }

    /// Puts a row into the queue of our own schema, queued a number of seconds after the start.
    func queue(
        _ token: DeviceToken, _ state: String = "pending", _ reason: String? = nil,
        after seconds: Int64 = 0, app: String = "chat", environment: String = "production",
        answered: Bool = true
    ) throws {
        let queued = began + seconds * 1_000
        try database.execute(
            "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at, state, "
                + "attempts, reason, not_before, answered_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                .text(app), .text(environment), .bytes(token.bytes), .bytes(Array("{}".utf8)),
                database.time(queued), .text(state), .integer(state == "pending" ? 0 : 2),
                reason.map(SQLValue.text) ?? .null,
                state == "retry" ? database.time(queued + 60_000) : .null,
                answered && !["pending", "retry"].contains(state)
                    ? database.time(queued + 5_000) : .null,
            ])
    }

    /// One row in each state, in the order of `DeliveryState`, to tokens 0 to 7; a sender holds row 2.
    func queueAllStates() throws {
        for (number, state) in DeliveryState.allCases.enumerated() {
            let isOpen = !state.isFinal && state != .retry
            try queue(
                .numbered(number), isOpen ? "pending" : state.rawValue,
                isOpen || state == .sent ? nil : "why \(number)", after: Int64(number))
        }
        let queue = try PushQueue(
            TokenTable(database.settings), QueueLease(run: "r", host: "h"))
        var cursor = QueueCursor()
        let partition = Partition(app: "chat", environment: "production")
        // The token of the first row must not be sent to by then.
        try database.execute("UPDATE push_queue SET not_before = ? WHERE id = 1", [far])
        _ = try queue.claim(partition, limit: 1, from: &cursor)
        try database.execute("UPDATE push_queue SET not_before = NULL WHERE id = 1")
    }

    private var far: SQLValue { database.time(4_000_000_000_000) }

    /// All rows of the tables, and the files of the state folder.
    fileprivate func everything() throws -> [String] {
        try ["active_users", "push_queue", "pushsweep_claim", "pushsweep_queue", "pushsweep_run"]
            .flatMap { table in
                try database.texts("SELECT * FROM \(table)").map { "\(table) \($0)" }.sorted()
            } + (FileManager.default.subpaths(atPath: state) ?? []).sorted()
    }
}

@Suite("pushsweep deliveries")
struct DeliveriesTests {
    private static func stage(_ engine: TestEngine = .sqlite) throws -> SweepStage {
        let stage = try SweepStage(engine)
        for number in 0..<8 {
            try stage.database.register(.numbered(number), at: 1, user: "user \(number)")
        }
        try stage.queueAllStates()
        return stage
    }

    @Test(
        "each notification is listed with its state, the newest first, and nothing is changed",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        let before = try stage.everything()
        let found = try stage.deliveries()
        #expect(found.schema == 1 && !found.more && found.gaps == [] && found.notes == [])
        #expect(
            found.deliveries.map(\.state)
                == DeliveryState.allCases.map(\.rawValue).reversed())
        #expect(found.deliveries.map(\.id) == (1...8).reversed())
        #expect(found.deliveries.allSatisfy { $0.app == "chat" && $0.environment == "production" })
        #expect(found.deliveries.map(\.users) == (0..<8).reversed().map { ["user \($0)"] })
        #expect(found.deliveries.allSatisfy { $0.token == "a5a5a5a5…" })
        let gone = try #require(found.deliveries.first { $0.state == "gone" })
        #expect(gone.reason == "why 5" && gone.attempts == 2 && gone.notBefore == nil)
        #expect(gone.queued == "2023-11-14T22:13:25.000Z")
        #expect(gone.answered == "2023-11-14T22:13:30.000Z")
        let retry = try #require(found.deliveries.first { $0.state == "retry" })
        #expect(retry.notBefore == "2023-11-14T22:14:22.000Z" && retry.answered == nil)

        let text = try stage.run("deliveries")
        let lines = text.output.split(separator: "\n")
        #expect(text.exit == 0 && text.error == "" && lines.count == 8)
        #expect(
            lines[2]
                == "6  gone (why 5)  chat/production  a5a5a5a5…  user user 5  2 attempts  "
                + "queued 2023-11-14T22:13:25.000Z  answered 2023-11-14T22:13:30.000Z")
        let csv = try stage.run("deliveries", "--format", "csv")
        let records = csv.output.split(separator: "\n")
        #expect(
            records[0]
                == "id,app,environment,users,token,state,reason,attempts,queued,notBefore,answered")
        #expect(
            records[3]
                == "6,chat,production,\"user 5\",a5a5a5a5…,gone,\"why 5\",2,"
                + "2023-11-14T22:13:25.000Z,,2023-11-14T22:13:30.000Z")
        let whole = try stage.deliveries("--whole-tokens")
        #expect(whole.deliveries[0].token == DeviceToken.numbered(7).hex)
        #expect(try stage.everything() == before)
    }

    @Test(
        "each filter lets through what it says, alone and with others",
        arguments: TestEngine.available)
    func filters(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        func ids(_ words: String...) throws -> [Int64] {
            let result = try stage.start(["deliveries", "--format", "json"] + words).wait()
            #expect(result.exit == 0, "\(words): \(result.error)")
            return try DeliveryDocument(result).deliveries.map(\.id)
        }
        for (place, state) in DeliveryState.allCases.enumerated() {
            #expect(try ids("--state", state.rawValue) == [Int64(place + 1)], "\(state)")
        }
        #expect(try ids("--state", "sent", "--state", "pending") == [4, 1])
        #expect(try ids("--state", "claimed", "--state", "retry", "--state", "gone") == [6, 3, 2])
        #expect(try ids("--token", DeviceToken.numbered(3).hex.uppercased()) == [4])
        #expect(try ids("--user", "user 4") == [5])
        #expect(try ids("--user", "user 4", "--state", "sent") == [])
        #expect(try ids("--since", "2023-11-14T22:13:26Z") == [8, 7])
        #expect(try ids("--since", "2023-11-14T22:13:26Z", "--state", "failed") == [7])
        #expect(try ids("--since", "2023-11-15") == [])
        #expect(try ids("--app", "chat", "--environment", "production").count == 8)
    }

    @Test(
        "rows of several apps and environments are told apart, and those of none are there",
        arguments: TestEngine.available)
    func apps(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        stage.lines.apps = """
              - {name: chat, topic: com.example.chat, environment: sandbox}
              - {name: talk, value: T, topic: com.example.talk, environment: production}
            """
        try stage.queue(.numbered(1))
        try stage.queue(.numbered(1), environment: "sandbox")
        try stage.queue(.numbered(1), app: "T")
        try stage.queue(.numbered(1), app: "Chat")
        let all = try stage.deliveries().deliveries
        #expect(all.map(\.app) == [nil, "talk", "chat", "chat"])
        #expect(all.map(\.environment) == [nil, "production", "sandbox", "production"])
        #expect(try stage.deliveries("--app", "chat").deliveries.map(\.id) == [2, 1])
        #expect(try stage.deliveries("--app", "talk").deliveries.map(\.id) == [3])
        #expect(try stage.deliveries("--environment", "production").deliveries.map(\.id) == [3, 1])
        #expect(
            try stage.deliveries("--app", "chat", "--app", "talk", "--environment", "production")
                .deliveries.map(\.id) == [3, 1])
        for words in [["--app", "nothing"], ["--app", "talk", "--environment", "sandbox"]] {
            let refused = try stage.start(["deliveries"] + words).wait()
            #expect(refused.exit == 64 && refused.output == "", "\(words): \(refused.error)")
            #expect(refused.error.contains("check --app"))
        }
    }

    @Test(
        "at the limit the newest are listed and stderr says that there are more",
        arguments: TestEngine.available)
    func limit(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        for number in 0..<1_201 { try stage.queue(.numbered(number % 3), "sent") }
        let usual = try stage.run("deliveries")
        #expect(usual.exit == 0 && usual.output.split(separator: "\n").count == 100)
        #expect(usual.output.hasPrefix("1201  sent"))
        #expect(usual.error.contains("more than 100 match"), "\(usual.error)")
        let most = try stage.deliveries("--limit", "1200")
        #expect(most.more && most.deliveries.map(\.id) == (2...1_201).reversed())
        let all = try stage.start(
            ["deliveries", "--limit", "1201", "--format", "json"]
        ).wait()
        #expect(try DeliveryDocument(all).deliveries.map(\.id) == (1...1_201).reversed())
        #expect(try !DeliveryDocument(all).more && all.error == "", "\(all.error)")
        let one = try stage.deliveries(
            "--limit", "5000", "--token", DeviceToken.numbered(1).hex)
        #expect(one.deliveries.count == 400 && !one.more)
    }

    @Test(
        "without an index only the newest rows are searched, and the result says how many",
        arguments: TestEngine.available)
    func search(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        for number in 0..<30 { try stage.queue(.numbered(number), number == 4 ? "failed" : "sent") }
        let little = try stage.deliveries("--state", "failed", "--search", "20")
        #expect(little.deliveries.isEmpty && little.notes.count == 1)
        #expect(little.notes[0].contains("only its newest 20 rows were searched; --search"))
        #expect(
            try stage.deliveries("--state", "failed", "--search", "26").deliveries.map(\.id) == [5])
        let whole = try stage.deliveries("--state", "failed", "--search", "30")
        #expect(whole.notes == [] && whole.deliveries.map(\.id) == [5])
        // The queue's own index finds open rows, and keys find claimed ones.
        #expect(try stage.deliveries("--state", "retry", "--search", "1").notes == [])
        #expect(try stage.deliveries("--state", "claimed", "--search", "1").notes == [])
        let token = DeviceToken.numbered(4).hex
        #expect(try stage.deliveries("--token", token, "--search", "20").notes.count == 1)
        try stage.database.execute("CREATE INDEX by_token ON push_queue (device_token)")
        let found = try stage.deliveries("--token", token, "--search", "20")
        #expect(found.notes == [] && found.deliveries.map(\.id) == [5])
    }

    @Test("a token comes from an argument, a file or standard input, in every accepted spelling")
    func token() throws {
        let stage = try Self.stage()
        let hex = DeviceToken.numbered(2).hex
        let file = try stage.folder.write("token", "\n <\(hex.uppercased())> \n")
        for words in [["--token", "-"], ["--token-file", "-"], ["--token-file", file]] {
            let result = try stage.start(
                ["deliveries", "--format", "json"] + words,
                under: ["/bin/sh", "-c", "printf '%s\\n' \(hex) | \"$@\"", "sh"]
            ).wait()
            #expect(result.exit == 0, "\(result.error)")
            #expect(try DeliveryDocument(result).deliveries.map(\.id) == [3])
        }
        for (words, message) in [
            (["--token", "secretsecret"], "reading --token: it is no device token in hex"),
            (["--token", hex, "--user", "u"], "name only one of"),
            (["--user", ""], "--user is empty"),
            (["--state", "lost"], "'lost' is invalid for '--state"),
            (["--since", "yesterday"], "reading --since 'yesterday': it is no time"),
            (["--limit", "0"], "from 1 to"), (["--format", "xml"], "'xml' is invalid"),
        ] {
            let refused = try stage.start(["deliveries"] + words).wait()
            #expect(refused.exit == 64 && refused.output == "", "\(words): \(refused.error)")
            #expect(refused.error.contains(message), "\(words): \(refused.error)")
            #expect(!refused.error.contains("secret"))
        }
        let nobody = try stage.deliveries("--user", "nobody")
        #expect(nobody.deliveries.isEmpty)
        #expect(nobody.notes.contains { $0.contains("check --user") }, "\(nobody.notes)")
    }

    @Test(
        "texts of the database are no formulas in CSV and control no terminal in any format",
        arguments: TestEngine.available)
    func hostile(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine)
        let evil = "=cmd|'/c'!A1\u{1B}]52;c;AAAA\u{07}\ncode=0\u{202E}"
        try stage.database.register(.numbered(1), at: 1, user: evil)
        // Our column of reasons holds ASCII.
        try stage.queue(.numbered(1), "failed", "@SUM(1)\u{1B}\n=2")
        for format in ["text", "json", "csv"] {
            let result = try stage.run("deliveries", "--format", format)
            #expect(result.exit == 0, "\(result.error)")
            for scalar in (result.output + result.error).unicodeScalars {
                #expect(
                    scalar == "\n"
                        || scalar.value >= 0x20 && scalar.value != 0x7F && scalar.value != 0x202E)
            }
            #expect(!result.output.split(separator: "\n").contains { $0.hasPrefix("code=") })
            if format == "csv" {
                #expect(result.output.contains("\"'=cmd|") || result.output.contains(",'=cmd|"))
                #expect(result.output.contains(",'@SUM(1)"))
            }
        }
        #expect(try stage.deliveries().deliveries[0].users == [evil])
    }

    @Test("what an account may not read is named, and the rest is listed")
    func account() throws {
        guard MariaDBServer.fromEnvironment != nil else { return }
        let stage = try Self.stage(.mariaDB)
        let account = try #require(try ReadingAccount(of: stage.database))
        try account.grantSelect(on: "push_queue")
        let little = try stage.deliveries(environment: account.environment)
        #expect(little.gaps.contains { $0.hasPrefix("pushsweep_claim: the account may not") })
        #expect(little.gaps.contains { $0.hasPrefix("users: ") }, "\(little.gaps)")
        #expect(little.deliveries.count == 8 && little.deliveries.allSatisfy { $0.users == nil })
        #expect(!little.deliveries.contains { $0.state == "claimed" })
        try account.grantSelect()
        let whole = try stage.deliveries(environment: account.environment)
        #expect(whole.gaps == [] && whole.deliveries[0].users == ["user 7"])
        #expect(whole.deliveries.contains { $0.state == "claimed" })
    }

    @Test("where reading fails the JSON document has its end, with the exit code of the failure")
    func damaged() throws {
        let stage = try Self.stage()
        try stage.database.execute("UPDATE pushsweep_claim SET row_keys = x'ffff'")
        let result = try stage.run("deliveries", "--format", "json")
        #expect(result.exit != 0 && result.error.contains("row_keys"), "\(result.error)")
        #expect(try DeliveryDocument(result).exit == result.exit)
        // Only rows that wait may be claimed.
        #expect(try stage.deliveries("--state", "gone").deliveries.map(\.id) == [6])
    }

    @Test("without a queue, or without a database, nothing is printed and the failure has a cure")
    func missing() throws {
        let stage = try SweepStage(.sqlite)
        try stage.database.execute("DROP TABLE push_queue")
        let result = try stage.run("deliveries", "--format", "json")
        #expect(result.exit == 78 && result.output == "", "\(result.error)")
        #expect(result.error.contains("pushsweep schema apply"), "\(result.error)")
    }
}

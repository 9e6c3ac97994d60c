import APNsProtocol
import Database
import Encodings
import Foundation
import TestSupport
import Testing

// What a newcomer does: an address, nothing else. The settings that are printed have to pass `check` as they
// are, with an account that has the printed grants alone.

@Suite("The command init")
struct InitCommandTests {
    /// A database of a project with devices of two platforms, and other tables.
    private static func project(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE sessions (id VARCHAR(64) PRIMARY KEY, user_id INTEGER)")
        try database.execute(
            "CREATE TABLE mobile_devices (id INTEGER PRIMARY KEY, user_id INTEGER, push_token VARCHAR(255), "
                + "os VARCHAR(10), is_active SMALLINT, sandbox SMALLINT, updated_at DATETIME)")
        try database.execute("CREATE INDEX by_token ON mobile_devices (push_token)")
        let format = ISO8601DateFormatter()
        format.formatOptions = [
            .withFullDate, .withTime, .withColonSeparatorInTime, .withSpaceBetweenDateAndTime,
        ]
        for number in 0..<90 {
            let time = format.string(
                from: Date().addingTimeInterval(Double(-600 - number * 40_000)))
            let hex = DeviceToken.numbered(number).hex
            let token = number % 3 == 0 ? "dGhpcy1pcw:APA91b\(number)-not_Apples" : hex
            try database.execute(
                "INSERT INTO mobile_devices VALUES (\(number), \(number / 2), '\(token)', "
                    + "'\(number % 3 == 0 ? "android" : "ios")', \(number % 20 == 7 ? 0 : 1), "
                    + "\(number % 10 == 1 ? 1 : 0), '\(time)')")
            try database.execute("INSERT INTO sessions VALUES ('\(hex)', 1)")
        }
        return database
    }

    private static func words(_ database: TokenDatabase) -> [String] {
        guard database.engine == .mariaDB, let server = MariaDBServer.fromEnvironment else {
            return ["init", "\(database.settings.location)"]
        }
        return ["init", "\(database.settings.location)", "--ca", server.ca]
    }

    private static var environment: [String: String] {
        ["PUSHSWEEP_STORE_PASSWORD": MariaDBServer.fromEnvironment?.password ?? ""]
            .filter { !$0.value.isEmpty }
    }

    @Test(
        "finds the table, says why, counts its rows, and leaves the database as it was",
        arguments: TestEngine.available)
    func look(_ engine: TestEngine) throws {
        let database = try Self.project(engine)
        let tables = try database.session().tables()
        let result = try RunningTool(
            "pushsweep", Self.words(database), environment: Self.environment
        ).wait().ends(0)
        for part in [
            "mobile_devices.push_token: 60 of 90 values read are 64 hex digits or more",
            "mobile_devices now: 90 rows, 60 living, 0 dead, 30 of other platforms, 0 malformed, 0 empty, 0 with",
            "platform: {column: os, value: ios}", "# rows with `ios` have Apple's tokens",
            "\n    # living: {column: is_active, living: 1, dead: 0}\n", "--mark is_active=1/0",
            "\n    invalidated-at: none\n", "`1` (57), `0` (3)", "pushsweep schema print --view",
            "environment: {column: sandbox, values: {production: 0, sandbox: 1}}",
            "registered-at: updated_at", "the newest is of ",
            "# ? topic: the bundle identifier of the app", "topic: com.example.app",
            "pushsweep check",
        ] {
            #expect(result.output.contains(part), "\(part) is missing in \(result.output)")
        }
        #expect(!result.output.contains(DeviceToken.numbered(1).hex))
        #expect(try database.session().tables() == tables)
    }

    @Test(
        "its report has the figures of an audit for an account with SELECT alone, before any table of Pushsweep's",
        arguments: TestEngine.available)
    func report(_ engine: TestEngine) throws {
        let database = try Self.project(engine)
        let tables = try database.session().tables()
        let folder = try TemporaryFolder()
        var (words, environment) = (Self.words(database), Self.environment)
        var account: ServerAccount?
        if engine == .mariaDB {
            let reader = try ServerAccount(of: database)
            try reader.grant()
            words[1] = try #require(reader.environment["PUSHSWEEP_STORE_URL"])
            environment = reader.environment.filter { $0.key == "PUSHSWEEP_STORE_PASSWORD" }
            account = reader
        }
        withExtendedLifetime(account) {}
        let (json, page) = (folder.file("first.json"), folder.file("first.html"))
        for file in [json, page] {
            try RunningTool("pushsweep", words + ["--report", file], environment: environment)
                .wait().ends(0, "report on these rows: \(file)")
        }
        let report = try #require(
            try JSONSerialization.jsonObject(with: Data(contentsOf: URL(filePath: json)))
                as? [String: Any])
        let apps = try #require(report["apps"] as? [[String: Any]])
        func sum(_ name: String) -> Int {
            apps.reduce(0) { $0 + (($1["tokens"] as? [String: Any])?[name] as? Int ?? 0) }
        }
        #expect(apps.count == 2 && sum("rows") == 60 && sum("living") == 60)
        #expect((apps[0]["deep"] as? [String: Any])?["duplicateTokens"] as? Int == 0)
        #expect(report["healthy"] as? Bool == true)
        let rules = (report["findings"] as? [[String: Any]])?.compactMap { $0["rule"] as? String }
        #expect(rules?.contains("first-look") == true)
        for rule in ["open-hold", "no-recent-sweep", "not-examined"] {
            #expect(rules?.contains(rule) == false)
        }
        let text = try String(contentsOfFile: page, encoding: .utf8)
        #expect(text.hasPrefix("<!DOCTYPE html>") && text.contains("Ages of registrations"))
        #expect(text.contains("A first look</h1>") && !text.contains("Healthy"))
        for unknown in ["Evidence waiting", "Open holds", "Last good sweep", "Became invalid"] {
            #expect(!text.contains(unknown), "\(unknown)")
        }
        let exchanged = folder.file("exchanged.json")
        try RunningTool(
            "pushsweep", words + ["--report", exchanged, "--mark", "is_active=0/1"],
            environment: environment
        ).wait().ends(0)
        #expect(try String(contentsOfFile: exchanged, encoding: .utf8).contains("may be exchanged"))
        // The look is printed although its report cannot be written.
        try RunningTool(
            "pushsweep", words + ["--report", folder.file("nowhere/first.html")],
            environment: environment
        ).wait().ends(73, "mobile_devices now: 90 rows")
        try RunningTool(
            "pushsweep", words + ["--report", page, "--output", page], environment: environment
        ).wait().ends(64, "name one file")
        #expect(!text.contains(DeviceToken.numbered(1).hex))
        #expect(try database.session().tables() == tables)
        try RunningTool(
            "pushsweep", words + ["--report", folder.file("first.pdf")], environment: environment
        ).wait().ends(64, "says no format")
    }

    @Test(
        "it writes over the example that the package brings, and over no file that a person edited")
    func example() throws {
        let database = try Self.project(.sqlite)
        let folder = try TemporaryFolder()
        let example = try Tool.pushsweep("check", "--example").ends(0).output
        let file = try folder.write("pushsweep.yaml", example)
        let words = Self.words(database) + ["--output", file]
        try RunningTool("pushsweep", words).wait().ends(0, "settings: written to \(file)")
        let written = try String(contentsOfFile: file, encoding: .utf8)
        #expect(written.contains("table: mobile_devices"))
        let again = try RunningTool("pushsweep", words).wait().ends(73)
        again.says("is there already")
        try folder.write("pushsweep.yaml", example + "# mine\n")
        try RunningTool("pushsweep", words).wait().ends(73)
        #expect(try String(contentsOfFile: file, encoding: .utf8) == example + "# mine\n")
    }

    @Test(
        "its settings pass check with an account that has the printed grants alone",
        arguments: TestEngine.available)
    func check(_ engine: TestEngine) throws {
        let database = try Self.project(engine)
        let folder = try TemporaryFolder()
        let file = folder.file("pushsweep.yaml")
        let report = try RunningTool(
            "pushsweep", Self.words(database) + ["--output", file, "--format", "json"],
            environment: Self.environment
        ).wait().ends(0).json
        #expect(report["file"] as? String == file)
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(report["settings"] as? String == text)
        try text.replacing("/var/lib/pushsweep", with: folder.file("state"))
            .write(toFile: file, atomically: false, encoding: .utf8)
        var admin = Self.environment
        if engine == .mariaDB { admin["PUSHSWEEP_STORE_URL"] = "\(database.settings.location)" }
        func run(_ words: String..., environment: [String: String]) throws -> ToolResult {
            try RunningTool(
                "pushsweep", words + ["--config", file], environment: environment
            ).wait()
        }
        try run("schema", "apply", environment: admin).ends(0)
        var account: ServerAccount?
        if engine == .mariaDB {
            let made = try ServerAccount(of: database)
            let grants = try run(
                "check", "--grants", "\(made.name)@%", "--format", "json", environment: admin
            ).ends(0).json
            for job in grants["jobs"] as? [[String: Any]] ?? [] {
                let name = job["job"] as? String ?? ""
                guard name.hasPrefix("sweep") || name.hasPrefix("check") else { continue }
                for statement in job["statements"] as? [String] ?? [] {
                    try made.admin.run(statement)
                }
            }
            account = made
        }
        let environment = account?.environment ?? [:]
        let checked = try run("check", environment: environment).ends(0)
        #expect(!checked.output.contains("looks like"), "\(checked.output)")
        try run("sweep", "--dry-run", environment: environment).ends(0)
    }

    @Test(
        "a question is answered in the second run, or by taking away the sign of its comment",
        arguments: TestEngine.available)
    func answered(_ engine: TestEngine) throws {
        let database = try Self.project(engine)
        func settings(_ words: [String]) throws -> String {
            try RunningTool(
                "pushsweep", Self.words(database) + ["--format", "json"] + words,
                environment: Self.environment
            ).wait().ends(0).json["settings"] as? String ?? ""
        }
        let line = "living: {column: is_active, living: 1, dead: 0}"
        let first = try settings([])
        let answered = try settings([
            "--mark", "is_active=1/0", "--token", "mobile_devices.push_token", "--platform",
            "os=ios",
            "--registered-at", "updated_at",
        ])
        #expect(answered.contains("\n    \(line)\n"))
        let folder = try TemporaryFolder()
        var admin = Self.environment
        if engine == .mariaDB { admin["PUSHSWEEP_STORE_URL"] = "\(database.settings.location)" }
        for text in [answered, first.replacing("    # \(line)", with: "    \(line)")] {
            #expect(text.contains("\n    \(line)\n"))
            let file = try folder.write(
                "settings.yaml", text.replacing("/var/lib/pushsweep", with: folder.file("state")))
            try RunningTool("pushsweep", ["check", "--config", file], environment: admin).wait()
                .says("mark is_active (living `1`, dead `0`)")
        }
        let none = try settings(["--mark", "none"])
        #expect(
            none.contains("invalidated-at: none") && none.contains("ignore-columns: [is_active"))
        for (words, exit, part) in [
            (["--mark", "is_active=1"], Int32(64), "is COLUMN=LIVING/DEAD"),
            (["--mark", "is_active=5/0"], 78, "no row has `5` in column is_active"),
            (["--token", "devices"], 64, "is TABLE.COLUMN"),
            (["--token", "a.b", "--table", "c"], 64, "leave --table and --column out"),
            (["--platform", "os=iOS"], 78, "the rows read have `ios` (60), `android` (30)"),
        ] {
            try RunningTool(
                "pushsweep", Self.words(database) + words, environment: Self.environment
            ).wait().ends(exit, part)
        }
    }

    @Test(
        "what it prints to be copied stays one command, whatever columns, values and files are called"
    )
    func copied() throws {
        let database = try TokenDatabase(.sqlite)
        let names = [
            "$(touch pwned)", "a'b; touch pwned #", "-x", "e\u{301}\"'\u{301} `touch pwned`",
        ]
        let list = names.map { "\($0.doubling("\"")) VARCHAR(40)" }.joined(separator: ", ")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), updated_at DATETIME, "
                + "\(list), \"odd\nname\" TEXT)")
        for number in 0..<60 {
            let isGone = number % 9 == 0
            let word = isGone ? "off; $(touch pwned) ' = #" : "on\u{301}"
            let values = Array(repeating: SQLValue.text(word), count: names.count)
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '\(DeviceToken.numbered(number).hex)', "
                    + "'2026-11-20 10:00:00', \(placeholders(names.count)), NULL)", values)
        }
        let folder = try TemporaryFolder()
        func shell(_ line: String) throws -> ToolResult {
            try RunningTool(
                program: URL(fileURLWithPath: "/bin/sh"),
                [
                    "-c", "cd \(folder.path.shellWord) && \(line)",
                    RunningTool.folderOfTests.appendingPathComponent("pushsweep").path,
                ]
            ).wait()
        }
        let output = folder.file("it's $(touch pwned).yaml")
        let first = try RunningTool(
            "pushsweep", Self.words(database) + ["--format", "json", "--output", output]
        ).wait().ends(0).json
        #expect(first["unnameable"] as? [String] == ["devices.odd\nname"])
        let settings = try #require(first["settings"] as? String)
        let parts = (first["parts"] as? [[String: Any]] ?? []).filter { $0["answer"] != nil }
        #expect(Set(parts.compactMap { $0["column"] as? String }).isSuperset(of: names))
        for part in parts {
            let answer = try #require(part["answer"] as? String)
            #expect(settings.contains("\n    #   \(answer)\n"), "\(answer)")
            let words = Self.words(database).map(\.shellWord).joined(separator: " ")
            let second = try shell("\"$0\" \(words) --format json \(answer)").ends(0).json
            let line = (second["parts"] as? [[String: Any]] ?? []).first {
                $0["part"] as? String == part["part"] as? String && $0["value"] != nil
            }
            #expect(line?["value"] as? String == part["setting"] as? String, "\(answer)")
        }
        for command in first["next"] as? [String] ?? [] {
            let words = try shell("printf '%s\\0' \(command)").ends(0).output
                .components(separatedBy: "\0")
            #expect(words.contains(exactly: output), "\(command)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.file("pwned")))
    }

    @Test(
        "each environment of the rows is an app, and where no column tells it production is one with a question"
    )
    func environments() throws {
        let database = try Self.project(.sqlite)
        func environments() throws -> [String] {
            let report = try RunningTool("pushsweep", Self.words(database) + ["--format", "json"])
                .wait().ends(0).json
            let text = report["settings"] as? String ?? ""
            let apps = text.components(separatedBy: "\napps:\n").last ?? ""
            return apps.components(separatedBy: "environment: ").dropFirst().map {
                String($0.prefix { $0.isLetter })
            }
        }
        #expect(try environments() == ["production", "sandbox"])
        try database.execute("UPDATE mobile_devices SET sandbox = 1")
        #expect(try environments() == ["sandbox"])
        try database.execute("ALTER TABLE mobile_devices DROP COLUMN sandbox")
        #expect(try environments() == ["sandbox", "production"], "the first is a question")
    }

    @Test("writes over no file, and over no link")
    func output() throws {
        let database = try Self.project(.sqlite)
        let folder = try TemporaryFolder()
        let kept = try folder.write("pushsweep.yaml", "state: /x\n")
        let link = folder.file("link.yaml")
        try FileManager.default.createSymbolicLink(
            atPath: link, withDestinationPath: folder.file("nowhere"))
        for path in [kept, link] {
            let result = try RunningTool("pushsweep", Self.words(database) + ["--output", path])
                .wait().ends(73)
            #expect(result.error.contains("the file is there already"), "\(result.error)")
        }
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == "state: /x\n")
        #expect(access(folder.file("nowhere"), F_OK) != 0)
        try RunningTool("pushsweep", Self.words(database) + ["--output", folder.file("no/x.yaml")])
            .wait().ends(73)
    }

    @Test("an address that is none, a password in it, and a database without tokens are named")
    func mistakes() throws {
        let empty = try TokenDatabase(.sqlite)
        for (words, exit, part) in [
            (["init"], Int32(64), "address"),
            (["init", ""], 64, "empty"),
            (["init", "oracle://x"], 64, "mysql://"),
            (["init", "mysql://root:secret@127.0.0.1/x"], 64, "must not hold a password"),
            (["init", "sqlite:///nowhere/x.db"], 78, "there is no database file"),
            (["init", "\(empty.settings.location)"], 78, "none of 0 tables has a column"),
            (["init", "\(empty.settings.location)", "--table", "devices"], 78, "no such table"),
            (["init", "\(empty.settings.location)", "--table", ""], 64, "--table is empty"),
        ] {
            let result = try RunningTool("pushsweep", words).wait().ends(exit)
            #expect(result.error.contains(part), "\(words): \(result.error)")
            #expect(!result.error.contains("secret"))
        }
    }
}

extension TokenDatabase {
    fileprivate func session() throws -> Catalog { Catalog(connection: sql) }
}

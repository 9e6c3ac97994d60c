import APNsProtocol
import Database
import TestSupport
import Testing
import TokenHygiene
import TokenTable

// The words by which a row names its app and environment.

extension EvidenceIntakeTests {
    /// Apps by their names, each with its value in the table; `s:` begins those of the sandbox.
    static func words(
        _ values: [String: String], environments: [String: String] = [:]
    ) -> AppWords {
        let stored = values.map { name, value in
            let isSandbox = name.hasPrefix("s:")
            let environment = isSandbox ? "sandbox" : "production"
            return (
                Partition(
                    app: isSandbox ? String(name.dropFirst(2)) : name, environment: environment),
                Partition(app: value, environment: environment)
            )
        }
        return AppWords(Dictionary(uniqueKeysWithValues: stored), environments: environments)
    }

    @Test(
        "a row may name app and environment by the table's values, and its batch has the settings' names",
        arguments: TestEngine.available)
    func values(_ engine: TestEngine) throws {
        let database = try Self.database(engine, rows: 0)
        let composed = "caf\u{E9}"
        let apps = Self.words(
            ["chat": "7", "talk": composed, "mail": "8", "s:mail": "9"],
            environments: ["production": "prod", "sandbox": "0"])
        let rows: [(app: String, environment: String, meant: String)] = [
            ("7", "prod", "chat/production"), ("7", "production", "chat/production"),
            ("chat", "prod", "chat/production"), ("chat", "production", "chat/production"),
            (composed, "prod", "talk/production"), ("mail", "prod", "mail/production"),
            ("9", "0", "mail/sandbox"), ("mail", "sandbox", "mail/sandbox"),
        ]
        for (number, row) in rows.enumerated() {
            try database.execute(
                "INSERT INTO pushsweep_evidence (app, environment, device_token, timestamp_ms) VALUES (?, ?, ?, ?)",
                [
                    .text(row.app), .text(row.environment), .text(DeviceToken.numbered(number).hex),
                    .integer(1_700_000_000_000),
                ])
        }
        // Neither other bytes nor a value of the other environment mean an app.
        for (app, environment) in [("cafe\u{301}", "prod"), ("7", "0"), ("7", "PROD")] {
            try database.execute(
                "INSERT INTO pushsweep_evidence (app, environment, device_token) VALUES (?, ?, 'ab')",
                [.text(app), .text(environment)])
        }
        let intake = EvidenceIntake(try database.store())
        let meant = Dictionary(grouping: rows, by: \.meant).mapValues(\.count)
        for (name, count) in meant {
            let parts = name.split(separator: "/").map(String.init)
            let words = apps.words(of: Partition(app: parts[0], environment: parts[1]))
            #expect(try intake.waiting(naming: words) == count, "\(name)")
        }
        let all = try Self.takeAll(
            intake, Self.terms(apps), at: database.store().session.databaseTime())
        let taken = all.flatMap(\.batches).map { ("\($0.batch.partition)", $0.batch.reports) }
        #expect(Dictionary(uniqueKeysWithValues: taken) == meant)
        #expect(all.reduce(0) { $0 + $1.left.count } == 3)
        #expect(
            Set(try database.texts("SELECT app_name FROM pushsweep_batch")) == [
                ["chat"], ["mail"], ["talk"],
            ])
    }

    @Test("a value of two apps, or that is another one's name, waits a day, and both are named")
    func ambiguousValues() throws {
        let database = try Self.database(.sqlite, rows: 0)
        let terms = Self.terms(
            Self.words([
                "chat": "7", "talk": "7", "post": "mail", "s:mail": "mail", "alpha": "1",
                "beta": "alpha",
            ]))
        for app in ["7", "mail", "alpha"] {
            try database.report(DeviceToken.numbered(1).hex, app: app)
        }
        let intake = EvidenceIntake(try database.store())
        let now = try database.store().session.databaseTime()
        let left = try #require(try Self.takeAll(intake, terms, at: now).first).left
        let words = [
            "app 7 in environment production, which may be chat/production or talk/production",
            "app mail in environment production, which may be mail/sandbox or post/production",
            "app alpha in environment production, which may be alpha/production or beta/production",
        ]
        #expect(left.count == 3 && left.names == words.joined(separator: ", "))
        let late = now.advanced(by: IntakeTerms.patience + 60_000)
        #expect(try Self.takeAll(intake, terms, at: late).map(\.counts.quarantined) == [3])
        let parts = try Quarantine(database.store()).parts(about: .numbered(1), limit: 9)
        for (part, words) in zip(parts, words) {
            #expect(part.part.reason.hasPrefix("the settings name no \(words); name it under apps"))
        }
    }
}

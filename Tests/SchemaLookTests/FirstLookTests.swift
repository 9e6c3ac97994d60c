import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

@Suite("The first look at a database")
struct FirstLookTests {
    @Test(
        "proposes what the rows show and asks about the rest; what it proposes finds the tokens",
        arguments: DeviceTable.all.flatMap { table in table.engines.map { ($0, table) } })
    func proposals(_ engine: TestEngine, _ table: DeviceTable) throws {
        let database = try table.database(engine)
        let (look, found) = try database.firstLook()
        let proposal = try #require(found, "\(look.found)")
        let lines = proposal.lines.compactMap { line in
            line.value.map { "\(line.part.rawValue): \($0)" }
        }
        for line in table.expected {
            #expect(lines.contains(line), "\(line) is not among \(proposal.lines)")
        }
        // A part that is not expected would be a guess; `none` takes no column.
        for line in lines where !line.hasSuffix(": none") {
            #expect(table.expected.contains(line) || line.hasPrefix("key: "), "a guess: \(line)")
        }
        // Any column of two values is a question about the mark.
        let marks: Set = ["living", "invalidated-at"]
        let asked = Set(proposal.questions.map(\.part.rawValue))
        #expect(asked.subtracting(marks) == Set(table.asked).subtracting(marks))
        #expect(asked.isSuperset(of: table.asked), "\(asked)")
        #expect(proposal.mapping.living.column == nil && lines.contains("invalidated-at: none"))
        let offered = proposal.questions.filter { marks.contains($0.part.rawValue) }.map {
            "\($0.part.rawValue): \($0.setting ?? "")"
        }
        #expect(offered.starts(with: table.marks), "\(offered)")
        #expect(proposal.statements.count == table.statements.count, "\(proposal.statements)")

        for statement in proposal.statements.flatMap({ $0.components(separatedBy: "; CREATE") }) {
            try database.execute(statement.hasPrefix(" INDEX") ? "CREATE\(statement)" : statement)
        }
        try database.createSideTables()
        let report = try database.store { $0 = proposal.mapping }.examineWithLook(.read)
        if let refusal = table.refusal {
            #expect(report.firstFailure?.sentence.contains(refusal) == true)
        } else {
            #expect(report.firstFailure == nil, "\(report.findings)")
            #expect(report.sample?.count(.bytes, .lowerHex) ?? 0 >= 40, "\(report.findings)")
        }
        // The statements refuse no row that the application writes later.
        for column in proposal.table.columns where !proposal.statements.isEmpty && column.isText {
            for value in ["", "x", "{", "{}", "[1]", "null", String(repeating: "a", count: 250)] {
                try database.execute(
                    "UPDATE \(proposal.table.name) SET \(column.name) = ? WHERE id = 1",
                    [.text(value)])
            }
        }
    }

    @Test("a name counts by its words, also without signs between them")
    func words() {
        for (name, words) in [
            ("deviceToken", ["device", "token"]), ("device_token", ["device", "token"]),
            ("devicetoken", ["device", "token"]), ("lastupdate", ["last", "update"]),
            ("callbackIsExpired", ["callback", "is", "expired"]), ("issandbox", ["is", "sandbox"]),
            ("disabled_reason", ["disabled", "reason"]), ("timemodified", ["time", "modified"]),
            ("keepalive", ["keepalive"]),
        ] {
            #expect(ColumnWords(name).words == words)
        }
        for (name, says) in [
            ("is_active", true), ("active", true), ("token_valid", true), ("deleted", false),
            ("is_delete", false), ("callbackIsExpired", false), ("location_enabled", nil),
            ("not_deleted", nil), ("is_interactive", nil), ("subscription_expired", nil),
        ] as [(String, Bool?)] {
            #expect(ColumnWords(name).saysLiving == says, "\(name)")
        }
    }

    @Test(
        "says what writes the registration: a default, the engine, a trigger",
        arguments: TestEngine.available)
    func writers(_ engine: TestEngine) throws {
        func reason(_ column: String, _ trigger: String? = nil) throws -> String {
            let database = try TokenDatabase(engine)
            try database.execute(
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), updated_at \(column))"
            )
            for number in 0..<20 {
                try database.execute(
                    "INSERT INTO devices (id, device_token) VALUES (\(number), '\(Device.hex(number))')"
                )
            }
            if let trigger { try database.sql.run(trigger) }
            return try database.firstLook().1?.line(.registeredAt)?.reason ?? ""
        }
        let present = engine == .mariaDB ? "CURRENT_TIMESTAMP" : "(datetime('now'))"
        #expect(try reason("DATETIME DEFAULT \(present)").contains("its default sets it"))
        let trigger =
            engine == .mariaDB
            ? "CREATE TRIGGER moves BEFORE UPDATE ON devices FOR EACH ROW SET NEW.updated_at = NOW()"
            : "CREATE TRIGGER moves AFTER UPDATE OF device_token ON devices BEGIN "
                + "UPDATE devices SET updated_at = datetime('now') WHERE id = NEW.id; END"
        #expect(
            try reason("DATETIME DEFAULT \(present)", trigger).contains(
                "trigger moves may write it"))
        guard engine == .mariaDB else { return }
        #expect(
            try reason("DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP")
                .contains("the database sets it (ON UPDATE)"))
    }

    @Test("chooses no table where two are equally likely", arguments: TestEngine.available)
    func rivals(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        for table in ["mobile_devices", "web_devices"] {
            try database.execute(
                "CREATE TABLE \(table) (id INTEGER PRIMARY KEY, device_token VARCHAR(255))")
            for number in 0..<20 {
                try database.execute(
                    "INSERT INTO \(table) VALUES (\(number), '\(Device.hex(number))')")
            }
        }
        let (look, proposal) = try database.firstLook()
        #expect(proposal == nil)
        #expect(look.found.map(\.table.name).sorted() == ["mobile_devices", "web_devices"])
        let chosen = try database.firstLook(table: TableName(name: "web_devices")).1
        #expect(chosen?.mapping.table == "web_devices")
    }

    @Test("takes no hash of a session, however many there are", arguments: TestEngine.available)
    func hashes(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE oauth_access_tokens (id VARCHAR(100) PRIMARY KEY, session_hash VARCHAR(64))"
        )
        for number in 0..<20 {
            try database.execute(
                "INSERT INTO oauth_access_tokens VALUES ('\(Device.hex(number))', '\(Device.hex(-number))')"
            )
        }
        let (look, proposal) = try database.firstLook()
        #expect(proposal == nil && look.choice() == nil)
        #expect(look.found.allSatisfy { !$0.isLikely })
    }

    @Test(
        "an empty database, an empty table and a table without a key end the look in order",
        arguments: TestEngine.available)
    func nothing(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        #expect(try database.firstLook().0.tables == 0)
        try database.execute("CREATE TABLE devices (device_token VARCHAR(255))")
        #expect(try database.firstLook().0.found.isEmpty)
        try database.execute("INSERT INTO devices VALUES ('\(Device.hex(1))'), (NULL), (''), ('0')")
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.token)?.column == "device_token")
        #expect(proposal.questions.contains { $0.part == .key })
        // A name that settings would take for a database and a table.
        let quoted = database.sql.dialect.quoted("a.b")
        try database.execute("CREATE TABLE \(quoted) (device_token VARCHAR(255))")
        #expect(try database.firstLook().0.unread == ["a.b"])
    }

    @Test("a table or a column whose name settings cannot have is named as left out")
    func unnameable() throws {
        let database = try TokenDatabase(.sqlite)
        let long = "updated_at_" + String(repeating: "x", count: 60)
        try database.execute("CREATE TABLE \"dev\n\"\"ices\" (device_token VARCHAR(255))")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), \"push\rtoken\" TEXT, "
                + "\"seen\u{202E}\" INTEGER, \" user_id\" TEXT, \"\(long)\" DATETIME)")
        for number in 0..<20 {
            try database.execute(
                "INSERT INTO devices VALUES (\(number), '\(Device.hex(number))', NULL, 1, 'u', "
                    + "'2026-11-27 10:00:00')")
        }
        let (look, proposal) = try database.firstLook()
        #expect(look.unnameable.prefix(2) == ["dev\n\"ices", "devices.push\rtoken"])
        #expect(
            try #require(proposal).table.unnameable.map(\.name)
                == ["push\rtoken", "seen\u{202E}", " user_id", long])
        let settings = try #require(proposal).mapping
        #expect(settings.registeredAt == TableMapping().registeredAt)
    }

    @Test(
        "an account with SELECT alone is enough, and a table that it may not read is named",
        .needsServer)
    func account() throws {
        let table = try #require(DeviceTable.all.first)
        let database = try table.database(.mariaDB)
        let account = try ServerAccount(of: database)
        try account.grant(on: "mobile_devices")
        var settings = database.settings
        guard case .server(let server) = settings.location else { return }
        settings.location = .server(
            .init(addresses: server.addresses, user: account.name, database: server.database))
        settings.password = Secret("p")
        let session = try DatabaseSession(settings)
        var look = try DatabaseLook(session)
        try look.search()
        #expect(look.choice()?.table.name == "mobile_devices")
        #expect(try look.proposal(#require(look.choice()))?.line(.platform) != nil)
    }
}

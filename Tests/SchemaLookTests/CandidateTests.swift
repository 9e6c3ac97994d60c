import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import Testing

@testable import SchemaLook
@testable import TokenTable

// Tables whose values are like tokens and that no sender reads: each stands beside the one in which devices
// register, or alone.

extension TokenDatabase {
    /// A table with a row for each device.
    func make(
        _ table: String, _ columns: String, _ count: Int = 120, mixed: Bool = false,
        _ values: (Device) -> String
    ) throws {
        try execute("CREATE TABLE \(table) (\(columns))")
        try sql.begin()
        for device in Device.some(count, mixed: mixed) {
            try execute("INSERT INTO \(table) VALUES (\(values(device)))")
        }
        try sql.commit()
    }

    /// Devices in a table whose name and columns say little.
    fileprivate func makeHandsets() throws {
        try make(
            "handsets",
            "id INTEGER PRIMARY KEY, push_addr VARCHAR(255), plattform VARCHAR(10), last_ping DATETIME",
            mixed: true
        ) { "\($0.number), '\($0.token)', '\($0.isApple ? "ios" : "android")', '\($0.time)'" }
    }
}

@Suite("The columns that may hold tokens")
struct CandidateTests {
    /// Base64 of some random bytes.
    private static func base64(_ count: Int) -> String {
        Data((0..<count).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
    }

    /// A table that is not that of the devices, although its column has the better name.
    struct Trap: CustomStringConvertible, Sendable {
        let description: String
        let ddl: String
        let rows: @Sendable (Device) -> [String]
        /// A part of what is said against it.
        let doubt: String
    }

    static let traps: [Trap] = [
        Trap(
            description: "a log of what was sent",
            ddl:
                "sendings (id INTEGER PRIMARY KEY, device_token VARCHAR(200), http_status INTEGER, apns_id VARCHAR(40), "
                + "sent_at DATETIME)",
            rows: { device in
                (0..<3).map {
                    "\(device.number * 3 + $0), '\(Device.hex(device.number))', 200, 'x', '\(device.time)'"
                }
            }, doubt: "log of what was sent"),
        Trap(
            description: "a table with many rows for each token",
            ddl:
                "app_opens (id INTEGER PRIMARY KEY, device_token VARCHAR(200), opened_at DATETIME)",
            rows: { device in
                (0..<3).map {
                    "\(device.number * 3 + $0), '\(Device.hex(device.number))', '\(device.time)'"
                }
            }, doubt: "360 rows have 120 tokens"),
        Trap(
            description: "a copy by its name",
            ddl: "device_tokens_bak_2023 (id INTEGER PRIMARY KEY, device_token VARCHAR(200))",
            rows: { ["\($0.number), '\(Device.hex($0.number))'"] },
            doubt: "the name of its table is that of a copy"),
        Trap(
            description: "a copy by its times and its tokens",
            ddl:
                "device_tokens (id INTEGER PRIMARY KEY, device_token VARCHAR(200), updated_at DATETIME)",
            rows: {
                [
                    "\($0.number), '\(Device.hex($0.number))', '\(Device.time($0.registered - 90 * 86_400))'"
                ]
            }, doubt: "its tokens stand in handsets.push_addr"),
        Trap(
            description: "a table that nobody has written for a year",
            ddl: "mobile_devices (id INTEGER PRIMARY KEY, apns_token VARCHAR(200), seen DATETIME)",
            rows: {
                [
                    "\($0.number), '\(Device.hex(-$0.number - 1))', '\(Device.time($0.registered - 400 * 86_400))'"
                ]
            }, doubt: "its newest time is of"),
        Trap(
            description: "a hash by its name",
            ddl: "push_devices (id INTEGER PRIMARY KEY, device_token_hash CHAR(64))",
            rows: { ["\($0.number), '\(Device.hex(-$0.number - 1))'"] },
            doubt: "its name is that of a secret or a hash"),
        Trap(
            description: "a hash by its width",
            ddl: "push_devices (id INTEGER PRIMARY KEY, device_token CHAR(128))",
            rows: {
                ["\($0.number), '\(Device.hex(-$0.number - 1))\(Device.hex(-$0.number - 900))'"]
            }, doubt: "have 64 bytes"),
        Trap(
            description: "logins",
            ddl: "oauth_access_tokens (id INTEGER PRIMARY KEY, token CHAR(64))",
            rows: { ["\($0.number), '\(Device.hex(-$0.number - 1))'"] },
            doubt: "its table is that of logins"),
        Trap(
            description: "a key of people",
            ddl: "kunden (id INTEGER PRIMARY KEY, schluessel CHAR(64))",
            rows: { ["\($0.number), '\(Device.hex(-$0.number - 1))'"] },
            doubt: "neither its name nor its table speaks of push"),
        Trap(
            description: "blocks of a cipher",
            ddl: "app_devices (id INTEGER PRIMARY KEY, push_token VARCHAR(200))",
            rows: { ["\($0.number), '\(base64(60))'"] }, doubt: "have 60 bytes"),
        Trap(
            description: "hex digits beside a text that nobody can read",
            ddl: "mobile_devices (id INTEGER PRIMARY KEY, token TEXT, lookup CHAR(64))",
            rows: { ["\($0.number), '\(base64(200))', '\(Device.hex(-$0.number - 1))'"] },
            doubt: "token stands beside it, of which it may be the hash"),
    ]

    @Test(
        "what is like tokens and is none is not taken, beside the devices or alone, and it is said why",
        arguments: TestEngine.inTurn(CandidateTests.traps))
    func trap(_ engine: TestEngine, _ trap: Trap) throws {
        let database = try TokenDatabase(engine)
        let name = String(trap.ddl.prefix { $0 != " " })
        try database.execute("CREATE TABLE \(trap.ddl)")
        try database.sql.begin()
        for row in Device.some(mixed: false).flatMap(trap.rows) {
            try database.execute("INSERT INTO \(name) VALUES (\(row))")
        }
        try database.sql.commit()
        let isAloneDoubted = !["a copy by", "a table that"].contains {
            trap.description.hasPrefix($0) && !trap.doubt.contains("name of its table")
        }
        if isAloneDoubted {
            let (alone, proposal) = try database.firstLook()
            #expect(proposal == nil)
            #expect(alone.found.contains { $0.doubts.joined().contains(trap.doubt) })
        }
        try database.makeHandsets()
        let (look, proposal) = try database.firstLook()
        #expect(proposal?.mapping.table == "handsets", "\(look.found)")
        let seen = try #require(look.found.first { $0.table.name == name })
        #expect(seen.doubts.joined(separator: "; ").contains(trap.doubt), "\(seen)")
        let line = try #require(look.choice().flatMap(look.comparison))
        #expect(
            line.contains("handsets.push_addr is taken") && line.contains("not \(name)."), "\(line)"
        )
        // A person may know better.
        var answers = LookAnswers()
        try answers.setToken("\(name).\(seen.column)")
        #expect(try database.firstLook(answers: answers).1?.mapping.table == name)
    }

    @Test(
        "of two columns of one form a person decides, in one table and in two",
        arguments: TestEngine.available)
    func rivals(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "devices", "id INTEGER PRIMARY KEY, token VARCHAR(200), push_token VARCHAR(200)"
        ) { "\($0.number), '\(Device.hex(-$0.number - 1))', '\($0.token)'" }
        let (look, proposal) = try database.firstLook()
        #expect(proposal == nil)
        #expect(look.found.filter(\.isLikely).count == 2)
        #expect(look.found.allSatisfy { !$0.reasons.isEmpty })
        // The VoIP token of the same device is not the one to which alerts go.
        try database.execute("ALTER TABLE devices RENAME COLUMN token TO voip_token")
        #expect(try database.firstLook().1?.line(.token)?.column == "push_token")
        try database.make("phones", "id INTEGER PRIMARY KEY, device_token VARCHAR(200)") {
            "\($0.number), '\(Device.hex(-$0.number - 500))'"
        }
        #expect(try database.firstLook().1 == nil)
        #expect(
            try database.firstLook(table: TableName(name: "phones")).1?.mapping.table == "phones")
    }

    @Test("tables of Pushsweep's own are no candidates", arguments: TestEngine.available)
    func own(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.makeHandsets()
        let columns =
            "device_token VARCHAR(200), payload VARCHAR(20), state VARCHAR(9), attempts INTEGER, not_before "
            + "DATETIME, answered_at DATETIME"
        for (name, columns) in [
            (
                "push_queue",
                "id INTEGER PRIMARY KEY, device_token VARCHAR(200), payload VARCHAR(20)"
            ),
            ("outbox", "id INTEGER PRIMARY KEY, \(columns)"),
            ("versand", "id INTEGER PRIMARY KEY, device_token VARCHAR(200)"),
        ] {
            let rest = columns.filter { $0 == "," }.count - 1
            try database.make(name, columns) {
                "\($0.number), '\(Device.hex($0.number))'"
                    + String(repeating: ", NULL", count: rest)
            }
        }
        for statement in SchemaScript.sideTables(for: database.settings.location).statements {
            try database.execute(statement)
        }
        try database.execute("INSERT INTO pushsweep_queue VALUES ('versand', 1, 1)")
        let (look, proposal) = try database.firstLook()
        #expect(look.found.map(\.place) == ["handsets.push_addr"])
        #expect(proposal?.mapping.table == "handsets")
        for name in ["push_queue", "pushsweep_evidence"] {
            let refused = #expect(throws: StoreFailure.self) {
                try database.firstLook(table: TableName(name: name))
            }
            #expect(refused?.sentence.contains("a table of Pushsweep's own") == true)
        }
    }

    @Test(
        "one row of Apple's in fifty is enough, whatever the column is called",
        arguments: TestEngine.inTurn(["device_token", "push_addr"]))
    func few(_ engine: TestEngine, _ column: String) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            "geraete", "id INTEGER PRIMARY KEY, \(column) VARCHAR(255), os VARCHAR(10)", 600,
            mixed: true
        ) {
            let isApple = $0.number % 60 == 1
            let other = "dG\($0.number)x:APA91b" + String(repeating: "aZ-_9", count: 20)
            return
                "\($0.number), '\(isApple ? Device.hex($0.number) : other)', '\(isApple ? "ios" : "android")'"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.token)?.column == column)
        #expect(proposal.line(.platform)?.value == "{column: os, value: ios}")
    }

    @Test(
        "the address of a browser tells a column of identifiers, and the beginning of one tells nothing",
        arguments: TestEngine.inTurn([("https://push.example.com/", true), ("https://", false)]))
    func addresses(_ engine: TestEngine, _ shape: (text: String, isOfTokens: Bool)) throws {
        // So few of Apple's are a column of tokens only beside identifiers of other platforms.
        let database = try TokenDatabase(engine)
        try database.make("geraete", "id INTEGER PRIMARY KEY, push_addr VARCHAR(255)") {
            "\($0.number), '\($0.number % 10 == 1 ? $0.token : shape.text)'"
        }
        let found = try database.firstLook().0.found
        #expect(found.map(\.place) == (shape.isOfTokens ? ["geraete.push_addr"] : []), "\(found)")
    }

    @Test("placeholders are no identifiers of another platform", arguments: TestEngine.available)
    func placeholders(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        let texts = [
            "simulator-without-token", "TOKEN_NOT_AVAILABLE", String(repeating: "0", count: 64),
        ]
        try database.make("devices", "id INTEGER PRIMARY KEY, device_token VARCHAR(255)") {
            "\($0.number), '\($0.number % 5 == 0 ? texts[$0.number % 3] : $0.token)'"
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.line(.token)?.reason.hasPrefix("96 of 120 values") == true)
        #expect(!proposal.lines.contains { $0.part == .platform })
    }
}

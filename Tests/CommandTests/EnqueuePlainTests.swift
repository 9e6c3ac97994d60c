import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing

private let registered: Int64 = 1_600_000_000_000

@Suite("Plain notifications of enqueue, and the limits of the binary interface")
struct EnqueuePlainTests {
    private static let hex = DeviceToken.numbered(1).hex

    private static func payloads(_ stage: SendStage) throws -> [String] {
        let rows = try stage.database.sql.query("SELECT payload FROM push_queue ORDER BY id", [])
        return (0..<rows.count).map { place in
            if case .bytes(let bytes) = rows[place, 0] {
                return String(decoding: bytes, as: UTF8.self)
            }
            return rows[place, 0].testText
        }
    }

    private static func enqueue(_ stage: SendStage, _ words: [String]) throws -> ToolResult {
        try stage.start(["enqueue", "--token", hex] + words).wait()
    }

    /// A stage whose app sends through a binary gateway.
    private static func binary(
        _ command: Int, _ engine: TestEngine = .sqlite
    ) throws -> (SendStage, BinaryGateway) {
        let stage = try SendStage(engine)
        let gateway = try BinaryGateway(
            certificates: SweepStage.certificates.get(), rules: BinaryRules())
        try stage.use(gateway, "command: \(command), error-wait: 300ms")
        return (stage, gateway)
    }

    @Test(
        "the members of aps have Apple's names, and any text survives",
        arguments: TestEngine.available)
    func members(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        let odd = "a \"quote\", a \\ and 🍽\u{1}\n</aps>"
        for words in [
            ["--alert", "Dinner", "--badge", "3", "--sound", "bell.caf", "--category", "MEAL"],
            ["--alert", odd, "--sound", odd], ["--badge", "0"],
            ["--alert", "x", "--content-available"],
        ] {
            let result = try Self.enqueue(stage, words)
            #expect(result.exit == 0, "\(result.error)")
        }
        let payloads = try Self.payloads(stage)
        #expect(
            payloads[0]
                == #"{"aps":{"alert":"Dinner","badge":3,"category":"MEAL","sound":"bell.caf"}}"#)
        let read = try JSONSerialization.jsonObject(with: Data(payloads[1].utf8)) as? [String: Any]
        #expect(read?["aps"] as? [String: String] == ["alert": odd, "sound": odd])
        #expect(payloads[2] == #"{"aps":{"badge":0}}"#)
        #expect(payloads[3] == #"{"aps":{"alert":"x","content-available":1}}"#)
        #expect(
            try stage.database.texts("SELECT DISTINCT push_type, priority FROM push_queue").count
                == 1)
        #expect(try stage.database.count("SELECT COUNT(push_type) FROM push_queue") == 0)
    }

    @Test("--content-available alone is a background notification, which APNs takes")
    func background() throws {
        let stage = try SendStage()
        try stage.database.register(.numbered(1), at: registered)
        #expect(try Self.enqueue(stage, ["--content-available"]).exit == 0)
        #expect(try Self.payloads(stage) == [#"{"aps":{"content-available":1}}"#])
        #expect(try stage.database.texts("SELECT push_type FROM push_queue") == [["background"]])
        // The simulator refuses a background notification with priority 10, as APNs does.
        #expect(try stage.send().exit == 0)
        #expect(try stage.states() == ["sent": 1])
        let urgent = try Self.enqueue(stage, ["--content-available", "--priority", "10"])
        #expect(urgent.exit == 64 && urgent.error.contains("background"), "\(urgent.error)")
        let typed = try Self.enqueue(stage, ["--content-available", "--push-type", "alert"])
        #expect(typed.exit == 0)
    }

    @Test("combinations that cannot be meant are refused with a cure, and nothing is queued")
    func refused() throws {
        let stage = try SendStage()
        let file = try stage.folder.write("body.json", #"{"aps":{}}"#)
        for (words, message) in [
            (["--payload", file, "--badge", "1"], "--badge cannot be combined with --payload"),
            (
                ["--payload", file, "--sound", "a", "--content-available"],
                "--sound, --content-available cannot be combined with --payload, which is sent as it "
                    + "is; write them into its aps"
            ),
            (["--payload", file, "--alert", "x"], "either --payload or --alert"),
            ([], "either --payload or --alert"), (["--badge=-1"], "from 0 to"),
            (["--badge", "1", "--category", "C"], "--category belongs to an alert"),
            (["--alert", "x", "--sound", ""], "--sound is empty"),
            (["--alert", "x", "--category", ""], "--category is empty"),
        ] {
            let result = try Self.enqueue(stage, words)
            #expect(result.exit == 64 && result.output == "", "\(words): \(result.error)")
            #expect(result.error.contains(message), "\(words): \(result.error)")
        }
        #expect(try Self.payloads(stage).isEmpty)
    }

    @Test("an option that the command of the binary interface lacks is refused by its name")
    func options() throws {
        let cases: [(command: Int, words: [String], message: String?)] = [
            (0, ["--expiration", "1800000000"], "--expiration: command 0"),
            (1, ["--expiration", "1800000000"], nil),
            (0, ["--priority", "5"], "--priority: command 0"),
            (1, ["--priority", "10"], "--priority: command 1"), (2, ["--priority", "5"], nil),
            (2, ["--priority", "1"], "--priority 1: "),
            (2, ["--collapse-id", "a"], "--collapse-id: "),
            (2, ["--push-type", "voip"], "--push-type voip: "), (2, ["--push-type", "alert"], nil),
            (2, ["--push-type", "background"], nil), (0, ["--not-before", "1800000000"], nil),
        ]
        for (command, words, message) in cases {
            let (stage, _) = try Self.binary(command)
            let result = try Self.enqueue(stage, ["--alert", "x"] + words)
            #expect(
                result.exit == (message == nil ? 0 : 64), "\(command) \(words): \(result.error)")
            #expect(try Self.payloads(stage).count == (message == nil ? 1 : 0))
            if let message { #expect(result.error.contains(message), "\(result.error)") }
        }
    }

    @Test(
        "payload and token have the limits of the command, to the byte, before anything is queued",
        arguments: [(0, 256), (1, 256), (2, 2_048)])
    func sizes(_ command: Int, _ limit: Int) throws {
        let (stage, _) = try Self.binary(command)
        func alert(_ bytes: Int) throws -> ToolResult {
            let frame = #"{"aps":{"alert":""}}"#.utf8.count
            return try Self.enqueue(
                stage, ["--alert", String(repeating: "x", count: bytes - frame)])
        }
        #expect(try alert(limit).exit == 0)
        let big = try alert(limit + 1)
        #expect(big.exit == 64, "\(big.error)")
        #expect(big.error.contains("has \(limit + 1) bytes, the limit of this command is \(limit)"))
        let fits = DeviceToken.numbered(1, count: 100).hex
        let long = DeviceToken.numbered(2, count: 101).hex
        let refused = try stage.start(
            ["enqueue", "--alert", "x", "--token", fits, "--token", long]
        ).wait()
        #expect(refused.exit == 64, "\(refused.error)")
        #expect(refused.error.contains("--token number 2 is longer than 100 bytes"))
        #expect(try Self.payloads(stage).count == 1)
        let file = try stage.folder.write("tokens.txt", "\(fits)\n\(long)\nzz\n")
        let lines = try stage.start(["enqueue", "--alert", "x", "--tokens-from", file]).wait()
        #expect(lines.exit == 65, "\(lines.error)")
        #expect(lines.error.contains("line 2, longer than 100 bytes"), "\(lines.error)")
        #expect(lines.error.contains("line 3, no device token in hex"), "\(lines.error)")
        #expect(
            lines.output
                == "chat/production: queued 1, left out 1 that are not tokens, left out 1 token that "
                + "the gateway does not take\n")
        #expect(!lines.error.contains(long))
        #expect(try Self.payloads(stage).count == 2)
    }

    @Test(
        "a background notification is sent with priority 5 where the command has one",
        arguments: [0, 1, 2])
    func wire(_ command: Int) throws {
        let (stage, gateway) = try Self.binary(command)
        try stage.database.register(.numbered(1), at: registered)
        #expect(try Self.enqueue(stage, ["--content-available"]).exit == 0)
        #expect(try Self.enqueue(stage, ["--alert", "x", "--badge", "2"]).exit == 0)
        #expect(try stage.send().exit == 0)
        #expect(try stage.states() == ["sent": 2])
        let frames = gateway.log.accepted
        #expect(
            frames.map { String(decoding: $0.payload, as: UTF8.self) } == [
                #"{"aps":{"content-available":1}}"#, #"{"aps":{"alert":"x","badge":2}}"#,
            ])
        #expect(frames.map(\.priority) == (command == 2 ? [.conserving, .immediate] : [nil, nil]))
    }

    @Test("over HTTP/2 the same sizes and options are taken as before")
    func provider() throws {
        let stage = try SendStage()
        let text = String(repeating: "x", count: 3_000)
        let result = try Self.enqueue(
            stage, ["--alert", text, "--collapse-id", "a", "--priority", "1", "--expiration", "0"])
        #expect(result.exit == 0, "\(result.error)")
    }

    @Test(
        "of a user the tokens that are too long are left out and counted",
        arguments: TestEngine.available)
    func users(_ engine: TestEngine) throws {
        let (stage, _) = try Self.binary(2, engine)
        if engine == .mariaDB {
            try stage.database.execute(
                "ALTER TABLE active_users MODIFY device_token VARBINARY(200)")
        }
        try stage.database.register(.numbered(1), at: registered, user: "ada")
        try stage.database.register(.numbered(2, count: 101), at: registered, user: "ada")
        let result = try stage.start(["enqueue", "--alert", "x", "--user", "ada"]).wait()
        #expect(result.exit == 65, "\(result.error)")
        #expect(result.error.contains("left out 1 token of the users, longer than 100 bytes"))
        #expect(try Self.payloads(stage).count == 1)
    }

    @Test("escapes that a narrow column needs count for the limit of the binary interface")
    func escapes() throws {
        guard MariaDBServer.fromEnvironment != nil else { return }
        let (stage, _) = try Self.binary(1, .mariaDB)
        try stage.database.execute(
            "ALTER TABLE push_queue MODIFY payload VARCHAR(5000) CHARACTER SET latin1 NOT NULL")
        let result = try Self.enqueue(stage, ["--alert", String(repeating: "🍽", count: 30)])
        #expect(result.exit == 78, "\(result.error)")
        #expect(result.error.contains("of which the gateway takes 256"), "\(result.error)")
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The command enqueue")
struct EnqueueTests {
    private static let hex = DeviceToken.numbered(1).hex
    private static let registered: Int64 = 1_600_000_000_000

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
        try stage.run(["enqueue", "--token", hex] + words)
    }

    /// A stage whose app sends through a binary gateway.
    private static func binary(
        _ command: Int, _ engine: TestEngine = .sqlite
    ) throws -> (SendStage, BinaryGateway) {
        let stage = try SendStage(engine)
        let gateway = try BinaryGateway(
            certificates: SweepStage.certificates.get(), rules: BinaryRules())
        try stage.use(gateway, "command: \(command), error-wait: 100ms")
        return (stage, gateway)
    }

    @Test(
        "the members of aps have Apple's names, any text survives, and the last values are taken",
        arguments: TestEngine.available)
    func members(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        let odd = "a \"quote\", a \\ and 🍽\u{1}\n</aps>"
        for words in [
            ["--alert", "Dinner", "--badge", "3", "--sound", "bell.caf", "--category", "MEAL"],
            ["--alert", odd, "--sound", odd], ["--badge", "0"],
            ["--alert", "x", "--content-available"],
            ["--alert", "x", "--not-before=253370764799", "--expiration=4294967295"],
        ] {
            try Self.enqueue(stage, words).ends(0, for: "\(words)")
        }
        let payloads = try Self.payloads(stage)
        let read = try JSONSerialization.jsonObject(with: Data(payloads[1].utf8)) as? [String: Any]
        #expect(read?["aps"] as? [String: String] == ["alert": odd, "sound": odd])
        #expect(
            [payloads[0], payloads[2], payloads[3]] == [
                #"{"aps":{"alert":"Dinner","badge":3,"category":"MEAL","sound":"bell.caf"}}"#,
                #"{"aps":{"badge":0}}"#, #"{"aps":{"alert":"x","content-available":1}}"#,
            ])
        #expect(try stage.database.count("SELECT COUNT(push_type) FROM push_queue") == 0)
        let queued = try stage.database.texts(
            "SELECT COUNT(DISTINCT not_before), COUNT(DISTINCT expiration) FROM push_queue")
        #expect(queued == [["1", "1"]])
    }

    @Test("a user without tokens and a line that is no token are named; 0 only where all is queued")
    func recipients() throws {
        let stage = try SendStage()
        try stage.database.register(.numbered(1), at: Self.registered, user: "ada")
        let alert = ["enqueue", "--alert", "x"]
        try stage.run(alert + ["--user", "nobody"]).ends(
            65, "found no living token of user 'nobody'; check --user",
            "code=65 stage=enqueue pending=0 applied=0 held=0 next=usage")
        try stage.run("deliveries", "--user", "nobody").ends(0, "no row of the token table has")
        try stage.run(alert + ["--user", "nobody", "--user", "ada"]).ends(0, "user 'nobody'")
        let bad = (0..<7).map { "zz\($0)" }.joined(separator: "\n")
        let file = try stage.folder.write("tokens.txt", "\(Self.hex)\n\n\(bad)\n\(Self.hex)\n")
        try stage.run(alert + ["--tokens-from", file]).ends(
            65, "lines 3, 4, 5, 6, 7 and 2 more, no", "tokens.txt",
            "chat/production: queued 2, left out 7 that are not tokens\n"
        ).lacks("zz")
        let body = try stage.folder.write("body.json", "[1]")
        try stage.run("enqueue", "--payload", body, "--token", Self.hex).ends(
            64, "the payload of --payload \(body) is no JSON object")
        #expect(try stage.database.rows(of: "push_queue") == 3)
    }

    @Test("an option that the command of the binary interface lacks is refused by its name")
    func options() throws {
        let cases: [(command: Int, words: [String], message: String?)] = [
            (0, ["--expiration", "1800000000"], "--expiration: command 0"),
            (1, ["--expiration", "1800000000"], nil),
            (1, ["--priority", "10"], "--priority: command 1"), (2, ["--priority", "5"], nil),
            (2, ["--priority", "1"], "--priority 1: "),
            (2, ["--collapse-id", "a"], "--collapse-id: "),
            (2, ["--push-type", "voip"], "--push-type voip: "),
            (2, ["--push-type", "background"], nil), (0, ["--not-before", "1800000000"], nil),
        ]
        for (command, words, message) in cases {
            let (stage, _) = try Self.binary(command)
            let result = try Self.enqueue(stage, ["--alert", "x"] + words).ends(
                message == nil ? 0 : 64, for: "\(command) \(words)")
            if let message { result.says(message) }
            #expect(try Self.payloads(stage).count == (message == nil ? 1 : 0))
        }
    }

    @Test(
        "payload and token have the limits of the command, to the byte",
        arguments: [(1, 256), (2, 2_048)])
    func sizes(_ command: Int, _ limit: Int) throws {
        let (stage, _) = try Self.binary(command)
        func alert(_ bytes: Int) throws -> ToolResult {
            let frame = #"{"aps":{"alert":""}}"#.utf8.count
            return try Self.enqueue(
                stage, ["--alert", String(repeating: "x", count: bytes - frame)])
        }
        try alert(limit).ends(0)
        try alert(limit + 1).ends(
            64, "has \(limit + 1) bytes, the limit of this command is \(limit)")
        let fits = DeviceToken.numbered(1, count: 100).hex
        let long = DeviceToken.numbered(2, count: 101).hex
        try stage.run("enqueue", "--alert", "x", "--token", fits, "--token", long).ends(
            64, "--token number 2 is longer than 100 bytes")
        let file = try stage.folder.write("tokens.txt", "\(fits)\n\(long)\nzz\n")
        try stage.run("enqueue", "--alert", "x", "--tokens-from", file).ends(
            65, "line 2, longer than 100 bytes", "line 3, no device token in hex",
            "chat/production: queued 1, left out 1 that are not tokens, left out 1 token that "
                + "the gateway does not take\n"
        ).lacks(long)
        #expect(try Self.payloads(stage).count == 2)
    }

    @Test("of a user the tokens that are too long are left out", arguments: TestEngine.available)
    func users(_ engine: TestEngine) throws {
        let (stage, _) = try Self.binary(2, engine)
        try stage.database.execute(
            "ALTER TABLE active_users MODIFY device_token VARBINARY(200)", on: .mariaDB)
        try stage.database.register(.numbered(1), at: Self.registered, user: "ada")
        try stage.database.register(.numbered(2, count: 101), at: Self.registered, user: "ada")
        try stage.run("enqueue", "--alert", "x", "--user", "ada").ends(
            65, "left out 1 token of the users, longer than 100 bytes")
        #expect(try Self.payloads(stage).count == 1)
        guard engine == .mariaDB else { return }
        // Escapes that a narrow column needs count too.
        let (narrow, _) = try Self.binary(1, .mariaDB)
        try narrow.database.execute(
            "ALTER TABLE push_queue MODIFY payload VARCHAR(5000) CHARACTER SET latin1 NOT NULL")
        try Self.enqueue(narrow, ["--alert", String(repeating: "🍽", count: 30)]).ends(
            78, "of which the gateway takes 256")
    }

    @Test(
        "a background notification is sent with priority 5 where the command has one",
        arguments: [0, 2, 3])
    func wire(_ command: Int) throws {
        // 3 stands for HTTP/2, whose simulator refuses priority 10 as APNs does.
        let (stage, gateway) = command == 3 ? (try SendStage(), nil) : try Self.binary(command)
        try stage.database.register(.numbered(1), at: Self.registered)
        try Self.enqueue(stage, ["--content-available"]).ends(0)
        try Self.enqueue(stage, ["--alert", "x", "--badge", "2"]).ends(0)
        try stage.send().ends(0)
        #expect(try stage.states() == ["sent": 2])
        guard let gateway else {
            let types = try stage.database.texts("SELECT push_type FROM push_queue ORDER BY id")
            #expect(types.first == ["background"])
            return
        }
        let frames = gateway.log.accepted
        #expect(
            frames.map { String(decoding: $0.payload, as: UTF8.self) } == [
                #"{"aps":{"content-available":1}}"#, #"{"aps":{"alert":"x","badge":2}}"#,
            ])
        #expect(frames.map(\.priority) == (command == 2 ? [.conserving, .immediate] : [nil, nil]))
    }
}

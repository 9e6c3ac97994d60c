import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing
import TokenTable

private let registered: Int64 = 1_600_000_000_000
private let token = FeedbackVector.tutorialHex

/// Strings that are secret in a test, in files of its folder, and must be nowhere else.
private struct Canaries {
    /// Names of the files that hold them.
    static let files = ["db-password", "wrong-password", "passphrase", "sealed.key", "AuthKey.p8"]
    static let passphrase = "canary-passphrase-5bd1"
    static let wrongPassword = "canary-wrong-password-90cc"

    private(set) var secrets = [passphrase, wrongPassword]

    /// Writes the files; the client's key goes to `sealed.key`, opened by the passphrase.
    init(in folder: TemporaryFolder) throws {
        try folder.write("passphrase", Self.passphrase + "\n")
        try folder.write("wrong-password", Self.wrongPassword + "\n")
        if !FileManager.default.fileExists(atPath: folder.file("db-password")) {
            try folder.write("db-password", "canary-password-31f7\n")
        }
        let sealed = try folder.write("sealed.key", "")
        let sealing = try RunningTool(
            program: URL(filePath: "/usr/bin/openssl"),
            [
                "pkcs8", "-topk8", "-in", try SweepStage.certificates.get().key(.client),
                "-out", sealed, "-passout", "file:" + folder.file("passphrase"),
            ]
        ).wait()
        try #require(sealing.exit == 0, "\(sealing.error)")
        try folder.write("AuthKey.p8", try SigningKey().pem())

        let open = try SweepStage.certificates.get().key(.client)
        for file in [open] + ["sealed.key", "AuthKey.p8"].map(folder.file) {
            let text = try String(contentsOfFile: file, encoding: .utf8)
            secrets += text.split(separator: "\n").filter { $0.count > 20 && !$0.hasPrefix("-") }
                .map(String.init)
        }
        secrets.append(
            try String(contentsOfFile: folder.file("db-password"), encoding: .utf8)
                .trimmingCharacters(in: .newlines))
    }

    static func certificate(in folder: TemporaryFolder) throws -> String {
        "certificate: {file: \(try SweepStage.certificates.get().certificate(.client)), "
            + "key: \(folder.file("sealed.key")), passphrase-file: \(folder.file("passphrase"))}"
    }

    static func tokenKey(in folder: TemporaryFolder) -> String {
        "token-key: {file: \(folder.file("AuthKey.p8")), key-id: ABC123DEFG, team-id: DEF123GHIJ}"
    }

    func expectAbsent(
        from text: String, _ place: String, _ location: SourceLocation = #_sourceLocation
    ) {
        for secret in secrets where text.contains(secret) {
            // Not the whole text: the output of a test must not show a secret either.
            Issue.record("\(secret.prefix(12))… is in \(place)", sourceLocation: location)
        }
    }

    /// No secret, no whole token and no provider token in what a program wrote.
    func expectAbsent(
        from result: ToolResult, of arguments: [String],
        _ location: SourceLocation = #_sourceLocation
    ) {
        let text = result.output + result.error
        expectAbsent(from: text, "the output of \(arguments)", location)
        let raw = Data(FeedbackVector.tutorial).base64EncodedString()
        for spelling in [String(token.prefix(20)), String(token.suffix(20)), raw] {
            #expect(
                !text.lowercased().contains(spelling.lowercased()),
                "a token is in the output of \(arguments)", sourceLocation: location)
        }
        #expect(!text.contains("eyJ"), "a provider token was printed", sourceLocation: location)
    }

    /// No secret in any file of the test but those that hold them: state, journal, reports,
    /// exports.
    func expectAbsent(from folder: TemporaryFolder) throws {
        let files = FileManager.default.enumerator(atPath: folder.path)
        var seen = 0
        while let name = files?.nextObject() as? String {
            var isFolder: ObjCBool = false
            let path = folder.file(name)
            guard !Self.files.contains(name),
                FileManager.default.fileExists(atPath: path, isDirectory: &isFolder),
                !isFolder.boolValue
            else { continue }
            seen += 1
            let text = String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
            expectAbsent(from: text, name)
        }
        #expect(seen > 1)
    }
}

@Suite("A secret")
struct CanaryTests {
    @Test(
        "a sweep writes no secret to its output, state or report", arguments: TestEngine.available)
    func sweeping(_ engine: TestEngine) throws {
        let tuple = FeedbackTuple(
            time: EpochSeconds(FeedbackVector.start), token: DeviceToken(FeedbackVector.tutorial))
        let list = FeedbackTuple.bytes([tuple])
        let stage = try SweepStage(engine, feeds: [.bytes(list + [1, 2, 3])])
        let canaries = try Canaries(in: stage.folder)
        stage.lines.certificate = try Canaries.certificate(in: stage.folder)
        if engine == .sqlite {
            stage.lines.store += "\n  password-file: \(stage.folder.file("db-password"))"
        }
        try stage.database.register(try #require(tuple.token), at: registered)
        let file = try stage.folder.write("saved.bin", list)
        func run(_ arguments: [String], exits expected: Set<Int32>) throws {
            let result = try stage.run(arguments)
            #expect(expected.contains(result.exit), "\(arguments): \(result.exit) \(result.error)")
            canaries.expectAbsent(from: result, of: arguments)
        }

        try run(["check", "--settings", "--verbose"], exits: [0])
        try run(["check", "--format", "json"], exits: [0])
        try run(["sweep", "--verbose"], exits: [65])
        try run(["sweep", "--format", "json", "--verbose"], exits: [0])
        try run(["replay", file, "--format", "json", "--verbose"], exits: [0])
        try run(["quarantine", "list"], exits: [0])
        try run(["schema", "print"], exits: [0])
        #expect(try stage.database.marks().contains { $0.hasPrefix(token) && !$0.contains("NULL") })

        let good = stage.lines
        stage.lines.certificate = good.certificate.replacing(
            "/passphrase}", with: "/wrong-password}")
        try run(["sweep", "--verbose"], exits: [78])
        try run(["check", "--format", "json"], exits: [78])
        stage.lines = good
        stage.lines.certificate = good.certificate.replacing("sealed.key", with: "passphrase")
        try run(["sweep", "--verbose"], exits: [78])
        stage.lines = good
        if engine == .mariaDB {
            stage.lines.store = good.store.replacing("db-password", with: "wrong-password")
            try run(["sweep", "--verbose"], exits: [77])
            try run(["sweep", "--format", "json"], exits: [77])
            try run(["check"], exits: [77])
        }
        let variable = ["PUSHSWEEP_STORE_PASSWORD": Canaries.wrongPassword]
        let named = try stage.start(["check", "--settings", "--verbose"], environment: variable)
            .wait()
        #expect(named.output.contains("(set)"), "\(named.exit)")
        canaries.expectAbsent(from: named, of: ["check"])
        // A place where people put it by mistake.
        stage.lines.store = "url: \"mysql://u:\(Canaries.wrongPassword)@127.0.0.1/p\""
        let misplaced = try stage.run("sweep", "--verbose").ends(78)
        canaries.expectAbsent(from: misplaced, of: ["sweep"])
        stage.lines.store = good.store
        _ = try stage.settings()
        try canaries.expectAbsent(from: stage.folder)
    }

    @Test(
        "a sender shows no secret in output, state or what others can read of its process",
        arguments: TestEngine.available)
    func sending(_ engine: TestEngine) throws {
        var script = ProviderScript()
        let stale = try #require(DeviceToken(FeedbackVector.tutorial))
        script.tokens[stale] = .reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        let stage = try SendStage(engine, script: script)
        let canaries = try Canaries(in: stage.folder)
        stage.credential = try Canaries.certificate(in: stage.folder)
        if engine == .sqlite {
            stage.store += "\n  password-file: \(stage.folder.file("db-password"))"
        }
        try stage.database.register(stale, at: registered)
        try stage.database.register(0..<5, at: registered)
        try stage.queue(0..<5)
        func run(_ arguments: [String], exits expected: Int32) throws {
            let result = try stage.run(arguments).ends(expected, for: "\(arguments)")
            canaries.expectAbsent(from: result, of: arguments)
        }

        try run(["check", "--settings", "--verbose"], exits: 0)
        try stage.database.execute(
            "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, '{}')",
            [.bytes(stale.bytes)])
        let follow = ["send", "--follow", "--verbose", "--format", "json"]
        let running = try stage.start(follow)
        eventually { stage.gateway.log.totals.requests == 6 }
        for name in ["cmdline", "environ", "limits"] {
            let file = URL(filePath: "/proc/\(running.pid)/\(name)")
            // Only root may read it, because the process is not dumpable.
            guard let bytes = try? Data(contentsOf: file) else {
                #expect(name == "environ" && geteuid() != 0, "no \(name)")
                continue
            }
            let text = String(decoding: bytes, as: UTF8.self)
            canaries.expectAbsent(from: text, name)
            if name == "limits" {
                #expect(text.contains(/Max core file size\s+0\s+0\s/), "\(text)")
            }
        }
        running.signal(SIGTERM)
        let followed = running.wait()
        #expect([0, 75].contains(followed.exit), "\(followed.error)")
        #expect(stage.gateway.log.totals.answered[410] == 1)
        canaries.expectAbsent(from: followed, of: follow)

        stage.credential = Canaries.tokenKey(in: stage.folder)
        try stage.queue(0..<2)
        // The gateway asks for a certificate, which this app no longer has.
        try run(["check", "--format", "json"], exits: 78)
        try run(["send", "--verbose"], exits: 78)
        stage.credential = stage.credential.replacing("AuthKey.p8", with: "passphrase")
        try run(["send", "--verbose"], exits: 78)
        if engine == .mariaDB {
            stage.store = stage.store.replacing("db-password", with: "wrong-password")
            try run(["send", "--verbose", "--format", "json"], exits: 77)
        }
        try canaries.expectAbsent(from: stage.folder)
    }
}

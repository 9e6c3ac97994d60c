// Values that no careful person types, but that scripts make.

import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

@Suite("Values from outside")
struct HostileValueTests {
    @Test(
        "absurdly large numbers are refused with 64 and crash no process",
        arguments: [
            "99999999999999", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
            "-1", "1e400", "nan", "0x10", "", " 1",
        ])
    func numbers(_ number: String) throws {
        let stage = try SendStage()
        for words in [
            ["enqueue", "--alert", "x", "--user", "u", "--not-before=\(number)"],
            ["enqueue", "--alert", "x", "--user", "u", "--expiration=\(number)"],
            ["enqueue", "--alert", "x", "--user", "u", "--priority=\(number)"],
            ["send", "--limit=\(number)"], ["send", "--rate=\(number)"],
        ] {
            let result = try stage.start(words).wait()
            // 0x10 is not a priority; as a rate it is allowed.
            #expect(
                result.exit == 64 || words.last == "--rate=0x10" && result.exit == 0,
                "\(words): \(result.exit) \(result.error)")
            #expect(!result.error.contains("Fatal error"), "\(words): \(result.error)")
        }
    }

    @Test("the program does not read an endless file to the end")
    func endless() throws {
        let stage = try SendStage()
        for words in [
            ["enqueue", "--user", "u", "--payload", "/dev/zero"],
            ["enqueue", "--alert", "x", "--tokens-from", "/dev/zero"],
        ] {
            let result = try stage.start(words, under: ["/usr/bin/timeout", "60"]).wait()
            #expect(result.exit == 64, "\(words): \(result.exit) \(result.error)")
            #expect(result.error.contains("from /dev/zero: it has more than"), "\(result.error)")
        }
    }

    @Test(
        "an impossible date in an image of the ledger is left alone",
        arguments: TestEngine.available, ["9223372036854775807", "-9223372036854775808"])
    func images(_ engine: TestEngine, _ number: String) throws {
        let stage = try SweepStage(engine, dead: 2)
        stage.lines.activeUsers =
            "  active-users: {invalidated-at: {column: none}, reason: {column: none}}"
        let run = try #require(try stage.sweep().json["run"] as? String)
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_invalid") == 2)
        try stage.database.execute(
            "UPDATE pushsweep_change SET before_image = ? WHERE seq = 0",
            [.text("{\"invalidated_at\":\(number),\"reason\":null}")])
        let undone = try stage.run("undo", run, "--format", "json")
        #expect(undone.exit == 0, "\(undone.exit): \(undone.error)")
        #expect(undone.json["restored"] as? Int == 1, "\(undone.output)")
        #expect((undone.json["kept"] as? [String: Int])?["unreadable"] == 1, "\(undone.output)")
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_invalid") == 1)
    }

    @Test("the last value of each range is accepted", arguments: TestEngine.available)
    func lastNumbers(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        let result = try stage.start([
            "enqueue", "--alert", "x", "--user", "user", "--not-before=253370764799",
            "--expiration=4294967295",
        ]).wait()
        #expect(result.exit == 0, "\(result.error)")
        #expect(try stage.send().exit == 0)
        #expect(try stage.states()["sent"] == nil)
    }

    @Test(
        "fewer than four characters of a name select nothing",
        arguments: ["", " ", "a", "0", "abc", "é"])
    func shortNames(_ name: String) throws {
        let stage = try SweepStage(.sqlite, dead: 200)
        stage.lines.limits = "guard: {floor: 100}"
        let held = try stage.sweep()
        #expect(held.exit == 3)
        let feed = try #require(held.app()["feed"] as? String)
        for words in [
            ["holds", "show", name], ["holds", "discard", name, "--reason", "x"],
            ["holds", "show", String(feed.prefix(3))],
        ] {
            let result = try stage.start(words).wait()
            #expect(result.exit == 64, "\(words): \(result.output) \(result.error)")
        }
        let show = try stage.run("holds", "show", String(feed.prefix(4)))
        #expect(show.exit == 0, "\(show.error)")
        let swept = try SweepStage(.sqlite, dead: 3)
        let run = try #require(try swept.sweep().json["run"] as? String)
        for short in [name, String(run.prefix(1)), String(run.prefix(3))] {
            let result = try swept.run("undo", short)
            #expect(result.exit == 64, "\(short): \(result.output) \(result.error)")
            #expect(result.closingLine.hasPrefix("code=64 "), "\(result.error)")
        }
        #expect(
            try swept.database.count(
                "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL") == 3)
        #expect(try swept.run("undo", String(run.prefix(4))).exit == 0)
    }
}

@Suite("Files with secrets")
struct SecretFileTests {
    /// A stage whose settings name every kind of secret file, and these files by what they are.
    /// A provider that takes provider tokens, for all tests.
    private static let provider = Result {
        try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .token([:])))
    }

    private func stage() throws -> (stage: SweepStage, files: [(name: String, path: String)]) {
        let stage = try SweepStage(.sqlite, dead: 3)
        let key = try stage.folder.write(
            "AuthKey.p8", String(decoding: SigningKey().pem(), as: UTF8.self))
        let certificates = try SweepStage.certificates.get()
        let client = try stage.folder.write(
            "client.key", [UInt8](Data(contentsOf: URL(fileURLWithPath: certificates.key(.client))))
        )
        let phrase = try stage.folder.write("passphrase", "none\n")
        let password = try stage.folder.write("password", "none\n")
        stage.lines.certificate = """
            certificate: {file: \(certificates.certificate(.client)), key: \(client), \
            passphrase-file: \(phrase)}
                token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}
                provider: {host: 127.0.0.1, port: \(try Self.provider.get().port), \
            ca: \(certificates.authority)}
            """
        stage.lines.store += "\n  password-file: \(password)"
        return (
            stage,
            [
                ("password", password), ("passphrase", phrase), ("client key", client),
                ("token key", key),
            ]
        )
    }

    private func check(_ stage: SweepStage) throws -> ToolResult {
        // A program that waits for a pipe is ended after a while, with 124.
        try stage.start(["check"], under: ["/usr/bin/timeout", "20"]).wait()
    }

    @Test("secret files are read as they are, also through a link as Kubernetes mounts them")
    func links() throws {
        let (stage, files) = try stage()
        let plain = try check(stage)
        #expect(plain.exit == 0, "\(plain.error)")
        for (_, path) in files {
            #expect(rename(path, path + ".real") == 0 && symlink(path + ".real", path) == 0)
        }
        let linked = try check(stage)
        #expect(linked.exit == 0, "\(linked.error)")
    }

    @Test("pipes, folders and devices are refused at once")
    func kinds() throws {
        for kind in ["pipe", "folder", "device"] {
            let (stage, files) = try stage()
            for (name, path) in files {
                #expect(rename(path, path + ".kept") == 0)
                switch kind {
                case "pipe": #expect(mkfifo(path, 0o600) == 0)
                case "folder": #expect(mkdir(path, 0o700) == 0)
                default: #expect(symlink("/dev/zero", path) == 0)
                }
                let result = try check(stage)
                #expect(
                    [77, 78].contains(result.exit),
                    "\(name), \(kind): \(result.exit) \(result.error)")
                #expect(
                    result.error.contains(path) && result.error.contains("not a regular file"),
                    "\(name), \(kind): \(result.error)")
                #expect(remove(path) == 0 && rename(path + ".kept", path) == 0)
            }
        }
    }

    @Test(
        "secret files of another user, or readable by others, are refused with 77",
        .enabled(if: geteuid() == 0, "giving files to others takes root"))
    func owners() throws {
        let (stage, files) = try stage()
        for (name, path) in files {
            #expect(chown(path, 65_534, 65_534) == 0)
            let foreign = try check(stage)
            #expect(foreign.exit == 77, "\(name): \(foreign.exit) \(foreign.error)")
            #expect(
                foreign.error.contains(path) && foreign.error.contains("belongs to user 65534"),
                "\(name): \(foreign.error)")
            #expect(chown(path, 0, 0) == 0)
            chmod(path, 0o640)
            let open = try check(stage)
            #expect(open.exit == 77, "\(name): \(open.exit) \(open.error)")
            chmod(path, 0o600)
        }
    }

    @Test("a pipe in place of the settings or authorities is refused at once too")
    func others() throws {
        let (stage, _) = try stage()
        let pipe = stage.folder.file("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        let settings = try RunningTool(
            "pushsweep", ["check", "--config", pipe], under: ["/usr/bin/timeout", "20"]
        ).wait()
        #expect(settings.exit == 78 && settings.error.contains("not a regular file"))
        stage.lines.ca = pipe
        for command in ["check", "sweep"] {
            let result = try stage.start([command], under: ["/usr/bin/timeout", "20"]).wait()
            #expect(result.exit == 78, "\(command): \(result.exit) \(result.error)")
            #expect(result.error.contains("not a regular file"), "\(result.error)")
        }
    }
}

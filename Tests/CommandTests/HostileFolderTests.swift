// A state folder that another user can change, for a run of root. The tests act as that user: they
// give folders to the user 65534 and replace our files by links and pipes.

import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

private let somebody: uid_t = 65_534

@Suite(
    "A state folder of another user",
    .enabled(if: geteuid() == 0, "giving files to others takes root"))
struct HostileFolderTests {
    /// Every command that has to do with the state folder.
    static let commands = [
        ["sweep"], ["sweep", "--dry-run"], ["send"], ["send", "--dry-run"], ["purge"],
        ["purge", "--dry-run"],
        ["holds", "release", String(repeating: "a", count: 64)],
        ["undo", "--since", "2026-01-01T00:00:00Z"], ["undo", "some-run"],
        ["undo", "--dry-run", "some-run"], ["check"], ["replay", "/nonexistent/feed"],
        ["replay", "--batch", "some-feed"],
        ["import", "/nonexistent/log", "--from", "jsonl", "--app", "chat"],
    ]

    /// A command for each way into the folder.
    private static let ways = [["sweep"], ["send"], ["check"]]

    /// A stage on which a first sweep and a first sender have run.
    private func stage() throws -> SweepStage {
        let stage = try SweepStage(.sqlite, dead: 20)
        stage.lines.limits += "\nreport: {metrics-file: \(stage.folder.file("pushsweep.prom"))}"
        // The port has no listener; the queue is empty.
        stage.lines.certificate += "\n    provider: {host: 127.0.0.1, port: 1}"
        try stage.sweep().ends(0)
        try stage.run("send").ends(0)
        return stage
    }

    private func own(_ path: String, _ user: uid_t) {
        #expect(lchown(path, user, user) == 0)
    }

    private func refused(_ result: ToolResult, _ words: [String], _ what: String) {
        result.ends(77, "code=77 stage=", for: "\(what)")
        for word in words {
            #expect(result.error.contains(word), "\(what): \(result.error)")
        }
    }

    @Test("audit and explain call nothing absent of a folder that they may not read")
    func unseen() throws {
        let stage = try stage()
        own(stage.state, somebody)
        defer { own(stage.state, 0) }
        let audit = try stage.json("audit")
        let gaps = audit.json["gaps"] as? [String] ?? []
        #expect(gaps.contains { $0.hasPrefix("state folder") }, "\(gaps)")
        try stage.run("explain", hexToken(1)).says("not read: state folder")
    }

    @Test(
        "every command refuses a folder of another user, and gives root the command for that user")
    func foreignFolder() throws {
        let stage = try stage()
        let state = stage.state
        own(state, somebody)
        defer { own(state, 0) }
        let before = try files(below: state)
        for (mode, name, commands) in [
            (mode_t(0o700), "700", Self.commands), (0o755, "755", [["sweep"], ["check"]]),
        ] {
            chmod(state, mode)
            for command in commands {
                refused(
                    try stage.run(command),
                    [
                        "belongs to nobody (mode \(name))", "this run belongs to root",
                        "run it as that user: su -s /bin/sh nobody -c 'pushsweep \(command[0])",
                    ], "\(command)")
            }
        }
        #expect(try files(below: state) == before)
        let findings = try stage.json("check").json["findings"] as? [[String: Any]] ?? []
        let failures = findings.filter {
            $0["area"] as? String == "state" && $0["severity"] as? String == "failure"
        }
        #expect(failures.count == 1 && failures.first?["exit"] as? Int == 77, "\(findings)")
    }

    @Test("every way into a folder that others may read is refused, and prints the chmod")
    func openFolder() throws {
        let stage = try stage()
        chmod(stage.state, 0o750)
        let before = try files(below: stage.state)
        for command in Self.ways {
            refused(
                try stage.run(command), ["has mode 750", "run: chmod 700 \(stage.state)"],
                "\(command)")
        }
        #expect(try files(below: stage.state) == before)
    }

    @Test("commands about the database alone also refuse the folder if the database is in it")
    func database() throws {
        let folder = try TemporaryFolder()
        let state = folder.file("state")
        let settings = try folder.write(
            "pushsweep.yaml",
            "state: \(state)\napps: [{name: a, topic: com.example.a, environment: production}]\n")
        try Tool.pushsweep("schema", "apply", "--create-token-table", "--config", settings).ends(0)
        own(state, somebody)
        let before = try files(below: state)
        for command in [
            ["undo", "--list"], ["schema", "apply"], ["schema", "apply", "--create-token-table"],
            ["changes", "--since", "2026-01-01T00:00:00Z"], ["check"],
        ] {
            let result = try RunningTool("pushsweep", command + ["--config", settings]).wait()
            refused(
                result, ["belongs to nobody", "su -s /bin/sh nobody -c 'pushsweep "], "\(command)")
            result.lacks("SQLite", for: "\(command)")
            #expect(try files(below: state) == before, "\(command) changed something")
        }
        own(state, 0)
        try Tool.pushsweep("check", "--config", settings).ends(0)
    }

    @Test("the service's user gets the chown command for a folder that root made first")
    func rootFirst() throws {
        let stage = try stage()
        let state = stage.state
        let place = try Folder.ofEverybody()
        // The user reads settings, database and program; the state folder is root's.
        let settings = try stage.settingsText
            .replacing(/url: sqlite:.*/, with: "url: sqlite://\(place.path)/none.sqlite")
        let shared = try place.write("pushsweep.yaml", settings, mode: 0o644)
        chmod(stage.folder.path, 0o755)
        for mode in [mode_t(0o755), 0o700] {
            chmod(state, mode)
            for command in Self.ways {
                let result = try RunningTool(
                    "pushsweep", command + ["--config", shared],
                    under: ["/usr/bin/setpriv", "--reuid=65534", "--clear-groups"]
                ).wait()
                // The user may have no access to the folder of the test's program.
                guard result.exit != 126 && result.exit != 127 else { return }
                let failure = result.error.split(separator: "\n").first {
                    $0.contains("the state folder \(state)")
                }
                #expect(
                    failure?.contains("belongs to root") == true
                        && failure?.contains("chown -R nobody \(state)") == true,
                    "\(command), \(String(mode, radix: 8)): \(result.error)")
                #expect(result.exit == 77 || command == ["check"], "\(result.error)")
            }
        }
    }

    @Test("a folder with a file of another user is refused, and the file stays as it was")
    func foreignFile() throws {
        for name in ["lock", "journal.sqlite"] {
            let stage = try stage()
            let file = stage.folder.file("state/\(name)")
            own(file, somebody)
            let before = try Data(contentsOf: URL(fileURLWithPath: file))
            for command in [["sweep"], ["check"]] {
                refused(
                    try stage.run(command),
                    [file, "belongs to nobody", "then run: chown root \(file)"],
                    "\(name), \(command)")
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        }
    }

    @Test(
        "a link in place of a file never makes a command write to the link's target",
        arguments: ["link", "second name"])
    func links(_ kind: String) throws {
        let stage = try stage()
        let state = stage.state
        let victims = stage.folder.file("victims")
        try FileManager.default.createDirectory(atPath: victims, withIntermediateDirectories: true)
        let victim = victims + "/victim"
        let folders = kind == "link" ? ["send", "send/1"] : []
        for name in [
            "lock", "journal.sqlite", "journal.sqlite-journal", "identity", "database",
            "metrics.lock",
            "list-3b1f6f62-6f0b-4b44-9a4b-3a2c7a5f0d11",
            "send/1/lock", "send/1/journal.sqlite",
        ] + folders {
            let path = "\(state)/\(name)"
            let kept = stage.folder.file("kept")
            _ = rename(path, kept)
            if folders.contains(name) {
                try FileManager.default.createDirectory(
                    atPath: victim, withIntermediateDirectories: true,
                    attributes: [.posixPermissions: 0o700])
            } else {
                try Data("the victim's words\n".utf8).write(to: URL(fileURLWithPath: victim))
                chmod(victim, 0o644)
            }
            #expect((kind == "link" ? symlink(victim, path) : link(victim, path)) == 0)
            let before = try files(below: victims)
            let ends = try Self.ways.map { try stage.run($0).exit }
            #expect(try files(below: victims) == before, "\(name): something was written, \(ends)")
            #expect(ends.contains(77), "\(name): \(ends)")
            #expect(ends.allSatisfy { [0, 69, 73, 74, 75, 77].contains($0) }, "\(name): \(ends)")
            for place in [path, victim] { try? FileManager.default.removeItem(atPath: place) }
            _ = rename(kept, path)
        }
    }

    @Test("a folder with a pipe in place of a file is refused at once")
    func pipes() throws {
        let stage = try stage()
        for name in ["lock", "identity", "journal.sqlite"] {
            let path = "\(stage.state)/\(name)"
            #expect(rename(path, path + "-kept") == 0 && mkfifo(path, 0o600) == 0)
            refused(try stage.sweep(), [path, "is no regular file"], name)
            #expect(unlink(path) == 0 && rename(path + "-kept", path) == 0)
        }
    }

    @Test(
        "a folder behind a link is used where the link's end is ours, and refused where it is not")
    func throughLink() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let real = stage.folder.file("real")
        try FileManager.default.createDirectory(
            atPath: real, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        #expect(symlink(real, stage.state) == 0)
        try stage.sweep().ends(0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: real).contains("lock"))
        own(real, somebody)
        refused(try stage.sweep(), ["belongs to nobody", "su -s /bin/sh nobody"], "the link's end")
    }

    @Test("a folder below one of another user is refused, since its owner could replace it")
    func foreignParent() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let home = stage.folder.file("home")
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        own(home, somebody)
        let state = ["PUSHSWEEP_STATE": home + "/state"]
        for command in ["sweep", "check"] {
            let result = try stage.run(command, environment: state)
            refused(result, ["lies in \(home)", "belongs to nobody"], command)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: home).isEmpty)
    }

    /// Everything below a folder: names, owners, modes and contents.
    private func files(below folder: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder).sorted().map { name in
            var facts = stat()
            lstat(folder + "/" + name, &facts)
            let content = try? Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
            return "\(name) \(facts.st_uid) \(facts.st_mode) \(content?.hashValue ?? 0)"
        }
    }
}

/// A folder that every user may read.
private enum Folder {
    static func ofEverybody() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        return folder
    }
}

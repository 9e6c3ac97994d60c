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
        ["purge", "--dry-run"], ["holds", "list"], ["holds", "show", "some-feed"],
        ["holds", "release", String(repeating: "a", count: 64)],
        ["holds", "discard", "some-feed", "--reason", "x"], ["quarantine", "list"],
        ["quarantine", "discard", "some-feed"],
        ["quarantine", "export", "some-feed", "/nonexistent/x"],
        ["undo", "--since", "2026-01-01T00:00:00Z"], ["undo", "some-run"],
        ["undo", "--dry-run", "some-run"], ["check"], ["replay", "/nonexistent/feed"],
        ["replay", "--feed", "some-feed"],
        ["import", "/nonexistent/log", "--format", "jsonl", "--app", "chat"],
    ]

    /// A stage on which a first sweep and a first sender have run.
    private func stage() throws -> SweepStage {
        let stage = try SweepStage(.sqlite, dead: 20)
        stage.lines.limits += "\nreport: {metrics-file: \(stage.folder.file("pushsweep.prom"))}"
        // The port has no listener; the queue is empty.
        stage.lines.certificate += "\n    provider: {host: 127.0.0.1, port: 1}"
        #expect(try stage.sweep().exit == 0)
        #expect(try stage.run("send").exit == 0)
        return stage
    }

    private func own(_ path: String, _ user: uid_t) {
        #expect(lchown(path, user, user) == 0)
    }

    private func refused(_ result: ToolResult, _ words: [String], _ what: String) {
        #expect(result.exit == 77, "\(what): \(result.exit) \(result.error)")
        #expect(result.closingLine.hasPrefix("code=77 stage="), "\(what): \(result.error)")
        for word in words {
            #expect(result.error.contains(word), "\(what): \(result.error)")
        }
    }

    @Test("audit and explain call nothing absent of a folder that they may not read")
    func unseen() throws {
        let stage = try stage()
        own(stage.state, somebody)
        defer { own(stage.state, 0) }
        let audit = try stage.start(["audit", "--format", "json"]).wait()
        let findings = audit.json["findings"] as? [[String: Any]] ?? []
        let holds = findings.first { $0["rule"] as? String == "hold-open" }
        #expect(holds?["severity"] as? String == "high", "\(findings)")
        let explained = try stage.start(["explain", hexToken(1)]).wait()
        #expect(explained.output.contains("of this host hold about it is not known"))
        #expect(!explained.output.contains("waits on this host"), "\(explained.output)")
    }

    @Test(
        "every command refuses a folder of another user, names the owner and prints the chown")
    func foreignFolder() throws {
        let stage = try stage()
        let state = stage.state
        for (mode, name) in [(mode_t(0o700), "700"), (0o755, "755")] {
            chmod(state, mode)
            own(state, somebody)
            defer { own(state, 0) }
            for command in Self.commands {
                let before = try files(below: state)
                let result = try stage.start(command).wait()
                refused(
                    result,
                    [
                        "belongs to nobody (mode \(name))", "this run belongs to root",
                        "chown -R root \(state)",
                    ], "\(command)")
                #expect(try files(below: state) == before, "\(command) changed something")
            }
            let check = try stage.start(["check", "--format", "json"]).wait()
            let findings = check.json["findings"] as? [[String: Any]] ?? []
            let failures = findings.filter {
                $0["area"] as? String == "state" && $0["severity"] as? String == "failure"
            }
            #expect(failures.count == 1 && failures.first?["exit"] as? Int == 77, "\(findings)")
        }
    }

    @Test("every command refuses a folder that others may read, and prints the chmod")
    func openFolder() throws {
        let stage = try stage()
        chmod(stage.state, 0o750)
        for command in Self.commands {
            let before = try files(below: stage.state)
            let result = try stage.start(command).wait()
            refused(result, ["has mode 750", "run: chmod 700 \(stage.state)"], "\(command)")
            #expect(try files(below: stage.state) == before, "\(command) changed something")
        }
    }

    @Test("commands about the database alone also refuse the folder if the database is in it")
    func database() throws {
        let folder = try TemporaryFolder()
        let state = folder.file("state")
        let settings = try folder.write(
            "pushsweep.yaml",
            "state: \(state)\napps: [{name: a, topic: com.example.a, environment: production}]\n")
        #expect(
            try Tool.pushsweep(
                "schema", "apply", "--create-token-table", "--config", settings
            ).exit == 0)
        own(state, somebody)
        let before = try files(below: state)
        for command in [
            ["enqueue", "--alert", "x", "--user", "u"], ["undo", "--list"], ["schema", "apply"],
            ["schema", "apply", "--create-token-table"],
            ["changes", "--since", "2026-01-01T00:00:00Z"], ["check"],
        ] {
            let result = try RunningTool("pushsweep", command + ["--config", settings]).wait()
            refused(result, ["belongs to nobody", "chown -R root \(state)"], "\(command)")
            #expect(!result.output.contains("SQLite"), "\(command): \(result.output)")
            #expect(try files(below: state) == before, "\(command) changed something")
        }
        own(state, 0)
        #expect(try Tool.pushsweep("check", "--config", settings).exit == 0)
    }

    @Test("the service's user gets the chown command for a folder that root made first")
    func rootFirst() throws {
        let stage = try stage()
        let state = stage.state
        let place = try Folder.ofEverybody()
        // The user reads settings, database and program; the state folder is root's.
        let settings = try String(contentsOfFile: stage.settings(), encoding: .utf8)
            .replacing(/url: sqlite:.*/, with: "url: sqlite://\(place.path)/none.sqlite")
        let shared = try place.write("pushsweep.yaml", settings, mode: 0o644)
        chmod(stage.folder.path, 0o755)
        for mode in [mode_t(0o755), 0o700] {
            chmod(state, mode)
            for command in Self.commands {
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
            for command in [["holds", "list"], ["check"]] {
                refused(
                    try stage.start(command).wait(), [file, "belongs to nobody", "chown -R root"],
                    "\(name), \(command)")
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        }
    }

    @Test(
        "a link in place of a file never makes a command write to the link's target",
        arguments: [
            "lock", "journal.sqlite", "journal.sqlite-journal", "identity", "metrics.lock",
            "send/1/lock", "send/1/journal.sqlite", "send", "send/1",
        ], ["link", "second name"])
    func links(_ name: String, _ kind: String) throws {
        if kind == "second name" && ["send", "send/1"].contains(name) { return }
        let stage = try stage()
        let state = stage.state
        let victims = stage.folder.file("victims")
        try FileManager.default.createDirectory(atPath: victims, withIntermediateDirectories: true)
        let victim = victims + "/victim"
        let path = "\(state)/\(name)"
        let isFolder = ["send", "send/1"].contains(name)
        try? FileManager.default.removeItem(atPath: path)
        if isFolder {
            try FileManager.default.createDirectory(
                atPath: victim, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } else {
            try Data("the victim's words\n".utf8).write(to: URL(fileURLWithPath: victim))
            chmod(victim, 0o644)
        }
        #expect((kind == "link" ? symlink(victim, path) : link(victim, path)) == 0)
        let before = try files(below: victims)
        // A command for each way into the folder.
        var ends: [Int32] = []
        for command in [["sweep"], ["send"], ["holds", "list"], ["check"]] {
            ends.append(try stage.start(command).wait().exit)
        }
        #expect(try files(below: victims) == before, "\(name): something was written, \(ends)")
        #expect(ends.contains(77), "\(name): \(ends)")
        #expect(ends.allSatisfy { [0, 69, 73, 74, 75, 77].contains($0) }, "\(name): \(ends)")
    }

    @Test(
        "a folder with a pipe in place of a file is refused at once",
        arguments: ["lock", "identity", "journal.sqlite"])
    func pipes(_ name: String) throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        #expect(try stage.sweep().exit == 0)
        let path = "\(stage.state)/\(name)"
        unlink(path)
        #expect(mkfifo(path, 0o600) == 0)
        let result = try stage.sweep()
        refused(result, [path, "is no regular file"], name)
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
        #expect(try stage.sweep().exit == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: real).contains("lock"))
        own(real, somebody)
        refused(try stage.sweep(), ["belongs to nobody", "chown -R root"], "the link's end")
    }

    @Test("a folder below one of another user is refused, since its owner could replace it")
    func foreignParent() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let home = stage.folder.file("home")
        try FileManager.default.createDirectory(
            atPath: home, withIntermediateDirectories: true)
        own(home, somebody)
        let state = ["PUSHSWEEP_STATE": home + "/state"]
        for command in ["sweep", "check"] {
            let result = try stage.start([command], environment: state).wait()
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

// The environment from cron, a careless administrator or a hardened service: no variables at all, a
// umask that hides nothing, few descriptors, small files. The program works, or says in one
// sentence why not.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("A bare environment")
struct BareEnvironmentTests {
    private func sweep(_ purpose: String) throws -> MixedSweep {
        var random = SeededGenerator(purpose)
        return try MixedSweep.inTwoPieces(.sqlite, random: &random)
    }

    @Test("a sweep and a sender run without a single environment variable")
    func noVariables() throws {
        let sweep = try sweep("no variables")
        let result = try sweep.stage.run(["sweep"], under: ["/usr/bin/env", "-i"]).ends(0)
        #expect(result.output.isEmpty, "\(result.error)")
        #expect(result.error.isEmpty)
        #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
        let stage = try SendStage(rows: 5)
        let sent = try stage.run(["send"], under: ["/usr/bin/env", "-i"]).ends(0)
        #expect(sent.error.isEmpty, "\(sent.error)")
        #expect(try stage.states() == ["sent": 5])
    }

    @Test("no file of ours is readable by others under umask 000")
    func umask() throws {
        let open = ["/bin/sh", "-c", "umask 000; exec \"$@\"", "sh"]
        let sweep = try sweep("umask")
        try sweep.stage.run(["sweep"], under: open).ends(0)
        try expectPrivate(sweep.stage.state, atLeast: 4)
        var script = ProviderScript()
        script.tokens[.numbered(3)] = .reply(
            ScriptedReply(.unregistered, timestamp: 1_700_000_000_000))
        let stage = try SendStage(rows: 5, script: script)
        try stage.run(["send"], under: open).ends(0)
        try expectPrivate(stage.folder.file("state"), atLeast: 4)
        // The command itself makes the tables, in a folder outside the state folder.
        let made = try SweepStage(schema: false)
        let file = made.folder.file("tokens.sqlite")
        made.lines.store = "url: sqlite://\(file)"
        try made.run(["schema", "apply", "--create-token-table"], under: open).ends(0)
        #expect(try mode(of: file) == 0o600)
    }

    private func expectPrivate(_ folder: String, atLeast count: Int) throws {
        #expect(try mode(of: folder) == 0o700)
        let files = try FileManager.default.subpathsOfDirectory(atPath: folder)
        #expect(files.count >= count, "\(files)")
        for file in files {
            let mode = try mode(of: folder + "/" + file)
            #expect(mode & 0o077 == 0, "\(file) has mode \(String(mode, radix: 8))")
        }
    }

    private func mode(of path: String) throws -> Int {
        let facts = try FileManager.default.attributesOfItem(atPath: path)
        return facts[.posixPermissions] as? Int ?? 0o777
    }

    @Test("a sweep with few descriptors works, or ends with 78 and says how many it needs")
    func descriptors() throws {
        for limit in [3, 8, 31, 32] {
            let sweep = try sweep("\(limit) descriptors")
            let result = try run(sweep, "--nofile=\(limit):\(limit)")
            if limit >= 32 {
                result.ends(0)
                #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
            } else if result.exit != 127 || !result.error.contains("shared libraries") {
                // Below some number not even the loader finds the libraries.
                result.ends(78, "ulimit -n")
                expectSentence(result, "\(limit) descriptors")
            }
            #expect(try sweep.recover() == nil)
        }
        // The program raises the limit itself if it may.
        let sweep = try sweep("a low limit that may be raised")
        try run(sweep, "--nofile=8:64").ends(0)
        #expect(try sweep.recover() == nil)
    }

    @Test("a sweep with a limit on file sizes works, or ends with 74 and says so")
    func fileSizes() throws {
        for kibibytes in [8, 64, 1_024] {
            let sweep = try sweep("\(kibibytes) KiB a file")
            let bytes = kibibytes * 1_024
            let result = try run(sweep, "--fsize=\(bytes):\(bytes)")
            if result.exit == 0 {
                #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
            } else {
                expectSentence(result, "\(kibibytes) KiB a file")
            }
            #expect((result.exit == 0) == (kibibytes == 1_024))
            #expect(try sweep.recover() == nil)
        }
    }

    @Test(
        "a missing /proc, from which Swift reads the arguments, does not make a call one for help",
        .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
    func noArguments() throws {
        let sweep = try sweep("no /proc")
        let (maps, line) = ("/proc/self/maps", "/proc/self/cmdline")
        let found = try sweep.stage.run(
            ["sweep"], under: Strace.failing("openat", with: "ENOENT", from: 1, at: [maps])
        ).ends(0)
        #expect(found.output.isEmpty, "\(found.error)")
        #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
        let lost = try sweep.stage.run(
            ["sweep"], under: Strace.failing("openat", with: "ENOENT", from: 1, at: [maps, line])
        ).ends(78)
        #expect(lost.output.isEmpty, "\(lost.error)")
        #expect(lost.closingLine == "code=78 stage=usage pending=0 applied=0 held=0 next=check")
    }

    private func run(_ sweep: MixedSweep, _ limit: String) throws -> ToolResult {
        // Some callers ignore the signal of a file that is too large; the program must work without
        // that.
        try sweep.stage.run(
            ["sweep"], under: ["/usr/bin/env", "--default-signal=XFSZ", "/usr/bin/prlimit", limit])
    }

    private func expectSentence(_ result: ToolResult, _ what: String) {
        #expect([73, 74, 75, 78].contains(result.exit), "\(what): \(result.exit) \(result.error)")
        let closing = "code=\(result.exit) stage="
        #expect(result.closingLine.hasPrefix(closing), "\(what): \(result.error)")
        result.says("error: ", for: "\(what)")
    }
}

// What cron, a careless administrator or a hardened service gives a program: no variables at all, a umask
// that hides nothing, few descriptors, small files. It works, or says in one sentence why it cannot.

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

    @Test("without a single variable is enough for a sweep and a sender")
    func noVariables() throws {
        let sweep = try sweep("no variables")
        let result = try sweep.stage.start(["sweep"], under: ["/usr/bin/env", "-i"]).wait()
        #expect(result.exit == 0 && result.error.isEmpty && result.output.isEmpty, "\(result.error)")
        #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
        let stage = try SendStage()
        try stage.database.register(0..<5, at: 1_600_000_000_000)
        try stage.queue(0..<5)
        let sent = try stage.start(["send"], under: ["/usr/bin/env", "-i"]).wait()
        #expect(sent.exit == 0 && sent.error.isEmpty, "\(sent.error)")
        #expect(try stage.states() == ["sent": 5])
    }

    @Test("with umask 000 leaves nothing of ours readable by others")
    func umask() throws {
        let open = ["/bin/sh", "-c", "umask 000; exec \"$@\"", "sh"]
        let sweep = try sweep("umask")
        let result = try sweep.stage.start(["sweep"], under: open).wait()
        #expect(result.exit == 0, "\(result.error)")
        try expectPrivate(sweep.stage.state, atLeast: 4)
        var script = ProviderScript()
        script.tokens[.numbered(3)] = .reply(
            ScriptedReply(.unregistered, timestamp: 1_700_000_000_000))
        let stage = try SendStage(script: script)
        try stage.database.register(0..<5, at: 1_600_000_000_000)
        try stage.queue(0..<5)
        #expect(try stage.start(["send"], under: open).wait().exit == 0)
        try expectPrivate(stage.folder.file("state"), atLeast: 4)
        // The tables are made by the command itself, in a folder of somebody else's.
        let made = try SweepStage(schema: false)
        let file = made.folder.file("tokens.sqlite")
        made.lines.store = "url: sqlite://\(file)"
        #expect(try made.start(["schema", "apply"], under: open).wait().exit == 0)
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

    @Test("with few descriptors works, or says what it could not open")
    func descriptors() throws {
        var fewest: Int?
        for limit in [3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32] {
            let sweep = try sweep("\(limit) descriptors")
            let result = try run(sweep, "--nofile=\(limit):\(limit)")
            if result.exit == 0 {
                fewest = fewest ?? limit
                #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
            } else {
                expectSentence(result, "\(limit) descriptors")
            }
            #expect(try sweep.recover() == nil)
        }
        print("a sweep works with \(fewest ?? 0) descriptors")
        #expect(fewest.map { $0 <= 24 } == true)
    }

    @Test("with small files works, or ends with 74 and says so")
    func fileSizes() throws {
        for kibibytes in [0, 1, 8, 16, 32, 48, 64, 80, 96, 112, 160, 1_024] {
            let sweep = try sweep("\(kibibytes) KiB a file")
            let bytes = kibibytes * 1_024
            let result = try run(sweep, "--fsize=\(bytes):\(bytes)")
            if result.exit == 0 {
                #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
            } else {
                expectSentence(result, "\(kibibytes) KiB a file")
            }
            #expect(try sweep.recover() == nil)
        }
    }

    private func run(_ sweep: MixedSweep, _ limit: String) throws -> ToolResult {
        try sweep.stage.start(["sweep"], under: ["/usr/bin/prlimit", limit]).wait()
    }

    private func expectSentence(_ result: ToolResult, _ what: String) {
        // Below some number of descriptors the loader cannot even find the libraries.
        if result.exit == 127, result.error.contains("shared libraries") { return }
        #expect([73, 74, 75, 77, 78, 69].contains(result.exit), "\(what): \(result.exit) \(result.error)")
        #expect(result.closingLine.hasPrefix("code=\(result.exit) stage="), "\(what): \(result.error)")
        #expect(result.error.contains("error: "), "\(what): \(result.error)")
    }
}

import Foundation
import TestSupport
import Testing

/// `scripts/bench peers` as far as it goes without a server, without packages and without a network.
@Suite(
    "The comparison with other programs",
    .enabled(
        if: ForeignProgram.python.isInstalled, Comment(rawValue: ForeignProgram.python.absence)))
struct PeersTests {
    private static let folder = ReliabilityDocumentTests.root.appending(path: "Benchmarks/Peers")

    private static func bench(_ words: [String]) throws -> ToolResult {
        try RunningTool(
            program: ReliabilityDocumentTests.root.appending(path: "scripts/bench"), words,
            environment: ["PATH": "/usr/bin:/bin"]
        ).wait()
    }

    @Test("the page has a row for each work, with each of its peers, and for no other")
    func page() throws {
        let page = try String(
            contentsOf: ReliabilityDocumentTests.root.appending(path: "docs/internals/peers.md"),
            encoding: .utf8)
        let section = try #require(page.firstRange(of: "## The works"))
        let described = page[section.upperBound...].matches(of: /\n\| `([a-z0-9]+)` \| ([^\n]*)/)
        #expect(try Self.bench(["peers", "--help"]).output.contains("--only PEER"))
        let result = try Self.bench(["peers", "--list"])
        #expect(result.exit == 0, "\(result.error)")
        let listed = result.output.split(separator: "\n")
        let names = listed.compactMap { $0.split(separator: ":").first }
        #expect(names.count == 9)
        #expect(described.map(\.output.1) == names)
        for (line, row) in zip(listed, described) {
            let peers = line.split(separator: "; ").last?.split(separator: ", ") ?? []
            #expect(!peers.isEmpty)
            for peer in peers { #expect(row.output.2.contains("`\(peer)`"), "\(peer)") }
        }
    }

    @Test(
        "a work or a size that cannot be is refused before anything is built",
        arguments: [
            (["mark", "nothing"], "unknown work nothing; known: feed, mark"),
            (["--scale", "0"], "--scale is above 0"), (["--runs", "0"], "--runs at least 1"),
            (["--format", "html"], "invalid choice: 'html'"),
            (["--only", "nothing"], "unknown peer nothing; known: aioapns"),
        ])
    func refusal(words: [String], message: String) throws {
        let result = try Self.bench(["peers"] + words)
        #expect(result.exit == 2)
        #expect(result.error.contains(message), "\(result.error)")
        #expect(result.output.isEmpty)
    }

    @Test(
        "a program that fails is named without its words, its output and its paths, and nothing stays"
    )
    func failing() throws {
        let program = """
            import os, pathlib, sys, tempfile
            sys.dont_write_bytecode = True
            sys.path.insert(0, sys.argv[1])
            import ground, work
            folder = tempfile.mkdtemp()
            for name in ("pushsweep", "apns-simulator"):
                place = pathlib.Path(folder, name)
                place.write_text("#!/bin/sh\\necho /secret/path >&2\\nexit 7\\n")
                place.chmod(0o700)
            os.environ["PUSHSWEEP_TEST_PROGRAMS"] = folder
            with ground.Ground(folder) as place:
                sleeper = place.start(["sleep", "1000"])
                try:
                    place.pushsweep("--source", "p=password")
                except work.Failure as failure:
                    print(failure)
            print(sleeper.poll(), place.folder.exists())
            """
        let result = try ForeignProgram.python.run(["-c", program, Self.folder.path])
        #expect(result.output == "pushsweep ended with 7\n-9 False\n", "\(result.error)")
    }

    @Test("each kept figure is one that is described, and was measured")
    func kept() throws {
        let root = ReliabilityDocumentTests.root
        let data = try Data(contentsOf: root.appending(path: "Benchmarks/kept.json"))
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        #expect(object["processor"] as? String != "unknown")
        let figures = try #require(object["figures"] as? [[String: Any]])
        #expect(figures.count >= 12)
        let page = try String(
            contentsOf: root.appending(path: "docs/internals/benchmarks.md"), encoding: .utf8)
        for figure in figures {
            let name = try #require(figure["name"] as? String)
            let title =
                name.split(separator: "-").first == "instructions" ? name.dropFirst(12) : name[...]
            #expect(page.contains("`\(name)`") || page.contains("`\(title)`"), "\(name)")
            #expect(try #require(figure["number"] as? Double) != 1, "\(name)")
        }
    }

    @Test("each program of the peers compiles")
    func compiles() throws {
        let files = try FileManager.default.subpathsOfDirectory(atPath: Self.folder.path)
            .filter { $0.hasSuffix(".py") }
        #expect(files.count > 15)
        let result = try ForeignProgram.python.run(
            ["-c", "import sys\nfor p in sys.argv[1:]: compile(open(p).read(), p, 'exec')"]
                + files.map { Self.folder.appending(path: $0).path })
        #expect(result.exit == 0, "\(result.error)")
    }

    @Test("pairs alternate, the ratio is the median of theirs, and the table says what was wrong")
    func pairs() throws {
        let program = """
            import sys
            sys.dont_write_bytecode = True
            sys.path.insert(0, sys.argv[1])
            import table, work
            order = []
            class Fake(work.Work):
                name = "fake"
                def step(self, side, seconds, facts, fault=""):
                    number = sum(one == side for one in order)
                    order.append(side)
                    return work.Outcome(seconds[number], {k: v[number] for k, v in facts.items()}, fault)
                def theirs(self, peer):
                    return self.step("t", [2, 6, 9], {"lost": [0, 5, 1], "p99 ms": [1, 9, 3]}, "lost | some")
                def ours(self, peer):
                    return self.step("o", [1, 2, 1], {"lost": [0, 0, 0], "p99 ms": [1, 1, 1]})
            class Broken(Fake):
                def ours(self, peer):
                    raise work.Failure("pushsweep ended with 70")
            broken = work.measure(Broken(None, 1), work.Peer("peer", (), ""), 3, str)
            order.clear()
            row = work.measure(Fake(None, 1), work.Peer("peer", (), "ledger", "mail", "slow", 0.5), 3, str)
            absent = work.Row("fake", work.Peer("gone", (), ""), absent="left out: gone is not installed")
            print("".join(order))
            table.markdown({"machine": "one"}, [row, absent, broken])
            table.text({"machine": "one"}, [row, absent])
            """
        let result = try ForeignProgram.python.run(["-c", program, Self.folder.path])
        #expect(result.exit == 0, "\(result.error)")
        let lines = result.output.split(separator: "\n").map(String.init)
        #expect(lines.first == "tootto")
        #expect(
            lines.contains(
                "| fake | peer | 6 | 1 | 3 | lost 5, ours 0; p99 ms 3, ours 1; WRONG: lost \\| some; "
                    + "it was given 50% of the data; slow | ledger | mail |"))
        #expect(
            lines.contains("| fake | gone |  |  |  | left out: gone is not installed |  |  |"))
        #expect(lines.contains { $0.contains("OURS WRONG: pushsweep ended with 70") })
        #expect(lines.contains { $0.hasPrefix("fake     peer") && $0.hasSuffix("       3") })
        #expect(lines.contains("    it does not: ledger"))
        #expect(lines.contains("    ours does not: mail"))
    }
}

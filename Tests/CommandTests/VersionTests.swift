import Foundation
import TestSupport
import Testing

@Suite("pushsweep --version")
struct VersionTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    @Test("the version, the commit and the versions of the loaded libraries are one fact a line")
    func lines() throws {
        let result = try Tool.pushsweep("--version").ends(0)
        #expect(result.error.isEmpty)
        let lines = result.output.split(separator: "\n").map { $0.split(separator: " ") }
        #expect(
            lines.map(\.first) == [
                "pushsweep", "commit", "OpenSSL", "libmariadb", "nghttp2", "SQLite", "libyaml",
            ])
        for line in lines where line.count != 2 { Issue.record("\(line)") }
        for line in lines.dropFirst(2) {
            #expect(line[1].wholeMatch(of: /\d+\.\d+\.\d+/) != nil, "\(line)")
        }
        let (whole, commit) = (lines[0][1], lines[1][1])
        #expect(commit.wholeMatch(of: /unknown|[0-9a-f]{40}(-modified)?/) != nil)
        let known = commit == "unknown" ? "" : "+" + commit.prefix(7) + commit.dropFirst(40)
        #expect(
            whole.hasSuffix(known)
                && whole.dropLast(known.count).wholeMatch(of: /\d+\.\d+\.\d+(-dev)?/) != nil,
            "\(whole)")
    }

    @Test("changelog, pages, picture, image and workflow have the number of the program")
    func number() throws {
        let printed = try Tool.pushsweep("--version").output.prefix { $0 != "\n" }
        let whole = try #require(printed.split(separator: " ").last)
        let version = String(whole.prefix { $0 != "+" })
        let heading = try #require(
            try Self.text("CHANGELOG.md").split(separator: "\n").first { $0.hasPrefix("## ") })
        // A release names its day.
        #expect(heading == "## \(version)" || heading.hasPrefix("## \(version) (20"), "\(heading)")
        let package = "pushsweep_\(version.replacing("-", with: "~"))-1_"
        for (path, words) in [
            ("README.md", package), ("docs/first-day.md", package),
            ("docs/first-day.md", " pushsweep:\(version) "),
            ("cron/kubernetes-cronjob.yaml", "/pushsweep:\(version)\n"),
            ("scripts/packaging/image", " pushsweep:\(version)."),
            ("scripts/packaging/Dockerfile", " pushsweep:\(version)\n"),
            ("docs/images/release.svg", "release: \(version)<"),
        ] {
            #expect(try Self.text(path).contains(words), "\(path)")
        }
    }

    /// What a copy of `scripts/lib/commit.sh` says, for sources in a place below `folder`.
    private static func commit(
        in folder: TemporaryFolder, below place: String = "", replacing format: String? = nil,
        environment: [String: String] = [:]
    ) throws -> String {
        let place = place + "scripts/lib"
        let words = try text("scripts/lib/commit.sh")
        try FileManager.default.createDirectory(
            atPath: folder.file(place), withIntermediateDirectories: true)
        try folder.write(
            "\(place)/commit.sh",
            format.map { words.replacing("$Format:%H$", with: $0) } ?? words)
        return try RunningTool(
            program: URL(fileURLWithPath: "/bin/bash"),
            ["-c", ". '\(folder.file(place))/commit.sh' && source_commit"],
            environment: environment
        ).wait().output.trimmingCharacters(in: .newlines)
    }

    private static func git(_ words: String..., in folder: TemporaryFolder) throws -> String {
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/usr/bin/git"),
            [
                "-C", folder.path, "-c", "user.name=t", "-c", "user.email=t@t", "-c",
                "commit.gpgsign=no",
            ] + words
        ).wait().ends(0)
        return result.output.trimmingCharacters(in: .newlines)
    }

    @Test("a build from a clone, from changed files, from an archive and by name knows its commit")
    func commits() throws {
        let folder = try TemporaryFolder()
        #expect(try Self.commit(in: folder) == "unknown")
        _ = try Self.git("init", "-q", in: folder)
        try folder.write("file", "one\n")
        _ = try Self.git("add", "file", in: folder)
        _ = try Self.git("commit", "-qm", "one", in: folder)
        let head = try Self.git("rev-parse", "HEAD", in: folder)
        #expect(head.count == 40)
        #expect(try Self.commit(in: folder) == head)
        try folder.write("file", "two\n")
        #expect(try Self.commit(in: folder) == "\(head)-modified")
        #expect(try Self.commit(in: folder, environment: ["PUSHSWEEP_COMMIT": "abc"]) == "abc")
        // An archive that is unpacked inside a repository is not a part of it.
        #expect(try Self.commit(in: folder, below: "archive/") == "unknown")
        #expect(try Self.commit(in: folder, below: "archive/", replacing: "abc") == "abc")
        #expect(try Self.text("scripts/lib/.gitattributes") == "commit.sh export-subst\n")
    }
}

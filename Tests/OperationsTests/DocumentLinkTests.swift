import Foundation
import Testing

/// The pages that users read link to each other. A link to a file or a heading that is not there
/// fails here.
@Suite("Links between the documents")
struct DocumentLinkTests {
    /// The pages whose links are checked, named from the root.
    private static func pages() throws -> [String] {
        let folder = ReliabilityDocumentTests.root.appending(path: "docs")
        let docs = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        return [
            "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Trials/README.md",
        ]
            + docs.filter { $0.hasSuffix(".md") }.map { "docs/\($0)" }.sorted()
    }

    private static func text(of page: String) throws -> String {
        try String(contentsOf: ReliabilityDocumentTests.root.appending(path: page), encoding: .utf8)
    }

    @Test("every relative link leads to a file, and every anchor to a heading of that file")
    func links() throws {
        let pages = try Self.pages()
        try #require(pages.contains("docs/recipes/README.md"), "found only \(pages)")
        var count = 0
        for page in pages {
            let text = try Self.text(of: page)
            count += Self.targets(in: text).count
            let dead = try Self.deadTargets(in: text, of: page)
            #expect(dead.isEmpty, "\(page) links to what is not there: \(dead)")
        }
        #expect(count > 100, "only \(count) relative links were found")
    }

    @Test("the pages of the package lead to no page that only the sources have")
    func packaged() throws {
        for page in try Self.pages() where page.hasPrefix("docs/") {
            guard !page.hasPrefix("docs/internals/") else { continue }
            let inside = Self.targets(in: try Self.text(of: page)).filter {
                $0.contains("internals") || $0.contains("CONTRIBUTING")
            }
            #expect(inside.isEmpty, "\(page) links to \(inside)")
        }
    }

    @Test("the operators' pages stay within 22,000 words, and each is in the list of questions")
    func length() throws {
        let generated = ["docs/json.md", "docs/rules.md", "docs/settings.md"]
        let own = try Self.pages().filter {
            $0.hasPrefix("docs/") && !$0.hasPrefix("docs/internals/") && !generated.contains($0)
        }
        let words = try own.map {
            try Self.text(of: $0).split(whereSeparator: \.isWhitespace).count
        }.reduce(0, +)
        #expect(words <= 22_000, "\(words) words")
        let index = try Self.targets(in: Self.text(of: "docs/README.md"))
        for page in own where page != "docs/README.md" && !page.hasPrefix("docs/recipes/") {
            #expect(index.contains { "docs/" + $0.prefix { $0 != "#" } == page }, "\(page)")
        }
    }

    @Test("each message of docs/troubleshooting.md is one of the program")
    func messages() throws {
        let folder = ReliabilityDocumentTests.root.appending(path: "Sources")
        let sources = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".swift") }
            .map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }
            .joined(separator: "\n")
        let words = try Self.text(of: "docs/troubleshooting.md").matches(of: /\n\| `([^`]+)` \|/)
            .map { String($0.output.1) }
        #expect(words.count >= 20)
        for message in words { #expect(sources.contains(message), "\(message)") }
    }

    @Test("a missing file and a missing heading are found, in running text only")
    func findsDeadLinks() throws {
        let page = """
            # One *word*, `two`: [three](https://example.net/#no)
            ## Same
            ## Same

            [a](#one-word-two-three) [b](#same-1) [c](../README.md#install) [d](recipes/)
            [e](#same-2) [f](nowhere.md) [g](../README.md#nowhere) [a link
            over two lines](tables.md#nowhere) ![image](nowhere.png) `[code](no.md)` [`x`](no.md "Title")
            [reference]

            [reference]: no-reference.md
            ```
            # Fenced
            [fenced](no.md)
            ```
            [h](#fenced)
            """
        #expect(
            try Self.deadTargets(in: page, of: "docs/page.md") == [
                "#same-2", "nowhere.md", "../README.md#nowhere", "tables.md#nowhere", "nowhere.png",
                "no.md", "#fenced", "no-reference.md",
            ])
    }

    /// The relative targets of a page that do not exist, in their order.
    private static func deadTargets(in text: String, of page: String) throws -> [String] {
        let folder = ReliabilityDocumentTests.root.appending(path: page)
            .deletingLastPathComponent()
        return try targets(in: text).filter { target in
            let parts = target.split(
                separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            var linked = text
            if let path = parts.first, !path.isEmpty {
                let file = folder.appending(path: String(path)).standardizedFileURL
                guard FileManager.default.fileExists(atPath: file.path) else { return true }
                guard parts.count > 1 else { return false }
                linked = try String(contentsOf: file, encoding: .utf8)
            }
            return parts.count > 1 && !anchors(of: linked).contains(String(parts[1]))
        }
    }

    /// The targets of inline links and images, then those of reference definitions; without
    /// addresses of other hosts.
    private static func targets(in text: String) -> [String] {
        let prose = running(text).joined(separator: "\n").replacing(/`[^`]*`/, with: "")
        let inline = prose.matches(of: /\]\(([^\s)]+)(?:\s+"[^"]*")?\)/).map(\.output.1)
        let defined = prose.matches(of: /(?m)^\[[^\]]+\]:\s+(\S+)/).map(\.output.1)
        return (inline + defined).map(String.init).filter {
            // The state of the gate is a page of the host that has the repository.
            $0.prefixMatch(of: /[a-z]+:/) == nil && !$0.hasPrefix("../../actions/")
        }
    }

    /// The anchors of a page's headings, as GitHub makes them: letters in lower case, hyphens for
    /// spaces, no other signs, and a number behind a repetition.
    private static func anchors(of text: String) -> Set<String> {
        var anchors: Set<String> = []
        var counts: [String: Int] = [:]
        for line in running(text) {
            guard let heading = line.wholeMatch(of: /#{1,6} +(.*)/)?.output.1 else { continue }
            let words = heading.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.output.1 }.lowercased()
            let anchor = String(
                words.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .map { $0 == " " ? "-" : $0 })
            let before = counts[anchor, default: 0]
            counts[anchor] = before + 1
            anchors.insert(before == 0 ? anchor : "\(anchor)-\(before)")
        }
        return anchors
    }

    /// The lines of a page outside fenced blocks.
    private static func running(_ text: String) -> [Substring] {
        var isFenced = false
        return text.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
            guard line.hasPrefix("```") else { return !isFenced }
            isFenced.toggle()
            return false
        }
    }
}

import Foundation
import Testing

/// Each claim of docs/internals/reliability.md names the tests that show it, as `Suite/function`. A claim
/// without a test, or with the name of a test that does not exist, fails here.
@Suite("Documentation of reliability")
struct ReliabilityDocumentTests {
    /// The root of the sources, found from where this file was compiled.
    static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    @Test(
        "every claim of docs/internals/reliability.md names a test, and every test it names exists")
    func claims() throws {
        let page = try String(
            contentsOf: Self.root.appending(path: "docs/internals/reliability.md"), encoding: .utf8)
        let tests = try Self.allTests()
        try #require(tests.count > 500, "only \(tests.count) tests were found under Tests")
        let claims = Self.claims(of: page)
        for (heading, fewest) in [
            ("promise", 30), ("fault", 30), ("target", 8), ("Invariants", 10),
        ] {
            let count = claims.count { $0.heading == heading }
            #expect(count >= fewest, "'\(heading)' has \(count) claims")
        }
        let silent = claims.filter { Self.names(in: $0.shownBy).isEmpty }
        #expect(silent.isEmpty, "no test is named for: \(silent.map(\.shownBy))")
        let named = Set(Self.names(in: page[...]))
        #expect(named.count >= 100, "only \(named.count) tests are named")
        let missing = named.subtracting(tests).sorted()
        #expect(
            missing.isEmpty,
            "docs/internals/reliability.md names tests that do not exist: \(missing)")
    }

    @Test("every type, file and folder that docs/internals/architecture.md names exists")
    func architecture() throws {
        let page = try String(
            contentsOf: Self.root.appending(path: "docs/internals/architecture.md"), encoding: .utf8
        )
        // A reason of Apple's has the form of a type's name.
        var known: Set<String> = ["BadDeviceToken", "Package.swift"]
        var sources = Data()
        for folder in ["Sources", "Tests"] {
            let folder = Self.root.appending(path: folder)
            for path in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
                // `Database/Drivers` and `RuleBook.swift` are short for the whole path.
                let parts = [folder.lastPathComponent] + path.split(separator: "/").map(String.init)
                known.formUnion(parts.indices.map { parts[$0...].joined(separator: "/") })
                known.insert(parts[0])
                guard path.hasSuffix(".swift") else { continue }
                sources += try Data(contentsOf: folder.appending(path: path))
            }
        }
        func isDeclared(_ name: String) -> Bool {
            Self.kinds.contains { sources.range(of: Data("\($0) \(name)".utf8)) != nil }
        }
        let named = page.matches(of: /`([A-Z]\w*(?:\/\w+)*(?:\.swift)?)[^`]*`/).map {
            String($0.output.1)
        }
        #expect(named.count > 50, "only \(named.count) names were found")
        let missing = Set(named).subtracting(known).filter { !isDeclared($0) }.sorted()
        #expect(
            missing.isEmpty, "docs/internals/architecture.md names what does not exist: \(missing)")
    }

    @Test("docs/internals/architecture.md lists which target uses which, as Package.swift has it")
    func targets() throws {
        func text(_ path: String) throws -> String {
            try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
        }
        let row = /\| `([\w-]+)` \|.*\|.*\| (.*) \|/
        let rows = try text("docs/internals/architecture.md").split(separator: "\n").compactMap {
            $0.wholeMatch(of: row)
        }
        let order = rows.map { String($0.output.1) }
        #expect(order.count > 10, "only \(order.count) targets were found")
        let entries = try text("Package.swift").split(separator: "        .").filter {
            $0.hasPrefix("target(") || $0.hasPrefix("executableTarget(")
        }
        for (place, match) in rows.enumerated() {
            let name = order[place]
            let entry = try #require(entries.first { $0.contains("name: \"\(name)\"") })
            let used = entry.split(separator: "dependencies: [").dropFirst().first?
                .prefix { $0 != "]" }
            let uses = order.filter { used?.contains("\"\($0)\"") == true }
            let listed = match.output.2.split(separator: ", ").map { $0.filter { $0 != "`" } }
            #expect(listed == (uses.isEmpty ? ["none"] : uses), "\(name)")
            #expect(uses.allSatisfy { order.firstIndex(of: $0)! > place }, "\(name)")
        }
    }

    /// A row of a table or an item of a list, and the part of it that names its tests.
    struct Claim {
        /// The first column's title of the table, or the heading over the list.
        let heading: String
        /// The last cell of the row, or the last brackets of the item.
        let shownBy: Substring
    }

    /// The rows of all tables and the items of the list of invariants, in the order of the page.
    static func claims(of page: String) -> [Claim] {
        var claims: [Claim] = []
        var title: String?
        for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
            guard line.hasPrefix("|") else {
                title = nil
                continue
            }
            // A bar in code is escaped; no test's name holds one.
            let cells = line.split(separator: "|")
            if let title, let last = cells.last(where: { !$0.allSatisfy { $0 == " " } }) {
                if last.allSatisfy({ "- ".contains($0) }) { continue }
                claims.append(Claim(heading: title, shownBy: last))
            } else {
                title = cells.first.map { $0.split(separator: " ").joined(separator: " ") }
            }
        }
        let invariants = page.split(separator: "\n## Invariants\n").dropFirst().first ?? ""
        for item in invariants.split(separator: "\n- ") {
            let shownBy = item.lastIndex(of: "(").map { item[$0...] } ?? item
            claims.append(Claim(heading: "Invariants", shownBy: shownBy))
        }
        return claims
    }

    /// The names of tests in backquotes: `Suite/function`.
    static func names(in text: Substring) -> [String] {
        text.matches(of: /`([A-Z]\w*\/[a-z]\w*)`/).map { String($0.output.1) }
    }

    /// All tests under Tests as `Suite/function`, found in the sources: a function behind `@Test`
    /// belongs to the type that was last declared or extended at the beginning of a line.
    static func allTests() throws -> Set<String> {
        var tests: Set<String> = []
        let folder = root.appending(path: "Tests")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        for path in paths where path.hasSuffix(".swift") {
            var suite = ""
            var isTest = false
            let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
            for line in text.split(separator: "\n") {
                if line.contains("@Test") { isTest = true }
                let words = line.split { " (:<{".contains($0) }
                if let first = line.first, first.isLetter || first == "@",
                    let kind = words.lastIndex(where: Self.kinds.contains), kind + 1 < words.count
                {
                    suite = String(words[kind + 1])
                } else if isTest, let word = words.firstIndex(of: "func"), word + 1 < words.count {
                    tests.insert("\(suite)/\(words[word + 1])")
                    isTest = false
                }
            }
        }
        return tests
    }

    static let kinds: Set<Substring> = [
        "struct", "class", "enum", "actor", "protocol", "extension",
    ]
}

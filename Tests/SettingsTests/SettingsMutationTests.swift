import TestSupport
import Testing

@testable import Settings

@Suite("Mutated settings")
struct SettingsMutationTests {
    static let splices: [[UInt8]] = [
        ":", "\n", "- ", "{", "}", "[", "]", "&a ", "*a", "#", "'", "\"", "|\n", ">\n", "\t", "~",
        "!!",
        "? ", "<<: ", "%", "---\n", "...\n", "\0", "\u{FEFF}", "\u{85}", "null",
        "99999999999999999999",
        "none", "apps:\n", "  ", "\r\n", "\\x", "@", "`", "é",
    ].map { Array($0.utf8) }

    static func mutate(_ bytes: inout [UInt8], with generator: inout SeededGenerator) {
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            guard !bytes.isEmpty else { return }
            let start = Int.random(in: 0..<bytes.count, using: &generator)
            let end = min(bytes.count, start + Int.random(in: 0...20, using: &generator))
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: bytes[start] = UInt8.random(in: 0...255, using: &generator)
            case 1: bytes.removeSubrange(start..<end)
            case 2:
                bytes.insert(contentsOf: splices.randomElement(using: &generator) ?? [], at: start)
            case 3: bytes.insert(contentsOf: bytes[start..<end], at: start)
            default: bytes.removeSubrange(start...)
            }
        }
    }

    @Test("two thousand mutations of the example are read, or refused in lines of limited length")
    func mutations() throws {
        let fixture = try SettingsFixture()
        try fixture.write("hunter2\n", to: "db-password")
        var generator = SeededGenerator("settings mutations")
        let original = Array(SettingsDocumentationTests.everything(without: "binary").utf8)
        for round in 0..<2_000 {
            var bytes = original
            Self.mutate(&bytes, with: &generator)
            let path = try fixture.write(bytes, to: "mutated.yaml")
            do throws(SettingsFailure) {
                let settings = try Settings.load(
                    configFile: path, environment: [:], surroundings: fixture.surroundings)
                #expect(!settings.origins.isEmpty)
            } catch {
                #expect(!error.problems.isEmpty)
                for problem in error.problems {
                    let text = problem.description
                    #expect(
                        text.unicodeScalars.count < 1_000 && !text.contains("\n")
                            && !text.contains("hunter2"),
                        "seed \(generator.seed), round \(round): \(text)")
                }
            }
        }
    }

    @Test("deep nesting, many aliases and long words are refused, not followed")
    func hostile() throws {
        let fixture = try SettingsFixture()
        let deep = String(repeating: "[", count: 100_000)
        #expect(fixture.problems(deep).count == 1)
        #expect(fixture.problems(String(repeating: "a: {", count: 900)).count == 1)
        var laughs = "a: &a [x]\n"
        for (one, next) in zip("abcdefghijklmno", "bcdefghijklmnop") {
            laughs +=
                "\(next): &\(next) [\(repeatElement("*\(one)", count: 9).joined(separator: ","))]\n"
        }
        #expect(fixture.problems(laughs).count == 1)
        let long = String(repeating: "y", count: 100_000)
        let problem = fixture.problems("\(long): 1\nstate: \"\(long)\"")
        #expect(problem.allSatisfy { $0.count < 1_000 })
    }
}

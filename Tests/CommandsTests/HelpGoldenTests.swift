import Foundation
import TestSupport
import Testing

/// The help that users read. `PUSHSWEEP_TEST_WRITE_GOLDEN=1 scripts/test --filter GoldenTests` writes the copies anew.
@Suite("Golden copies of the help")
struct HelpGoldenTests {
    @Test("the help texts match the copy", arguments: ["pushsweep", "apns-simulator"])
    func help(_ program: String) throws {
        var pages: [String] = []
        var waiting = [[String]]()
        waiting.append([])
        while !waiting.isEmpty {
            let words = waiting.removeFirst()
            let asked = words + ["--help"]
            let page =
                try program == "pushsweep"
                ? Answered.by(asked).ends(0) : RunningTool(program, asked).wait().ends(0)
            pages.append(
                "$ \(([program] + asked).joined(separator: " "))\n\(page.output)")
            let list = page.output.split(separator: "SUBCOMMANDS:\n").dropFirst().first ?? ""
            for line in list.split(separator: "\n") where line.hasPrefix("  ") {
                let rest = line.dropFirst(2)
                guard let first = rest.first, first.isLowercase else { continue }
                waiting.append(words + [String(rest.prefix { !$0.isWhitespace })])
            }
        }
        #expect(pages.count > 3)
        let difference = try GoldenCopy(name: "help-\(program)")
            .difference(from: pages.joined(separator: "\n"))
        #expect(difference == nil, "\(difference ?? "")")
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The command check")
struct CheckCommandTests {
    @Test("findings come first, settings only when asked, and its closing line says what waits")
    func held() throws {
        let stage = try SweepStage(
            feeds: [.tuples((0..<200).map { .dead($0, at: 1_700_000_000) })])
        try stage.database.register(0..<200, at: 1_600_000_000_000)
        try stage.sweep("--dry-run").ends(3)
        try stage.json("check").json(has: ["pending": 1])
        try stage.sweep().ends(3)
        let check = try stage.run("check").ends(3, "code=3 stage=check pending=0 applied=0 held=1 ")
        func sections(_ result: ToolResult) -> [Substring] {
            result.output.split(separator: "\n").filter { !$0.hasPrefix(" ") }.dropLast()
        }
        #expect(
            sections(check) == [
                "findings, each explained by pushsweep help NAME:", "certificates:",
            ])
        #expect(
            sections(try stage.run("check", "--settings").ends(3))
                == [
                    "findings, each explained by pushsweep help NAME:", "certificates:",
                    "settings:",
                ])
        try stage.json("check").json(has: ["held": 1, "exit": 3])
        // A failure is more urgent.
        try stage.database.execute("DROP TABLE active_users")
        try stage.run("check").ends(78, "code=78 stage=check pending=0 applied=0 held=1 ")
        // One of each sweep.
        #expect(stage.gateway.records(atLeast: 2).count == 2, "check asked the gateway")
    }
}

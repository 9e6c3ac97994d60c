import Foundation
import TestSupport
import Testing

@Suite("A mistake of a newcomer")
struct NewcomerTests {
    @Test("an empty --app or --feed is quoted in the error")
    func emptyName() throws {
        let stage = try SweepStage(feeds: [])
        let result = try stage.run("sweep", "--app", "")
        #expect(result.exit == 64)
        #expect(result.error.contains("looking for app '': "), "\(result.error)")
        let feed = try stage.run("replay", "--feed", "")
        #expect(feed.exit == 64)
        #expect(feed.error.contains("looking for feed '': "), "\(feed.error)")
    }

    @Test("undo without any run says that there is none")
    func emptyList() throws {
        let stage = try SweepStage(feeds: [])
        #expect(try stage.run("undo", "--list").output == "no run changed rows\n")
        #expect(try stage.run("undo", "--list", "--format", "json").output == "")
    }

    @Test("demo refuses options that it does not use")
    func demoOptions() throws {
        let result = try Tool.pushsweep("demo", "--config", "/nowhere")
        #expect(result.exit == 64)
        #expect(result.error.contains("--config"), "\(result.error)")
    }

    @Test("demo prints the reports of its runs as JSON")
    func demoReports() throws {
        let result = try Tool.pushsweep("demo", "--format", "json")
        #expect(result.exit == 0, "\(result.error)")
        let reports = try result.output.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
        }
        #expect(reports.count == 4)
        #expect(reports[2]?["queued"] as? Int == 3)
        #expect(reports.allSatisfy { ($0?["exit"] as? Int ?? 0) == 0 })
    }

    @Test(
        "a mistyped command is answered with the nearest one",
        arguments: [
            (["swep"], "sweep"), (["chekc", "--format", "json"], "check"),
            (["holds", "lst"], "list"), (["schema", "aply"], "apply"),
        ])
    func mistyped(_ words: [String], _ command: String) throws {
        let result = try RunningTool("pushsweep", words).wait()
        #expect(result.exit == 64)
        #expect(result.error.contains("did you mean '\(command)'?"), "\(result.error)")
    }

    @Test("a word that is like no command is not answered with one")
    func foreignWord() throws {
        for words in [["frobnicate"], ["sweep", "swep"], [""], ["--verbos"]] {
            let result = try RunningTool("pushsweep", words).wait()
            #expect(result.exit == 64)
            #expect(!result.error.contains("did you mean '"), "\(result.error)")
        }
    }
}

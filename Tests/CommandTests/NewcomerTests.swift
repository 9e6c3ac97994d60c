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
        for words in [["--config", "/nowhere"], ["--format", "json"]] {
            let result = try RunningTool("pushsweep", ["demo"] + words).wait()
            #expect(result.exit == 64)
            #expect(result.error.contains(words[0]), "\(result.error)")
        }
    }
}

import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000

@Suite("A run")
struct RunTests {
    @Test("a run is quiet on success under cron and prints one machine-readable line on failure")
    func quiet() throws {
        let stage = try SweepStage.mixed()
        let result = try stage.run("sweep").ends(0)
        #expect(result.output == "")
        #expect(result.error == "")
        stage.lines.store = "url: sqlite:///nowhere/at/all.sqlite"
        let failed = try stage.run("sweep")
        #expect(failed.exit != 0)
        #expect(
            failed.closingLine.wholeMatch(
                of: /code=\d+ stage=\w+ pending=\d+ applied=\d+ held=\d+ next=\w+/) != nil)
    }

    @Test("a second run ends with 4 before it connects to anything")
    func overlap() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try SweepStage.mixed(behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        stage.awaitJournal()
        try stage.sweep().ends(4, "lock")
        first.signal(SIGTERM)
        #expect(first.wait().exit == 75)
        #expect(stage.gateway.records(atLeast: 1).count == 1)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        try stage.sweep().ends(0, "told to stop").app(has: ["resumed": true, "applied": 1])
    }

    @Test("replay applies a file like a feed, and again without any change")
    func replay() throws {
        let stage = try SweepStage.mixed()
        let file = try stage.folder.write(
            "feed.bin", FeedbackTuple.bytes([.dead(1, at: start), .dead(2, at: start)]))
        let dry = try stage.json("replay", file, "--dry-run")
        #expect(!FileManager.default.fileExists(atPath: stage.state + "/trial"))
        #expect(try stage.journaledBytes().isEmpty)
        dry.ends(0).app(has: ["applied": 1])
        try stage.json("replay", file).ends(0).app(has: ["applied": 1, "newer": 1])
        let rows = try stage.database.contents
        try stage.json("replay", file).app(has: ["already": 1, "rowsChanged": 0])
        #expect(try stage.database.contents == rows)
        #expect(stage.gateway.records.isEmpty)
        try stage.run("replay").ends(
            64, "code=64 stage=usage pending=0 applied=0 held=0 next=usage")
        try stage.run("replay", "/no/such/file").ends(64)
        try stage.run("replay", stage.folder.path).ends(64, "it is a directory; name a file")
    }

}

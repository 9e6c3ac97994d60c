// A disk image or a volume that is copied copies the state folder with it. Two hosts with one name
// would take each other's lease: each believes that the holder is its own dead run.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("A copied state folder")
struct ClonedFolderTests {
    private func copy(_ stage: SweepStage, to name: String) throws {
        try RunningTool(
            program: URL(fileURLWithPath: "/bin/cp"),
            ["-a", stage.state, stage.folder.file("state-of-\(name)")]
        ).wait().ends(0)
    }

    @Test(
        "a copied folder does not take the lease of a run in its original",
        arguments: TestEngine.available)
    func living(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try SweepStage(engine, dead: 1_000, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        stage.awaitJournal()
        try copy(stage, to: "b")
        let other = try stage.run("sweep", environment: stage.host("b"))
        // A run ends with 75 while a feed waits, and one waits in the copied journal.
        #expect([4, 75].contains(other.exit), "\(other.exit): \(other.error)")
        other.says("held by sweep on ")
        // A dry run does not regard the lease as its own either, and does not read the gateway.
        try stage.run("sweep", "--dry-run", environment: stage.host("b")).ends(
            [4, 75], "held by sweep on ")
        first.signal(SIGTERM)
        first.wait().ends(75).lacks("lease")
        #expect(stage.gateway.records(atLeast: 1).count == 1)
    }

    @Test("a copy that replaces the original waits for the end of the lease, then works")
    func restored() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try SweepStage(.sqlite, dead: 1_000, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        #expect(eventually(seconds: 20) { stage.arrivedBytes == 38_000 })
        first.signal(SIGKILL)
        #expect(first.wait().exit == 137)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        try copy(stage, to: "kept")
        try FileManager.default.removeItem(atPath: stage.state)
        try FileManager.default.moveItem(
            atPath: stage.folder.file("state-of-kept"), toPath: stage.state)
        try stage.sweep().ends([4, 75], "held by sweep on ")
        try stage.database.execute(
            "UPDATE pushsweep_lease SET expires_at = ?",
            [stage.database.time(1_600_000_000_000)])
        try stage.sweep().ends(0).app(has: ["resumed": true])
        #expect(try stage.database.marked == 1_000)
    }
}

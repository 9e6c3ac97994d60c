import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000

@Suite("The metrics file")
struct MetricsTests {
    private static let chat = ["app": "chat", "environment": "production"]

    private func page(_ folder: TemporaryFolder) throws -> MetricsPage {
        try MetricsPage(String(contentsOfFile: folder.file("pushsweep.prom"), encoding: .utf8))
    }

    private func tuples(_ page: MetricsPage, _ kind: String, _ outcome: String) -> Double? {
        page[
            "pushsweep_last_run_tuples",
            Self.chat.merging(["kind": kind, "outcome": outcome]) { $1 }]
    }

    @Test("the file follows a hold from its sweep to its release, and an undo after that")
    func story() throws {
        let stage = try SweepStage(.sqlite, dead: 500)
        stage.lines.limits = "report: {metrics-file: \(stage.folder.file("pushsweep.prom"))}"
        let trial = try stage.sweep("--dry-run")
        #expect(trial.exit == 3 || trial.exit == 75, "\(trial.error)")
        #expect(!FileManager.default.fileExists(atPath: stage.folder.file("pushsweep.prom")))
        try stage.sweep().ends(3)
        let held = try page(stage.folder)
        #expect(held["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 3)
        #expect(held["pushsweep_last_success_timestamp_seconds", ["kind": "sweep"]] == nil)
        #expect(held["pushsweep_holds_open", Self.chat] == 1)
        #expect(
            held["pushsweep_waiting_batches", Self.chat.merging(["state": "held"]) { $1 }] == 1)
        #expect(tuples(held, "sweep", "held") == 500)
        #expect(held["pushsweep_certificate_expiry_timestamp_seconds", Self.chat] != nil)

        let hold = try stage.json("holds", "list").json["holds"]
        let id = try #require((hold as? [[String: Any]])?.first?["hold"] as? String)
        let digest = try #require(stage.json("holds", "show", id).json["digest"] as? String)
        let released = try stage.json("holds", "release", digest).ends(0)
        let free = try page(stage.folder)
        #expect(free["pushsweep_holds_open", Self.chat] == 0)
        #expect(tuples(free, "release", "applied") == 500)
        // The report of the sweep is still printed.
        #expect(free["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 3)
        #expect(free["pushsweep_last_run_exit_code", ["kind": "release"]] == 0)

        let run = try #require(released.json["run"] as? String)
        try stage.run("undo", run).ends(0)
        let undone = try page(stage.folder)
        #expect(
            undone["pushsweep_last_run_undone_changes", ["kind": "undo", "outcome": "restored"]]
                == 500)
        let text = try String(contentsOfFile: stage.folder.file("pushsweep.prom"), encoding: .utf8)
        #expect(!text.contains(DeviceToken.numbered(1).hex.prefix(16)))
    }

    @Test("the file has the last sender beside the last sweep, and a sender that still runs")
    func senders() throws {
        let stage = try SendStage()
        let file = stage.folder.file("pushsweep.prom")
        stage.lines = "report: {metrics-file: \(file)}"
        try stage.database.register(0..<20, at: 1_600_000_000_000)
        try stage.queue(0..<20)
        try stage.send().ends(0)
        let labels = Self.chat.merging(["kind": "send", "sender": "1", "reason": ""]) { $1 }
        let sent = labels.merging(["outcome": "sent"]) { $1 }
        #expect(try page(stage.folder)["pushsweep_last_run_queue_rows", sent] == 20)
        try FileManager.default.removeItem(atPath: file)
        let service = try stage.start(["send", "--follow"])
        eventually { FileManager.default.fileExists(atPath: file) }
        let going = try page(stage.folder)
        #expect(going["pushsweep_last_run_queue_rows", sent] == 0)
        let run = ["kind": "send", "sender": "1"]
        #expect(going["pushsweep_last_run_end_timestamp_seconds", run] == nil)
        #expect(going["pushsweep_last_success_timestamp_seconds", run] != nil)
        service.signal(SIGTERM)
        _ = service.wait()
        #expect(try page(stage.folder)["pushsweep_last_run_end_timestamp_seconds", run] != nil)
    }

    @Test(
        "a file that cannot be written costs the run nothing but its exit code",
        arguments: [0, 500])
    func unwritable(_ tokens: Int) throws {
        let stage = try SweepStage(.sqlite, dead: tokens)
        let file = stage.folder.file("missing/pushsweep.prom")
        stage.lines.limits += "\nreport: {metrics-file: \(file)}"
        try stage.run("check").ends(73, "report.metrics-file")
        let result = try stage.sweep().ends(73, "the run's changes stay")
        #expect(
            result.closingLine
                == "code=73 stage=report pending=0 applied=\(tokens) held=0 next=disk")
        #expect(try stage.database.marked == tokens)
        try FileManager.default.createDirectory(
            atPath: stage.folder.file("missing"), withIntermediateDirectories: false)
        try stage.sweep().ends(0)
        let page = try MetricsPage(String(contentsOfFile: file, encoding: .utf8))
        #expect(page["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 0)
    }

}

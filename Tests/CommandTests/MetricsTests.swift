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
        try MetricsPage(
            String(contentsOfFile: folder.file("pushsweep.prom"), encoding: .utf8))
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
        #expect(try stage.sweep().exit == 3)
        let held = try page(stage.folder)
        #expect(held["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 3)
        #expect(held["pushsweep_last_success_timestamp_seconds", ["kind": "sweep"]] == nil)
        #expect(held["pushsweep_holds_open", Self.chat] == 1)
        #expect(
            held["pushsweep_waiting_feeds", Self.chat.merging(["state": "held"]) { $1 }] == 1)
        #expect(tuples(held, "sweep", "held") == 500)
        #expect(held["pushsweep_certificate_expiry_timestamp_seconds", Self.chat] != nil)

        let hold = try stage.run("holds", "list", "--format", "json").json["holds"]
        let id = try #require((hold as? [[String: Any]])?.first?["hold"] as? String)
        let digest = try #require(
            stage.run("holds", "show", id, "--format", "json").json["digest"] as? String)
        let released = try stage.run("holds", "release", digest, "--format", "json")
        #expect(released.exit == 0, "\(released.error)")
        let free = try page(stage.folder)
        #expect(free["pushsweep_holds_open", Self.chat] == 0)
        #expect(tuples(free, "release", "applied") == 500)
        // The report of the sweep is still printed.
        #expect(free["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 3)
        #expect(free["pushsweep_last_run_exit_code", ["kind": "release"]] == 0)

        let run = try #require(released.json["run"] as? String)
        #expect(try stage.run("undo", run).exit == 0)
        let undone = try page(stage.folder)
        #expect(
            undone["pushsweep_last_run_undone_changes", ["kind": "undo", "outcome": "restored"]]
                == 500)
        let text = try String(
            contentsOfFile: stage.folder.file("pushsweep.prom"), encoding: .utf8)
        #expect(!text.contains(DeviceToken.numbered(1).hex.prefix(16)))
    }

    @Test("the file shows a discarded hold, and no success that ended in the future")
    func discarded() throws {
        let stage = try SweepStage(.sqlite, dead: 500)
        stage.lines.limits = "report: {metrics-file: \(stage.folder.file("pushsweep.prom"))}"
        let held = try stage.sweep()
        let path = stage.state + "/journal.sqlite"
        let journal = SQLiteConnection(
            path: path, creates: false, StoreSettings(location: .sqlite(path: path)))
        try journal.connect()
        try journal.run("UPDATE run SET exit = 0, ended = 4102444800000")
        let id = try #require(held.app()["feed"] as? String)
        #expect(try stage.run("holds", "discard", id, "--reason", "wrong gateway").exit == 0)
        let page = try page(stage.folder)
        #expect(page["pushsweep_holds_open", Self.chat] == 0)
        #expect(page["pushsweep_last_run_exit_code", ["kind": "discard"]] == 0)
        #expect(page["pushsweep_last_success_timestamp_seconds", ["kind": "sweep"]] == nil)
        #expect(page["pushsweep_last_success_timestamp_seconds", ["kind": "discard"]] != nil)
    }

    @Test("the file has the last sender beside the last sweep, and a sender that still runs")
    func senders() throws {
        let stage = try SendStage()
        let file = stage.folder.file("pushsweep.prom")
        stage.lines = "report: {metrics-file: \(file)}"
        try stage.database.register(0..<20, at: 1_600_000_000_000)
        try stage.queue(0..<20)
        #expect(try stage.send().exit == 0)
        let labels = Self.chat.merging(["kind": "send", "sender": "1", "reason": ""]) { $1 }
        let sent = labels.merging(["outcome": "sent"]) { $1 }
        #expect(try page(stage.folder)["pushsweep_last_run_queue_rows", sent] == 20)
        try FileManager.default.removeItem(atPath: file)
        let service = try stage.start(["send", "--follow"])
        let deadline = ContinuousClock.now + .seconds(20)
        while !FileManager.default.fileExists(atPath: file), ContinuousClock.now < deadline {
            usleep(10_000)
        }
        let going = try page(stage.folder)
        #expect(going["pushsweep_last_run_queue_rows", sent] == 0)
        let run = ["kind": "send", "sender": "1"]
        #expect(going["pushsweep_last_run_end_timestamp_seconds", run] == nil)
        #expect(going["pushsweep_last_success_timestamp_seconds", run] != nil)
        service.signal(SIGTERM)
        _ = service.wait()
        #expect(
            try page(stage.folder)["pushsweep_last_run_end_timestamp_seconds", run] != nil)
    }

    @Test(
        "a file that cannot be written costs the run nothing but its exit code",
        arguments: [0, 500])
    func unwritable(_ tokens: Int) throws {
        let stage = try SweepStage(.sqlite, dead: tokens)
        let file = stage.folder.file("missing/pushsweep.prom")
        stage.lines.limits += "\nreport: {metrics-file: \(file)}"
        let check = try stage.run("check")
        #expect(check.exit == 73 && check.error.contains("report.metrics-file"), "\(check.error)")
        let result = try stage.sweep()
        #expect(result.exit == 73, "\(result.error)")
        #expect(result.error.contains("the run's changes stay"), "\(result.error)")
        #expect(
            result.closingLine
                == "code=73 stage=report pending=0 applied=\(tokens) held=0 next=disk")
        #expect(
            try stage.database.count(
                "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL") == tokens)
        try FileManager.default.createDirectory(
            atPath: stage.folder.file("missing"), withIntermediateDirectories: false)
        #expect(try stage.sweep().exit == 0)
        let page = try MetricsPage(String(contentsOfFile: file, encoding: .utf8))
        #expect(page["pushsweep_last_run_exit_code", ["kind": "sweep"]] == 0)
    }

    @Test("check names the file and warns of a name that no collector reads")
    func checked() throws {
        let stage = try SweepStage()
        stage.lines.limits = "report: {metrics-file: \(stage.folder.file("metrics.txt"))}"
        let result = try stage.run("check")
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.output.contains("warning: report: report.metrics-file is"))
    }
}

import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("Runs that a host makes no more")
struct RunRhythmTests {
    private static let day: Int64 = 86_400_000

    /// Records a run that began so many days ago and ended after some days; without an end for nil.
    private static func record(
        _ journal: EvidenceJournal, _ kind: String, daysAgo: Int64, lasting days: Int64? = 0,
        isTrial: Bool = false
    ) throws {
        let id = UUID().uuidString.lowercased()
        let start = EpochMilliseconds.current.advanced(by: -daysAgo * day)
        try journal.beginRun(id, kind: kind, at: start)
        guard let days else { return }
        try journal.endRun(
            id, exit: 0, summary: #"{"exit":0,"dryRun":\#(isTrial)}"#,
            at: start.advanced(by: days * day))
    }

    private static func stage() throws -> SweepStage {
        let stage = try SweepStage(feeds: [.tuples([])])
        try stage.database.register(0..<10, at: 1_600_000_000_000)
        try stage.swept().ends(0)
        return stage
    }

    private static func write(
        _ stage: SweepStage, _ body: (EvidenceJournal) throws -> Void
    ) throws {
        let folder = try StateFolder(stage.state)
        try body(EvidenceJournal(in: folder))
        withExtendedLifetime(folder) {}
    }

    @Test("an import and a sender that ran daily and stopped are told by check, audit and the gate")
    func stopped() throws {
        let stage = try Self.stage()
        try Self.write(stage) { journal in
            for days in 5..<25 {
                try Self.record(journal, "import", daysAgo: Int64(days))
                try Self.record(journal, "send", daysAgo: Int64(days))
            }
            // A dry run is no run, and one that was killed has no end.
            try Self.record(journal, "import", daysAgo: 1, isTrial: true)
            try Self.record(journal, "send", daysAgo: 25, lasting: nil)
        }
        let words = "no import for 4 whole days, where there was one each day"
        try stage.run("check").ends(0, "this host: \(words)", "[no-recent-import]")
        try stage.run("audit").ends(0, "[no-recent-import]", "[no-recent-send]")
        try stage.run("preflight", "--read-only", "--app", "chat").says(
            "medium: no-recent-import: this host: \(words)",
            "medium: no-recent-send: this host: no send for 4 whole days")
        // Another host never made such runs.
        let other = try stage.run(["check"], environment: stage.host("b")).ends(0).output
        #expect(!other.contains("no-recent-"))
        try Self.write(stage) { try Self.record($0, "import", daysAgo: 0) }
        let again = try stage.run("check").ends(0).output
        #expect(!again.contains("no-recent-import") && again.contains("no-recent-send"))
    }

    @Test("a sender that is at work for weeks is not missing, and a few runs are no rhythm")
    func atWork() throws {
        let stage = try Self.stage()
        let folder = try StateFolder(stage.state)
        let journal = try EvidenceJournal(in: folder)
        for days in 10..<30 { try Self.record(journal, "send", daysAgo: Int64(days)) }
        try Self.record(journal, "send", daysAgo: 9, lasting: nil)
        for days in 20..<25 { try Self.record(journal, "import", daysAgo: Int64(days)) }
        var host = HostFacts(in: stage.state)
        #expect(RunRhythm(&host, .current).missing.isEmpty && host.unreadable.isEmpty)
        // Eight weeks later it is told no more, as any silence.
        let late = EpochMilliseconds.current.advanced(by: 90 * Self.day)
        withExtendedLifetime(folder) {}
        var later = HostFacts(in: stage.host("c")["PUSHSWEEP_STATE"] ?? "")
        #expect(RunRhythm(&later, late).missing.isEmpty)
    }
}

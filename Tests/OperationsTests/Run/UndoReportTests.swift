import Testing
import TokenTable

@testable import Operations

@Suite("The report of an undo")
struct UndoReportTests {
    @Test("says of all changes that were not taken back what stands against it")
    func kept() {
        var report = UndoReport(run: "r", dryRun: false, started: "2026-11-23T10:00:00Z")
        report.entries = 9
        for obstacle in UndoObstacle.allCases { report.kept[obstacle.rawValue] = 1 }
        let told = report.lines.filter { $0.contains("left as they are: ") }
        #expect(
            told.map { $0.split(separator: ": ").last }
                == [
                    "changed since by another program", "registered again",
                    "with no registration time that shows who set them dead or living last",
                    "no longer in the table", "in the table again under the same key",
                    "with a token or another unique value that is in use now",
                    "refused by the table",
                    "about another token, table, column or key than is there now",
                    "unreadable in the ledger",
                ])
    }
}

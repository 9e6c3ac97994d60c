import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("Evidence counts of a following sender")
struct EvidenceTallyTests {
    private static let chat = Partition(app: "chat", environment: "production")

    private static func entry(
        _ feed: String, _ state: String, tuples: Int, applied: Int = 0, held: Int = 0
    ) -> BatchReport {
        var entry = BatchReport(chat, source: "g", end: .clean)
        entry.batch = feed
        entry.state = state
        (entry.tuples, entry.applied, entry.held) = (tuples, applied, held)
        entry.newer = tuples - applied - held
        return entry
    }

    @Test("a feed that was held, released and applied is counted once, in its last state")
    func freed() {
        var tally = EvidenceTally()
        var app = SendReport.App(Self.chat)
        for entry in [
            Self.entry("a", "held", tuples: 10, held: 10),
            Self.entry("b", "applied", tuples: 5, applied: 4),
            Self.entry("c", "pending", tuples: 8, applied: 3),
            Self.entry("a", "applied", tuples: 10, applied: 7),
            Self.entry("c", "pending", tuples: 8, applied: 5),
            Self.entry("c", "applied", tuples: 8, applied: 8),
        ] {
            app.evidence += tally.news(in: entry)
        }
        var sum = Counts()
        (sum.tuples, sum.applied, sum.newer) = (23, 19, 4)
        #expect(app.evidence == sum)
    }
}

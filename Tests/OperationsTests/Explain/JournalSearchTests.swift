import APNsProtocol
import EvidenceJournal
import TestSupport
import Testing
import TokenHygiene

@testable import Operations

@Suite("Searching the journal for a token")
struct JournalSearchTests {
    @Test("a token is found wherever the chunks of its feed are cut")
    func cuts() throws {
        let tuples: [FeedbackTuple] = [
            .dead(1, at: 1_700_000_000), .dead(2, at: 1_700_000_001), .dead(3, at: 1_700_000_002),
            .dead(2, at: 1_700_000_009),
        ]
        let bytes = FeedbackTuple.bytes(tuples)
        for length in 1...bytes.count {
            let folder = try TemporaryFolder()
            let state = try StateFolder(folder.file("state"))
            let journal = try EvidenceJournal(in: state)
            let feed = try journal.beginFeed(
                run: "run", partition: Partition(app: "chat", environment: "production"),
                source: "gateway:2196", at: EpochMilliseconds(1_750_000_000_000))
            for start in stride(from: 0, to: bytes.count, by: length) {
                try bytes[start..<min(start + length, bytes.count)].withUnsafeBytes {
                    try feed.append($0)
                }
            }
            var search = JournalSearch([.numbered(2), .numbered(9)])
            try search.search(HostFacts.Journal(journal))
            let found = try #require(search.found[.numbered(2)], "chunks of \(length) bytes")
            #expect(found.count == 1 && found[0].statements == 2)
            #expect(found[0].time == EpochMilliseconds(1_700_000_009_000))
            #expect(search.found[.numbered(9)] == nil)
        }
    }
}

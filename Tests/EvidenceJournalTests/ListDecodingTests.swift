import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("Decoding a hostile feed")
struct ListDecodingTests {
    private let fixture: JournalFixture
    private let journal: EvidenceJournal

    init() throws {
        fixture = try JournalFixture()
        journal = try fixture.journal()
    }

    /// A feed in which every other tuple is refused, so that no two refused ones are neighbours.
    private func decode(refused: Int) throws -> (feed: CapturedList, books: Counts) {
        let tuples = (0..<refused).flatMap { number -> [FeedbackTuple] in
            [.dead(number, at: 0), .dead(number, at: 1_600_000_000)]
        }
        let feed = try journal.list(journal.capture([FeedbackTuple.bytes(tuples)]))
        return (feed, try journal.counts(of: feed))
    }

    @Test("times are judged by the clock at the end of reading, and by the same one ever after")
    func longReading() throws {
        let tuples = [300, 301, 3_900, 3_901].map { second in
            FeedbackTuple.dead(second, at: UInt32(noon.rawValue / 1_000) + UInt32(second))
        }
        // Five minutes of lead, and an hour of reading.
        for (minutes, refused) in [(0, 3), (60, 1)] {
            let capture = try journal.beginList(
                run: "run", partition: chat, source: "gateway:2196", at: noon)
            try FeedbackTuple.bytes(tuples).withUnsafeBytes { try capture.append($0) }
            try capture.close(.closeNotify, at: noon.advanced(by: Int64(minutes) * 60_000))
            for _ in 0..<2 {
                let counts = try journal.counts(of: journal.list(capture.id))
                #expect(counts.quarantined == refused)
            }
        }
        // A clock that was set back while it was read.
        let capture = try journal.beginList(
            run: "run", partition: chat, source: "gateway:2196", at: noon)
        try FeedbackTuple.bytes(tuples).withUnsafeBytes { try capture.append($0) }
        try capture.close(.closeNotify, at: noon.advanced(by: -86_400_000))
        #expect(try journal.counts(of: journal.list(capture.id)).quarantined == 3)
    }

    @Test("each place in quarantine is named up to the limit")
    func upToLimit() throws {
        let (feed, books) = try decode(refused: ListDecoding.placesNamed)
        #expect(books.quarantined == ListDecoding.placesNamed)
        let places = try journal.quarantined(of: feed.id)
        #expect(places.count == ListDecoding.placesNamed)
        #expect(Set(places.map(\.reason)).count == 1)
        #expect(places.allSatisfy { $0.length == 38 })
    }

    @Test("one entry covers the places beyond the limit, and each tuple is still counted")
    func overLimit() throws {
        let (feed, books) = try decode(refused: ListDecoding.placesNamed + 3)
        #expect(books.quarantined == ListDecoding.placesNamed + 3)
        let places = try journal.quarantined(of: feed.id)
        #expect(places.count == ListDecoding.placesNamed + 1)
        let start = ListDecoding.placesNamed * 2 * 38
        #expect(
            places.last
                == Quarantined(
                    offset: start, length: feed.bytes - start, reason: "more than 10000 places"))
        _ = try journal.counts(of: feed)
        #expect(try journal.quarantined(of: feed.id) == places)
    }
}

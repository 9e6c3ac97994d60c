import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("Decoding a hostile feed")
struct FeedDecodingTests {
    private let fixture: JournalFixture
    private let journal: EvidenceJournal

    init() throws {
        fixture = try JournalFixture()
        journal = try fixture.journal()
    }

    /// A feed in which every other tuple is refused, so that no two refused ones are neighbours.
    private func decode(refused: Int) throws -> (feed: CapturedFeed, books: Counts) {
        let tuples = (0..<refused).flatMap { number -> [FeedbackTuple] in
            [.dead(number, at: 0), .dead(number, at: 1_600_000_000)]
        }
        let feed = try journal.feed(journal.capture([FeedbackTuple.bytes(tuples)]))
        return (feed, try journal.counts(of: feed))
    }

    @Test("each place in quarantine is named up to the limit")
    func upToLimit() throws {
        let (feed, books) = try decode(refused: FeedDecoding.placesNamed)
        #expect(books.quarantined == FeedDecoding.placesNamed)
        let places = try journal.quarantined(of: feed.id)
        #expect(places.count == FeedDecoding.placesNamed)
        #expect(Set(places.map(\.reason)).count == 1)
        #expect(places.allSatisfy { $0.length == 38 })
    }

    @Test("one entry covers the places beyond the limit, and each tuple is still counted")
    func overLimit() throws {
        let (feed, books) = try decode(refused: FeedDecoding.placesNamed + 3)
        #expect(books.quarantined == FeedDecoding.placesNamed + 3)
        let places = try journal.quarantined(of: feed.id)
        #expect(places.count == FeedDecoding.placesNamed + 1)
        let start = FeedDecoding.placesNamed * 2 * 38
        #expect(
            places.last
                == Quarantined(
                    offset: start, length: feed.bytes - start, reason: "more than 10000 places"))
        _ = try journal.counts(of: feed)
        #expect(try journal.quarantined(of: feed.id) == places)
    }
}

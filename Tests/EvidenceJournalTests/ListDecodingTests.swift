import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("Decoding a hostile feed")
struct ListDecodingTests {
    private let fixture: JournalFixture
    private let folder: StateFolder

    init() throws {
        fixture = try JournalFixture()
        folder = try fixture.folder()
    }

    /// A feed in which every other tuple is refused, so that no two refused ones are neighbours.
    private func decode(refused: Int) throws -> (feed: CapturedList, books: Counts) {
        let tuples = (0..<refused).flatMap { number -> [FeedbackTuple] in
            [.dead(number, at: 0), .dead(number, at: 1_600_000_000)]
        }
        let feed = try folder.list(folder.capture([FeedbackTuple.bytes(tuples)]))
        return (feed, try folder.counts(of: feed))
    }

    @Test("times are judged by the clock at the end of reading, and by the same one ever after")
    func longReading() throws {
        let tuples = [300, 301, 3_900, 3_901].map { second in
            FeedbackTuple.dead(second, at: UInt32(noon.rawValue / 1_000) + UInt32(second))
        }
        // Five minutes of lead, and an hour of reading.
        for (minutes, refused) in [(0, 3), (60, 1)] {
            let capture = try folder.beginList(
                run: "run", partition: chat, source: "gateway:2196", at: noon)
            try FeedbackTuple.bytes(tuples).withUnsafeBytes { try capture.append($0) }
            try capture.close(.closeNotify, at: noon.advanced(by: Int64(minutes) * 60_000))
            for _ in 0..<2 {
                let counts = try folder.counts(of: folder.list(capture.id))
                #expect(counts.quarantined == refused)
            }
        }
        // A clock that was set back while it was read.
        let capture = try folder.beginList(
            run: "run", partition: chat, source: "gateway:2196", at: noon)
        try FeedbackTuple.bytes(tuples).withUnsafeBytes { try capture.append($0) }
        try capture.close(.closeNotify, at: noon.advanced(by: -86_400_000))
        #expect(try folder.counts(of: folder.list(capture.id)).quarantined == 3)
    }

    /// What of a list goes to quarantine.
    private func parts(of list: CapturedList) throws -> [QuarantinedPart] {
        var parts: [QuarantinedPart] = []
        try folder.quarantine(of: folder.evidence(of: list, sorting: false)) { parts += $0 }
        return parts
    }

    @Test("each refused tuple up to the limit is a part with its bytes, its place and its token")
    func upToLimit() throws {
        let (list, books) = try decode(refused: ListDecoding.placesNamed)
        #expect(books.quarantined == ListDecoding.placesNamed)
        let (parts, bytes) = try (parts(of: list), folder.bytes(of: list.id))
        #expect(parts.count == ListDecoding.placesNamed)
        for (number, part) in parts.enumerated() {
            let place = number * 2 * 38
            let isRight =
                part.place == place && part.bytes == Array(bytes[place..<place + 38])
                && part.token == .numbered(number) && part.reason == "\(EvidenceRejection.zeroTime)"
            try #require(isRight, "\(part)")
        }
    }

    @Test("behind the limit the rest of the list goes as it is, and each tuple is still counted")
    func overLimit() throws {
        let (list, books) = try decode(refused: ListDecoding.placesNamed + 400)
        #expect(books.quarantined == ListDecoding.placesNamed + 400)
        let start = ListDecoding.placesNamed * 2 * 38
        let (parts, bytes) = try (parts(of: list), folder.bytes(of: list.id))
        let rest = parts.dropFirst(ListDecoding.placesNamed)
        #expect(rest.flatMap(\.bytes) == Array(bytes[start...]))
        #expect(rest.first?.place == start && rest.first?.length == QuarantinedPart.mostBytes)
        #expect(Set(rest.map(\.reason)) == ["more than 10000 places"])
    }

    @Test("bytes after the last whole tuple go as they are, in pieces, wherever the list was cut")
    func tail() throws {
        var random = SeededGenerator("tails of lists")
        let good = FeedbackTuple.bytes([.dead(1, at: 1_600_000_000)])
        let tail = [0, 0, 0, 1, 0xFF, 0xFF] + random.bytes(70_000)
        let list = try folder.list(folder.capture([good, tail]))
        let parts = try parts(of: list)
        #expect(parts.flatMap(\.bytes) == tail, "seed \(random.seed)")
        #expect(parts.first?.place == 38 && parts.count == 9)
        #expect(try folder.evidence(of: list, sorting: false).quarantinedBytes == tail.count)
        #expect(try self.parts(of: folder.list(folder.capture([good]))).isEmpty)
    }
}

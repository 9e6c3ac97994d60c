import APNsProtocol
import EvidenceJournal
import TestSupport
import Testing
import TokenHygiene

private let talk = Partition(app: "talk", environment: "production")

@Suite("Held feeds")
struct HeldFeedsTests {
    private let fixture: JournalFixture
    private var state: String { fixture.state }

    init() throws { fixture = try JournalFixture() }

    private func capture(_ journal: EvidenceJournal, _ partition: Partition) throws -> String {
        try journal.capture([[1, 1, 1]], of: partition)
    }

    @Test("the first held feed with a gate of its own holds its partition")
    func holder() throws {
        let journal = try fixture.journal()
        let (capped, waiting, first) = try (
            capture(journal, chat), capture(journal, chat), capture(journal, chat)
        )
        #expect(try journal.holder(of: chat) == nil)
        try journal.close(capped, as: .held, cause: "too long", at: noon)
        #expect(try journal.holder(of: chat) == nil)
        try journal.close(waiting, as: .held, cause: "waits", gate: .behind, at: noon)
        try journal.close(first, as: .held, cause: "too many", gate: .volume, at: noon)
        #expect(try journal.holder(of: chat)?.id == first)
        #expect(try journal.holder(of: chat)?.gate == .volume)
        #expect(try journal.holder(of: talk) == nil)
        try journal.close(first, as: .discarded, cause: "wrong app", at: noon)
        #expect(try journal.holder(of: chat) == nil)
    }

    @Test(
        "feeds behind a decided one become pending, others stay held",
        arguments: [true, false])
    func followers(byReopening: Bool) throws {
        let journal = try fixture.journal()
        let (first, follower) = try (capture(journal, chat), capture(journal, chat))
        let (other, otherFollower) = try (capture(journal, talk), capture(journal, talk))
        for (holder, waiting) in [(first, follower), (other, otherFollower)] {
            try journal.close(holder, as: .held, cause: "too many", gate: .volume, at: noon)
            try journal.close(waiting, as: .held, cause: "waits", gate: .behind, at: noon)
        }
        try journal.releaseFollowers()
        #expect(try journal.feeds(.pending).isEmpty)
        try journal.close(first, as: .applied, at: noon)
        if byReopening {
            #expect(try journal.recoverInterrupted(at: noon) == 0)
        } else {
            try journal.releaseFollowers()
        }
        let freed = try journal.feeds(.pending)
        #expect(freed.map(\.id) == [follower])
        #expect(freed.first?.gate == nil && freed.first?.cause == nil)
        #expect(try journal.feeds(.held).map(\.id) == [other, otherFollower])
    }

    @Test("the journal of a running sender can be opened, and its evidence sorted there")
    func visit() throws {
        let folder = try SenderFolders.takeFree(in: state)
        let own = try EvidenceJournal(in: folder)
        let feed = try capture(own, chat)
        try own.close(feed, as: .held, cause: "too many", gate: .volume, at: noon)
        #expect(SenderFolders.abandoned(in: state).folders.isEmpty)
        let visited = try #require(SenderFolders.visited(in: state).first)
        #expect(visited.isVisited && !folder.isVisited)
        let journal = try EvidenceJournal(in: visited)
        #expect(try journal.feeds(.held).map(\.id) == [feed])
        try journal.close(feed, as: .applied, at: noon)
        #expect(try own.feeds(.held).isEmpty)
        _ = try capture(own, chat)
        #expect(try journal.feeds(.pending).count == 1)
    }
}

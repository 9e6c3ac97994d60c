import EvidenceJournal
import TestSupport
import Testing

@Suite("Folders of senders")
struct SenderFolderTests {
    @Test("the next run takes over a folder's records when its sender has ended, and only then")
    func folders() throws {
        let folder = try TemporaryFolder()
        let state = folder.file("state")
        do {
            let first = try SenderFolders.takeFree(in: state)
            let second = try SenderFolders.takeFree(in: state)
            #expect(first.path != second.path)
            _ = try EvidenceJournal(in: first)
            #expect(SenderFolders.abandoned(in: state).folders.isEmpty)
            withExtendedLifetime((first, second)) {}
        }
        #expect(SenderFolders.abandoned(in: state).folders.count == 1)
    }

    @Test(
        "a host has as many senders as is said, the records of each are found, and one more is refused"
    )
    func last() throws {
        let folder = try TemporaryFolder()
        let state = folder.file("state")
        do {
            let all = try (1...SenderFolders.most).map { _ in
                let taken = try SenderFolders.takeFree(in: state)
                _ = try EvidenceJournal(in: taken)
                return taken
            }
            let failure = #expect(throws: JournalFailure.self) {
                try SenderFolders.takeFree(in: state)
            }
            #expect(failure?.code == .locked)
            withExtendedLifetime(all) {}
        }
        #expect(SenderFolders.abandoned(in: state).folders.count == SenderFolders.most)
    }
}

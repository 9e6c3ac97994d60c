import APNsProtocol
import EvidenceJournal
import TestSupport
import Testing
import TokenHygiene

@Suite("Records of answers")
struct AnswerRecordTests {
    @Test("records are read back unchanged, whatever the length of the token")
    func roundTrip() {
        let records = [1, 32, 54, 100].map {
            AnswerRecord(
                token: .numbered(7, count: $0), time: EpochMilliseconds(1_700_000_000_123))
        }
        var bytes: [UInt8] = []
        for record in records { record.encode(into: &bytes) }
        #expect(bytes.count == records.reduce(0) { $0 + $1.encodedLength })
        #expect(bytes.withUnsafeBytes { AnswerRecord.decode($0) } == records)
    }

    @Test("a record cut anywhere is refused")
    func cut() {
        var bytes: [UInt8] = []
        AnswerRecord(token: .numbered(1), time: EpochMilliseconds(1)).encode(into: &bytes)
        for length in 1..<bytes.count {
            #expect(bytes[..<length].withUnsafeBytes { AnswerRecord.decode($0) } == nil)
        }
    }

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

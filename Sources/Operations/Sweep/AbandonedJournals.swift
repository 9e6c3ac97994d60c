import APNsProtocol
import EvidenceJournal
import TokenHygiene

extension SenderFolders {
    /// Opens the journals of senders that are gone, one after the other, and recovers what was being
    /// read. `body` is lent each of them under its lock, and says whether the next one may follow.
    ///
    /// - Returns: what stood in the way of others; one journal's failure costs the others nothing.
    static func visitAbandoned(
        in state: String, at now: () -> EpochMilliseconds,
        _ body: (EvidenceJournal) throws(JournalFailure) -> Bool
    ) -> [JournalFailure] {
        var (folders, problems) = abandoned(in: state)
        for folder in folders {
            do throws(JournalFailure) {
                let journal = try EvidenceJournal(in: folder)
                try journal.recoverInterrupted(at: now())
                guard try body(journal) else { return problems }
            } catch {
                problems.append(error)
            }
        }
        // Until here, so that a folder that was done is not taken by another meanwhile.
        withExtendedLifetime(folders) {}
        return problems
    }
}

import APNsProtocol
import EvidenceJournal
import TokenHygiene

extension SenderFolders {
    /// Opens the journals of senders that are gone, one after the other, and makes their interrupted
    /// feeds pending. `body` gets each journal under its lock, and returns whether to continue with
    /// the next.
    ///
    /// - Returns: the failures of journals; after a failure the next journal is opened.
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
        // The locks are held until here, so that no other process takes a folder meanwhile.
        withExtendedLifetime(folders) {}
        return problems
    }
}

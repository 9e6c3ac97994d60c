import EvidenceJournal

/// The journals of this host: that of the state folder, then those of its senders, whether or not these are
/// alive.
package struct HostJournals {
    package let all: [EvidenceJournal]

    /// Takes the lock of the state folder.
    ///
    /// - Throws: `RunFailure` with exit 4 when another run holds it.
    package init(state: String) throws {
        let main = try EvidenceJournal(in: StateFolder(state))
        all =
            try [main]
            + SenderFolders.visited(in: main.folder.path).map { folder in
                try EvidenceJournal(in: folder)
            }
    }

    /// The journal that has a feed; that of the state folder where none has it.
    package func journal(of feed: String) -> EvidenceJournal {
        all.first { (try? $0.feed(feed)) != nil } ?? all[0]
    }
}

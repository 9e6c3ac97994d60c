import Database
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The batches that nobody has decided yet, the same for every host that may read them.
package struct BatchFacts {
    /// Those that are filled, wait, are being judged or are held, in the order in which they were heard.
    package private(set) var open: [ReportBatch] = []
    /// Those with parts that could not be used and that nobody discarded.
    package private(set) var quarantined: [QuarantinedBatch] = []
    /// Why they could not be seen; nil where they were. Nothing is held only for somebody who could see it.
    package private(set) var unseen: RunFailure?

    /// Nothing seen: no batches, and no reason either.
    package init() {}

    /// Reads the database of a token table.
    package init(_ store: TokenTable) {
        do {
            let batches = Batches(store)
            try batches.ensureVisible()
            // A draft that was emptied waits for nothing.
            open = try batches.all(.filling, .waiting, .applying, .held).filter {
                $0.state != .filling || $0.reports > 0 || $0.isUnstored
            }
            quarantined = try Quarantine(store).batches()
        } catch {
            unseen = RunFailure.wrapping(error, at: .store)
        }
    }

    /// The holds, oldest first.
    package var holds: [Hold] { Hold.grouped(open.filter { $0.state == .held }) }

    /// Those that the next sweep judges.
    package func waiting(of partition: Partition) -> [ReportBatch] {
        open.filter { $0.state != .held && !$0.isDraft && $0.partition == partition }
    }
}

extension ReportBatch {
    /// What it means that it is unstored.
    package var unstoredWords: String {
        "\(host) has read a list of \(partition) from \(label) at \(opened.rfc3339) that is not in the database yet: "
            + "only a sweep on that host stores it; if it is gone: pushsweep holds discard \(id) --reason TEXT"
    }
}

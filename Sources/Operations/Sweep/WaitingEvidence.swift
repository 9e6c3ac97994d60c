import EvidenceJournal
import TokenHygiene

// The exit code of a run tells also of evidence that the run was not about: a replay whose own feed is
// applied ends with 75 while an older feed waits in the journal, and with 3 while one is held. A person who
// looks at the results of the run finds no reason for that code. So the feeds are named, and the tuples of
// those that wait are counted.

/// The feeds of a journal that wait, although a run was not about them.
struct WaitingEvidence {
    /// Feeds for a later run, oldest first.
    private let pending: [CapturedFeed]
    /// Held feeds, oldest first.
    private let held: [CapturedFeed]
    /// Number of tuples in the pending feeds, without the quarantined ones.
    let tuples: Int

    /// Number of feeds that a message names.
    private static let mostNamed = 3

    /// Looks into a journal. `own` are the feeds in the report of the run.
    init(besides own: Set<String>, in journal: EvidenceJournal) throws {
        pending = try journal.feeds(.pending).filter { !own.contains($0.id) }
        held = try journal.feeds(.held).filter { !own.contains($0.id) }
        // A feed that cannot be read has its message in the run that applies it.
        tuples = pending.filter { $0.kind != .unusable }
            .reduce(0) { $0 + ((try? journal.counts(of: $1).usable) ?? 0) }
    }

    /// The sentence about feeds that wait; nil where there are none.
    var pendingSentence: String? {
        pending.first.map {
            "other evidence waits in the journal: \(Self.names(pending)); the next sweep takes it up, or "
                + "pushsweep replay --feed \($0.id)"
        }
    }

    /// The sentence about feeds that are held; nil where there are none.
    var heldSentence: String? {
        held.isEmpty ? nil : "other evidence is held: \(Self.names(held)); see pushsweep holds list"
    }

    private static func names(_ feeds: [CapturedFeed]) -> String {
        let named = feeds.prefix(mostNamed).map { "feed \($0.id) of \($0.partition)" }
        let more = feeds.count > mostNamed ? ["\(feeds.count - mostNamed) more"] : []
        return (named + more).joined(separator: ", ")
    }
}

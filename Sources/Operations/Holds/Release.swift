import EvidenceJournal
import TokenHygiene

extension SweepPlan {
    /// The plan of applying the held feeds that a digest names.
    package init(releasing digest: String, settings: Settings) {
        self.init(settings, .release(digest.lowercased()), dryRun: false)
    }
}

extension FeedSettlement {
    /// The feeds that a digest names, with what settles them where they are.
    ///
    /// - Throws: `RunFailure` where no held set has this digest: it changed, or was decided.
    func released(by digest: String) throws -> (feeds: [CapturedFeed], settlement: FeedSettlement) {
        for hold in try Holds(beside: journal).all() {
            let digests = try HoldDigest(hold.partition, plan.policy.action)
            for (index, feed) in hold.feeds.enumerated()
            where try digests.take(FeedDecoding.decode(feed, in: hold.journal)) == digest {
                return (
                    Array(hold.feeds[...index]),
                    FeedSettlement(
                        journal: hold.journal, store: store, plan: plan, context: context, run: run,
                        started: started, lease: lease)
                )
            }
        }
        throw RunFailure(
            .usage, .state,
            "looking for the held set with digest \(digest.prefix(12)): none has it, so the set "
                + "changed or was decided already; look again with: pushsweep holds list")
    }
}

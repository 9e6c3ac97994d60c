import EvidenceJournal
import Settings
import TokenHygiene

extension SweepPlan {
    /// The plan of applying the held feeds that a digest names.
    package init(releasing digest: String, settings: Settings) {
        self.init(settings, .release(digest.lowercased()), dryRun: false)
    }
}

extension JournalApplier {
    /// The feeds that a digest names, with the applier of their journal.
    ///
    /// - Throws: `RunFailure` when no held set has this digest: the set changed, was released or
    ///   discarded, or its release would now do something else.
    func released(by digest: String) throws -> (feeds: [CapturedFeed], applier: JournalApplier) {
        let holds = try Holds(beside: journal).all()
        for hold in holds {
            // An app that the settings no longer name cannot have been examined since.
            guard let partition = plan.partitions[hold.partition] else { continue }
            let digests = try HoldDigest(
                hold.partition, plan.policy, terms: store.terms(of: partition))
            guard let last = try feed(of: hold, with: digest, digests) else { continue }
            return (
                Array(hold.feeds[...last]),
                JournalApplier(
                    journal: hold.journal, store: store, plan: plan, context: context, run: run,
                    started: started, lease: lease)
            )
        }
        throw RunFailure(
            .usage, .state,
            "looking for the held set with digest \(digest.prefix(12)): \(try reason(digest, holds)); "
                + "look again with: pushsweep holds list")
    }

    /// The index of the feed up to which a hold has the digest; nil when no beginning of the hold has
    /// it.
    private func feed(
        of hold: Hold, with digest: String, _ digests: HoldDigest
    ) throws -> Int? {
        for (index, feed) in hold.feeds.enumerated()
        where try digests.take(FeedDecoding.decode(feed, in: hold.journal)) == digest {
            return index
        }
        return nil
    }

    /// Why no hold has a digest.
    private func reason(_ digest: String, _ holds: [Hold]) throws -> String {
        for hold in holds {
            let digests = try HoldDigest(withoutTerms: hold.partition, plan.policy.action)
            if try feed(of: hold, with: digest, digests) != nil {
                return "it was taken by an older version and does not say what a release would do"
            }
        }
        return
            "none has it, so the set changed, or the settings that decide what a release does, or it "
            + "was decided already"
    }
}

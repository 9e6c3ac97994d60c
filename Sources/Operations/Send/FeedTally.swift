/// Counts feeds of answers by their present state. A held feed is processed again once it is
/// released, and a failed one in the next round. Its earlier counts must not be added twice.
struct FeedTally {
    /// The counts of feeds that are not applied.
    private var waiting: [String: EvidenceCounts] = [:]

    /// The entry of a feed, less the counts that were added before.
    mutating func news(in entry: FeedReport) -> FeedReport {
        guard let name = entry.feed else { return entry }
        var news = entry
        if let known = waiting[name] { news.subtract(known) }
        waiting[name] = entry.isApplied ? nil : entry.counts
        return news
    }
}

/// Counts feeds of answers as they stand now. A feed that was held comes up again once it is free, and
/// one that failed in the next round; what was counted of it before must not be counted twice.
struct FeedTally {
    /// What was counted of feeds that are not applied.
    private var waiting: [String: EvidenceCounts] = [:]

    /// The entry of a feed without what was counted of it before.
    mutating func news(in entry: FeedReport) -> FeedReport {
        guard let name = entry.feed else { return entry }
        var news = entry
        if let known = waiting[name] { news.subtract(known) }
        waiting[name] = entry.isApplied ? nil : entry.counts
        return news
    }
}

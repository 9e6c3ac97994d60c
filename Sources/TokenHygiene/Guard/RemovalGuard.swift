// The guard between evidence and rows.
//
// A wrong certificate, environment, clock or table makes living tokens look dead, all at once, and
// whoever applies that silences a whole population. One tuple does not show it; their number and
// their company do. So every feed is judged as a whole before it changes a row. What is beyond the
// limits, or looks like a known mistake, is held for a person: kept whole, never dropped.
//
// Limits count rows that would become invalid, per partition, by the hours and days of the
// database's clock and not by runs: a sweep may have several feeds, a sender that stays has one run
// for weeks and a feed of answers every few seconds. An hour is what an hourly sweep does at once.
//
//   volume     more than 3 x the 99th percentile of the last 30 days' hours. Hours in which nothing
//              was removed do not count: of a table swept once a week they would be the 99 %, and
//              every sweep a surprise. Removals that a person released do not count either, or one
//              exception would widen the limit for a month. Under 100 hours there is no percentile:
//              then the greatest of them stands for it, and 1 % of the living rows is always
//              allowed.
//   share      more than 5 % of the living rows in an hour, 10 % in 24 hours.
//   symptoms   in a feed of 50 or more: most tokens unknown (another app's feed), most registered
//              after the signal (a wrong clock or zone), one time on nearly all (a gateway that does
//              not know when), times out of bounds.
//
//   foreign    a feed of which hardly a token is in any row (a mistyped table, another app's feed):
//              its signals are about rows that are elsewhere, and applied here they are lost.
//
// The limits do not apply up to a floor, since in small numbers shares mean nothing; nor does the last.
// The symptoms do from 50 on, whatever the floor. A feed that would make no row invalid is held for being
// foreign only: there is nothing else to lose.

/// The limits beyond which removals are held.
package struct GuardLimits: Hashable, Sendable {
    /// Rows that may become invalid in an hour, and in a day, without a look at shares.
    package var floor: Int
    /// Percent of a partition's living rows in an hour.
    package var partitionPercent: Double
    /// Percent of a partition's living rows in 24 hours.
    package var dayPercent: Double

    /// States limits; by default the usual ones.
    package init(floor: Int = 100, partitionPercent: Double = 5, dayPercent: Double = 10) {
        self.floor = floor
        self.partitionPercent = partitionPercent
        self.dayPercent = dayPercent
    }
}

/// What was removed from a partition lately, by all hosts. Rows that a person released are in
/// `month` only.
package struct RemovalHistory: Hashable, Sendable {
    /// Rows that became invalid in each full hour of the last 30 days that saw any, in any order.
    package var hours: [Int]
    /// In the present hour so far.
    package var thisHour: Int
    /// In the last 24 hours, the present one included.
    package var day: Int
    /// In the last 30 days, released ones included.
    package var month: Int

    /// States a history; by default none.
    package init(hours: [Int] = [], thisHour: Int = 0, day: Int = 0, month: Int = 0) {
        self.hours = hours
        self.thisHour = thisHour
        self.day = day
        self.month = month
    }

    /// Hours from which on one in a hundred is more than a single one.
    package static let matureHours = 100

    /// Whether the 99th percentile means something.
    package var isMature: Bool { hours.count >= Self.matureHours }

    /// The 99th percentile of `hours` by nearest rank; their greatest while they are few, 0 for none.
    package var usualPeak: Int {
        guard !hours.isEmpty else { return 0 }
        // The rank from above is at most 8, which needs no sorting of all.
        let places = hours.count - (hours.count * 99 + 99) / 100 + 1
        var greatest: [Int] = []
        for hour in hours where greatest.count < places || hour > greatest[0] {
            greatest.insert(hour, at: greatest.firstIndex { $0 >= hour } ?? greatest.count)
            if greatest.count > places { greatest.removeFirst() }
        }
        return greatest[0]
    }
}

/// What one feed would do.
package struct RemovalProposal: Hashable, Sendable {
    /// Living rows that would become invalid.
    package var candidates: Int
    /// What would become of the statements.
    package var counts: OutcomeCounts
    /// Whole tuples of the feed.
    package var tuples: Int
    /// Of them, with a time that cannot be.
    package var outOfBounds: Int
    /// Distinct tokens.
    package var tokens: Int
    /// Of them, with the most frequent time. 0 where times say nothing about their source: answers
    /// without a time of their own carry ours, which many share.
    package var tokensAtOneTime: Int
    /// Whether stale rows are removed, so that what was removed before is unknown now.
    package var deletes: Bool

    /// States a proposal.
    package init(
        candidates: Int, counts: OutcomeCounts, tuples: Int, outOfBounds: Int = 0, tokens: Int,
        tokensAtOneTime: Int = 0, deletes: Bool = false
    ) {
        self.candidates = candidates
        self.counts = counts
        self.tuples = tuples
        self.outOfBounds = outOfBounds
        self.tokens = tokens
        self.tokensAtOneTime = tokensAtOneTime
        self.deletes = deletes
    }
}

/// Asks all gates about one feed.
package struct RemovalGuard: Hashable, Sendable {
    /// Tuples from which on a share of them is a symptom.
    package static let leastForSymptoms = 50
    /// Tuples from which on it is worth a word that hardly one is about a token of the table.
    package static let leastForWarning = 10
    /// Percent of unknown tuples from which on a feed is foreign.
    package static let foreignPercent = 95
    /// How often the usual peak may be exceeded.
    package static let peakFactor = 3
    /// Percent of the living rows that is allowed without a mature history.
    package static let youngPercent = 1.0

    /// The limits of the settings.
    package let limits: GuardLimits

    /// Takes limits.
    package init(_ limits: GuardLimits = GuardLimits()) { self.limits = limits }

    /// Why the feed has to be held; nil where it may be applied.
    ///
    /// `living` counts the partition's rows that are not invalid, and may stop at the number it is
    /// given; it is asked only beyond the floor. It may throw, and then so does this.
    package func cause<Failure: Error>(
        toHold proposal: RemovalProposal, after history: RemovalHistory,
        living: (_ atMost: Int) throws(Failure) -> Int
    ) throws(Failure) -> GuardCause? {
        if proposal.counts.total >= limits.floor, let foreign = foreign(proposal, after: history) {
            return foreign
        }
        guard proposal.candidates > 0 else { return nil }
        if let symptom = symptom(of: proposal, after: history) { return symptom }
        let hour = history.thisHour + proposal.candidates
        if hour > limits.floor {
            if let rows = try exceeded(
                limits.partitionPercent, by: hour, before: history.thisHour, living)
            {
                return .partitionShare(
                    removals: hour, living: rows, percent: limits.partitionPercent)
            }
            let peak = history.usualPeak
            if hour > peak * Self.peakFactor {
                if history.isMature { return .volume(removals: hour, usualPeak: peak) }
                if let rows = try exceeded(
                    Self.youngPercent, by: hour, before: history.thisHour, living)
                {
                    return .volumeWithoutHistory(removals: hour, living: rows)
                }
            }
        }
        let day = history.day + proposal.candidates
        guard day > limits.floor,
            let rows = try exceeded(limits.dayPercent, by: day, before: history.day, living)
        else { return nil }
        return .dayShare(removals: day, living: rows, percent: limits.dayPercent)
    }

    /// What there is to tell of a feed that is too small to be held: that hardly a token of it is known.
    package func warning(
        about proposal: RemovalProposal, after history: RemovalHistory
    ) -> GuardCause? {
        proposal.counts.total >= Self.leastForWarning ? foreign(proposal, after: history) : nil
    }

    private func foreign(
        _ proposal: RemovalProposal, after history: RemovalHistory
    ) -> GuardCause? {
        let judged = proposal.counts.total
        guard unexplained(proposal, after: history) * 100 > judged * Self.foreignPercent else {
            return nil
        }
        return .unknownTokens(count: proposal.counts.unknown, tuples: judged)
    }

    /// Unknown tuples, but for those about rows that this program has deleted.
    private func unexplained(_ proposal: RemovalProposal, after history: RemovalHistory) -> Int {
        proposal.counts.unknown - (proposal.deletes ? history.month : 0)
    }

    /// The living rows of which `removals` are more than `percent`, those removed `before` counted
    /// as living still; nil where they are not.
    private func exceeded<Failure: Error>(
        _ percent: Double, by removals: Int, before: Int, _ living: (Int) throws(Failure) -> Int
    ) throws(Failure) -> Int? {
        let enough = Double(removals) * 100 / percent
        // More rows than any table has: the limit is far below one row.
        let needed = enough < 1e15 ? Int(enough.rounded(.up)) - before : Int.max
        guard needed > 0 else { return nil }
        let rows = try living(needed)
        return rows < needed ? rows + before : nil
    }

    private func symptom(
        of proposal: RemovalProposal, after history: RemovalHistory
    ) -> GuardCause? {
        let least = Self.leastForSymptoms
        if proposal.tuples >= least, proposal.outOfBounds * 100 > proposal.tuples {
            return .outOfBounds(count: proposal.outOfBounds, tuples: proposal.tuples)
        }
        let (counts, judged) = (proposal.counts, proposal.counts.total)
        if judged >= least, unexplained(proposal, after: history) * 2 > judged {
            return .unknownTokens(count: counts.unknown, tuples: judged)
        }
        let known = judged - counts.unknown
        if known >= least, counts.newer * 2 > known {
            return .registeredLater(count: counts.newer, known: known)
        }
        if proposal.tokens >= least, proposal.tokensAtOneTime * 10 > proposal.tokens * 9 {
            return .oneTime(count: proposal.tokensAtOneTime, tokens: proposal.tokens)
        }
        return nil
    }
}

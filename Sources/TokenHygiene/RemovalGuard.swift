// The guard between evidence and rows.
//
// A wrong certificate, environment, clock or table makes many living tokens look dead at the same
// time. Applying such evidence would cut off a whole population. A single tuple does not show the
// mistake, but the number and the distribution of the tuples do. So the guard judges every batch as
// a whole before the batch changes a row. A batch beyond the limits, or with the pattern of a known
// mistake, is held for a person. It is kept whole and never dropped.
//
// Limits count the rows that would become invalid, per partition, in hours and days of the
// database's clock. They do not count per run: a sweep may have several batches, and a permanent
// sender has one run for weeks and a batch of answers every few seconds. The hour fits an hourly
// sweep, whose whole removal falls into one hour.
//
//   volume     more than 3 x the 99th percentile of the last 30 days' hours. Hours without removals do
//              not count: for a table swept once a week they would be 99 % of the hours, and every
//              sweep would be held. Removals that a person released do not count either: one exception
//              would widen the limit for a month. With fewer than 100 hours there is no percentile; the
//              greatest hour takes its place, and 1 % of the living rows is always allowed.
//   share      more than 5 % of the living rows in an hour, 10 % in 24 hours.
//   symptoms   in a batch of 50 or more: most tokens unknown (another app's batch), most registered
//              after the signal (a wrong clock or zone), one time on nearly all (a gateway that does
//              not know the times), times out of bounds.
//
//   foreign    a batch of which hardly any token is in a row (a mistyped table, another app's batch):
//              its signals are about rows in another table and are lost if they are applied here.
//
// The limits do not apply up to a floor, because shares mean nothing in small numbers; nor does the
// foreign rule. The symptoms apply from 50 tuples on, whatever the floor. A batch that would make no
// row invalid is held only for being foreign, because it cannot do other harm.

/// The limits above which the guard holds removals.
package struct GuardLimits: Hashable, Sendable {
    /// Rows that may become invalid in an hour, and in a day, without a test of shares.
    package var floor: Int
    /// The limit for an hour, in percent of a partition's living rows.
    package var partitionPercent: Double
    /// The limit for 24 hours, in percent of a partition's living rows.
    package var dayPercent: Double

    /// Makes limits; the defaults are those of the settings.
    package init(floor: Int = 100, partitionPercent: Double = 5, dayPercent: Double = 10) {
        self.floor = floor
        self.partitionPercent = partitionPercent
        self.dayPercent = dayPercent
    }
}

/// The recent removals from a partition by all hosts. Rows that a person released count in `month`
/// only.
package struct RemovalHistory: Hashable, Sendable {
    /// Rows that became invalid in each full hour of the last 30 days, in any order, without the
    /// hours in which no row did.
    package var hours: [Int]
    /// Rows that became invalid in the present hour so far.
    package var thisHour: Int
    /// Rows that became invalid in the last 24 hours, the present hour included.
    package var day: Int
    /// Rows that became invalid in the last 30 days, released ones included.
    package var month: Int
    /// Whether any evidence was applied to the partition, at any time that checkpoints are kept for; nil
    /// where that is not known.
    package var isAny: Bool?

    /// Makes a history; by default one without removals, of which nothing more is known.
    package init(
        hours: [Int] = [], thisHour: Int = 0, day: Int = 0, month: Int = 0, isAny: Bool? = nil
    ) {
        self.hours = hours
        self.thisHour = thisHour
        self.day = day
        self.month = month
        self.isAny = isAny
    }

    /// The number of hours from which on one percent of them is at least one hour.
    static let matureHours = 100

    /// Whether there are enough hours for a 99th percentile.
    package var isMature: Bool { hours.count >= Self.matureHours }

    /// The 99th percentile of `hours` by nearest rank; the greatest hour while there are few, 0
    /// without hours.
    package var usualPeak: Int {
        guard !hours.isEmpty else { return 0 }
        return hours.sorted()[(hours.count * 99 + 99) / 100 - 1]
    }
}

/// The changes that one batch would make.
package struct RemovalProposal: Hashable, Sendable {
    /// The number of living rows that would become invalid.
    package var candidates: Int
    /// The outcomes that the batch's statements would have.
    package var counts: Counts
    /// The number of whole tuples in the list.
    package var tuples: Int
    /// The number of tuples with a time out of `EvidenceBounds`.
    package var outOfBounds: Int
    /// The number of distinct tokens.
    package var tokens: Int
    /// The number of tokens with the most frequent time. 0 where the times give no evidence about
    /// their source: answers without a time of their own carry this host's time, which many of them
    /// share.
    package var tokensAtOneTime: Int
    /// Whether stale rows are deleted, so that tokens of rows deleted earlier are unknown now.
    package var deletes: Bool

    /// Makes a proposal from the numbers of one batch.
    package init(
        candidates: Int, counts: Counts, tuples: Int, outOfBounds: Int = 0, tokens: Int,
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

/// Tests one batch against all gates.
package struct RemovalGuard: Hashable, Sendable {
    /// The number of tuples from which on a share of them counts as a symptom.
    static let leastForSymptoms = 50
    /// The number of tuples from which on a batch with hardly any token of the table gets a warning.
    static let leastForWarning = 10
    /// The percentage of unknown tuples from which on a batch counts as foreign.
    static let foreignPercent = 95
    /// The factor by which an hour may exceed the usual peak.
    static let peakFactor = 3
    /// The percentage of the living rows that is always allowed without a mature history.
    static let youngPercent = 1.0

    /// The limits that the gates apply.
    package let limits: GuardLimits

    /// Makes a guard with the limits of the settings.
    package init(_ limits: GuardLimits = GuardLimits()) { self.limits = limits }

    /// The reason why the batch has to be held; nil where it may be applied.
    ///
    /// `living` counts the partition's rows that are not invalid, and may stop at the number it
    /// receives. It is called only above the floor. An error that it throws is passed on.
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

    /// The warning about a batch that is too small to be held and of which hardly any token is
    /// known; nil where there is nothing to warn of.
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

    /// The number of unknown tuples, without those about rows that this program has deleted.
    private func unexplained(_ proposal: RemovalProposal, after history: RemovalHistory) -> Int {
        proposal.counts.unknown - (proposal.deletes ? history.month : 0)
    }

    /// The number of living rows, if `removals` are more than `percent` of them; else nil. The rows
    /// removed `before` count as living.
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

// Answers that a sender knew and could not write: the database was away, or the sender was killed. Its
// claim still has the rows, so whoever has the answers writes them, and no row of a known answer is
// called unknown. Where the lease has ended meanwhile, another sender has decided about the rows. What it
// wrote stays, and the caller learns how many rows say something else than the answers.

import APNsProtocol
import Database
import TokenHygiene

/// What became of kept answers.
package struct SettledAnswers: Hashable, Sendable {
    /// Rows that got their result from an answer.
    package internal(set) var written = 0
    /// Rows that are not as the answer says, because another sender had them: by their state.
    package internal(set) var differing: [DeliveryState: Int] = [:]

    /// Starts with all numbers at 0.
    package init() {}

    /// Adds the numbers of another claim.
    package static func += (sum: inout SettledAnswers, other: SettledAnswers) {
        sum.written += other.written
        sum.differing.merge(other.differing) { $0 + $1 }
    }
}

extension PushQueue {
    /// A number that tells this queue from every other, for what is kept about it outside the database.
    ///
    /// - Throws: any failure of the database.
    package func identity() throws(StoreFailure) -> UInt64 {
        UInt64(bitPattern: try apnsSpace())
    }

    /// Writes results that a sender which has ended kept, in the order in which it learned of them: of
    /// several results of a row the last counts. Rows that the claim has no more keep what they say.
    ///
    /// - Throws: any failure that outlasts the tries; the same results may be passed again.
    package func settle(
        _ results: [DeliveryResult], of id: Int64
    ) throws(StoreFailure) -> SettledAnswers {
        let keys = KeySet(sorted: Set(results.lazy.map(\.key)).sorted())
        let groups = ResultGroups(results.reversed(), of: keys)
        var settled = SettledAnswers()
        try store.retries.retrying("writing kept answers to \(name)") { () throws(SQLFailure) in
            try connection.begin()
            guard let record = try ClaimRecord.lock(id, connection), record.state != .taken else {
                settled.differing = try differing(groups)
                return connection.rollBack()
            }
            let rest = record.keys.subtracting(keys)
            // All written before, perhaps by a commit whose answer was lost.
            guard rest != record.keys else { return connection.rollBack() }
            settled.written = record.keys.count - rest.count
            _ = try write(groups, of: record.keys, KeySet(), now: record.now)
            try update(id, record, rest: rest)
            try connection.commit()
        }
        return settled
    }

    /// The rows whose state is not that of a final answer.
    private func differing(_ groups: ResultGroups) throws(SQLFailure) -> [DeliveryState: Int] {
        var differing: [DeliveryState: Int] = [:]
        for group in groups.groups {
            guard let state = group.outcome.knownState else { continue }
            let states = try statements.states(of: group.keys)
            for (word, count) in states where word != state.rawValue {
                differing[DeliveryState(rawValue: word) ?? .pending, default: 0] += count
            }
            // A row without an entry in the side table waits.
            let waiting = group.keys.count - states.values.reduce(0, +)
            if !layout.delivery.isInRow, waiting > 0 {
                differing[.pending, default: 0] += waiting
            }
        }
        return differing
    }
}

extension DeliveryResult.Outcome {
    /// The state of a row of which the gateway's answer is known and final.
    fileprivate var knownState: DeliveryState? {
        switch self {
        case .sent: .sent
        case .gone: .gone
        case .failed: .failed
        case .retry, .unknown, .skipped, .returned: nil
        }
    }
}

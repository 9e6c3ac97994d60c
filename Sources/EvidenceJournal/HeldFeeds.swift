// The first feed that the guard stops holds its partition. Later feeds of the partition wait behind
// it, because the suspicion about the first one will apply to them too. Once a person has decided
// about the first, the guard judges the others like any feed.

import GRDB
import TokenHygiene

extension EvidenceJournal {
    /// The feed that holds a partition: the first that the guard stopped by one of its own gates.
    package func holder(of partition: Partition) throws(JournalFailure) -> CapturedFeed? {
        try perform("looking for what holds \(partition)") { db in
            try Row.fetchOne(
                db,
                sql: """
                    SELECT * FROM feed WHERE state = ? AND app = ? AND environment = ?
                    AND gate IS NOT NULL AND gate <> ? ORDER BY opened, rowid LIMIT 1
                    """,
                arguments: [
                    FeedState.held.rawValue, partition.app, partition.environment,
                    GuardGate.behind.rawValue,
                ]
            ).map(CapturedFeed.init)
        }
    }

    /// Makes pending the feeds that wait behind feeds that are decided.
    package func freeFollowers() throws(JournalFailure) {
        try perform("freeing feeds that wait behind others") { db in
            try db.execute(
                sql: """
                    UPDATE feed SET state = :pending, cause = NULL, gate = NULL
                    WHERE state = :held AND gate = :behind AND NOT EXISTS (
                        SELECT 1 FROM feed AS holder WHERE holder.state = :held
                        AND holder.app = feed.app AND holder.environment = feed.environment
                        AND holder.gate <> :behind)
                    """,
                arguments: [
                    "pending": FeedState.pending.rawValue, "held": FeedState.held.rawValue,
                    "behind": GuardGate.behind.rawValue,
                ])
        }
    }
}

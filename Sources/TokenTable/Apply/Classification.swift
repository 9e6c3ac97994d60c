import APNsProtocol
import Database
import TokenHygiene

/// The changes that a feed would make to the rows of a partition, determined without changing or
/// locking any.
package struct Classification: Hashable, Sendable {
    /// The outcomes that the statements would have.
    package var counts = OutcomeCounts()
    /// The number of living rows that would become invalid; the guard limits it.
    package var candidateRows = 0
    /// The number of rows without a registration time.
    package var undatedRows = 0
    /// Whether the evidence was read to its end.
    package var isComplete = false

    /// Starts with all counts at 0.
    package init(isComplete: Bool = false) { self.isComplete = isComplete }

    /// Adds the classification of another part of the evidence.
    static func += (left: inout Classification, right: Classification) {
        left.counts += right.counts
        left.candidateRows += right.candidateRows
        left.undatedRows += right.undatedRows
        left.isComplete = left.isComplete && right.isComplete
    }
}

/// Counts the effects of evidence on the rows of a partition, batch by batch.
struct FeedClassifier {
    let layout: TableLayout
    let connection: any SQLConnection
    let partition: Partition
    let policy: RemovalPolicy
    /// Whether marks are in the side table.
    let readsSideMarks: Bool

    /// Adds one batch to the counts.
    func classify(
        _ batch: [TokenEvidence], into result: inout Classification, _ lookup: RowLookup
    ) throws(SQLFailure) {
        let rows = try lookup.rows(for: batch[...], connection, locking: false).rows
        var marks: [DeviceToken: SideMarkState] = [:]
        if readsSideMarks && !rows.isEmpty {
            let tokens = Set(rows.map(\.evidence)).map { batch[$0].token }.sorted()
            marks = try SideMarks(
                partition: partition, source: .feedback, dialect: connection.dialect
            ).states(on: tokens, connection, locking: false)
        }
        let judgement = ChunkJudgement(batch[...], rows, marks: marks, layout, policy)
        result.counts += judgement.counts
        result.candidateRows += judgement.invalidated
        result.undatedRows += judgement.undated
    }
}

import APNsProtocol
import Database
import TokenHygiene

/// What a feed would do to the rows of a partition, found out without changing or locking any.
package struct Classification: Hashable, Sendable {
    /// What would become of the statements.
    package var counts = OutcomeCounts()
    /// Living rows that would become invalid: what a guard limits.
    package var candidateRows = 0
    /// Rows that tell no registration time.
    package var undatedRows = 0
    /// Whether the stream was read to its end.
    package var isComplete = false

    /// Starts empty.
    package init(isComplete: Bool = false) { self.isComplete = isComplete }

    /// Adds what another part of the evidence would do.
    static func += (left: inout Classification, right: Classification) {
        left.counts += right.counts
        left.candidateRows += right.candidateRows
        left.undatedRows += right.undatedRows
        left.isComplete = left.isComplete && right.isComplete
    }
}

/// Walks evidence over the rows of a partition and counts.
struct FeedClassifier {
    let layout: TableLayout
    let connection: any SQLConnection
    let partition: Partition
    let policy: RemovalPolicy
    /// Whether marks stand in the side table.
    let readsSideMarks: Bool

    /// Classifies one batch.
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

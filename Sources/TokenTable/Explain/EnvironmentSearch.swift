import APNsProtocol
import Database
import Findings
import TokenHygiene

// Which rows may be under the wrong environment, by what is known of their tokens (`EnvironmentKnowledge`).

/// A token that APNs calls bad and that a living row has.
package struct MisplacedToken: Hashable, Sendable {
    package let suspect: Suspect
    package let knowledge: EnvironmentKnowledge
    /// Whether a row of the other environment has the token as well.
    package let isElsewhereToo: Bool

    package var token: DeviceToken { suspect.token }

    /// The evidence that moves its row: a device that registered since may have come with another environment.
    package var evidence: TokenEvidence {
        TokenEvidence(token: token, time: suspect.timeOfMove)
    }
}

extension Suspect {
    /// Registrations up to this time give way to a proof.
    fileprivate var timeOfMove: EpochMilliseconds {
        guard let elsewhere, elsewhere.answer == .accepted else { return last }
        return min(last, elsewhere.time)
    }
}

/// Reads the suspects of an app and environment with what is known of them. Reads only.
package struct EnvironmentSearch {
    private let table: TokenTable
    private let suspects: Suspects
    private let partition: Partition
    private let lookup: RowLookup
    private let marks: InvalidTokenTable?
    /// The rows of the other environment; nil where no column tells the two apart.
    private let elsewhere: RowLookup?

    /// Prepares the reading of an app, by the table's value, and environment.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(_ table: TokenTable, of partition: Partition) throws(StoreFailure) {
        (self.table, self.partition) = (table, partition)
        suspects = Suspects(table)
        let (layout, connection) = (try table.layout(), table.connection)
        lookup = try RowLookup(layout, connection, partition, wholeRows: false)
        let readsMarks = layout.mark == nil ? try table.canReadTokenMarks() : false
        marks =
            readsMarks ? InvalidTokenTable(partition: partition, connection: connection) : nil
        if let other = partition.elsewhere, layout.environment != nil {
            elsewhere = try RowLookup(
                layout, connection, other, wholeRows: false, looksAlike: true)
        } else {
            elsewhere = nil
        }
    }

    /// The tokens behind one, in their order, and the last suspect that was looked at; nil at the end.
    ///
    /// - Throws: any failure of a query.
    package func next(
        after last: DeviceToken?
    ) throws(StoreFailure) -> (found: [MisplacedToken], last: DeviceToken)? {
        let page = try suspects.page(of: partition, after: last)
        guard let end = page.last?.token else { return nil }
        let open = page.filter { !$0.isCleared }
        let evidence = open.map { TokenEvidence(token: $0.token, time: $0.timeOfMove) }
        let doing = "looking for the rows of suspects"
        let living = try table.retries.retrying(doing) { () throws(SQLFailure) in
            try self.living(evidence)
        }
        let there = try table.retries.retrying(doing) { () throws(SQLFailure) in
            try occupied(evidence)
        }
        let dead = try suspects.deaths(of: open, in: partition.elsewhere)
        var found: [MisplacedToken] = []
        for (place, suspect) in open.enumerated() {
            guard let hasReturned = living[place] else { continue }
            let knowledge = EnvironmentKnowledge(
                of: suspect, deadElsewhere: dead[suspect.token] != nil, hasReturned: hasReturned)
            found.append(
                MisplacedToken(
                    suspect: suspect, knowledge: knowledge, isElsewhereToo: there.contains(place)))
        }
        return (found, end)
    }

    /// The places of tokens that living rows have, and whether all of these registered after the evidence.
    private func living(_ evidence: [TokenEvidence]) throws(SQLFailure) -> [Int: Bool] {
        guard !evidence.isEmpty else { return [:] }
        let rows = try lookup.rows(for: evidence[...], locking: false).rows
        let known = try marks?.marks(of: rows, in: evidence[...], locking: false) ?? [:]
        var living: [Int: Bool] = [:]
        for row in rows {
            let item = evidence[row.evidence]
            guard !row.judged(markedAt: known[item.token]?.time).isStale else { continue }
            let hasReturned = row.registeredAt.map { $0 > item.time } ?? false
            living[row.evidence] = (living[row.evidence] ?? true) && hasReturned
        }
        return living
    }

    /// The places of tokens that rows of the other environment have.
    private func occupied(_ evidence: [TokenEvidence]) throws(SQLFailure) -> Set<Int> {
        guard let elsewhere, !evidence.isEmpty else { return [] }
        return Set(
            try elsewhere.rows(for: evidence[...], locking: false).rows.map(\.evidence))
    }
}

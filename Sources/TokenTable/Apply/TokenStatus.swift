import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Whether a token may be sent to, by the rows of the token table.
package enum TokenStatus: Hashable, Sendable {
    /// A row has it that is not dead: without a mark, or with a later registration.
    case living
    /// Every row that has it is dead: marked without a later registration, or set dead by the app.
    case stale
    /// No row has it for this app and environment.
    case unknown
}

/// Looks up which tokens of a partition may be sent to. Reads only.
package struct TokenStatusLookup {
    fileprivate let lookup: RowLookup
    /// The marks of the side table; nil where they cannot be read.
    fileprivate let tokenMarks: InvalidTokenTable?

    /// The status of each token.
    ///
    /// - Throws: any failure of reading.
    package func statuses(
        of tokens: [DeviceToken]
    ) throws(SQLFailure) -> [DeviceToken: TokenStatus] {
        guard !tokens.isEmpty else { return [:] }
        let sorted = Set(tokens).sorted()
        let time = EpochMilliseconds(0)
        let asked = sorted.map { TokenEvidence(token: $0, time: time) }
        let rows = try lookup.rows(for: asked[...], locking: false).rows
        let marks =
            try tokenMarks?.marks(of: rows, in: asked[...], locking: false) ?? [:]
        var statuses = [TokenStatus](repeating: .unknown, count: sorted.count)
        // A token in several rows may be sent to if one of them is living.
        for row in rows where statuses[row.evidence] != .living {
            let registered = row.judged(markedAt: marks[sorted[row.evidence]]?.time)
            if !registered.isStale {
                statuses[row.evidence] = .living
            } else if statuses[row.evidence] == .unknown {
                statuses[row.evidence] = .stale
            }
        }
        return Dictionary(uniqueKeysWithValues: zip(sorted, statuses))
    }
}

extension TokenTable {
    /// The lookup for one partition. It runs all its queries itself, so that each of them belongs to the caller's
    /// transaction. A forecast, of which nothing follows, goes on without marks that the account does not see.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; `permission` where marks stand in a table
    ///   that the account does not see, but for a forecast; any failure of a query.
    package func tokenStatuses(
        in partition: Partition, forecasting: Bool = false
    ) throws(StoreFailure) -> TokenStatusLookup {
        let readsMarks =
            try forecasting
            ? canReadTokenMarks() : decidesByTokenMarks(to: "looking for the marks of tokens")
        return TokenStatusLookup(
            lookup: try RowLookup(layout(), connection, partition, wholeRows: false),
            tokenMarks: readsMarks
                ? InvalidTokenTable(partition: partition, connection: connection) : nil)
    }
}

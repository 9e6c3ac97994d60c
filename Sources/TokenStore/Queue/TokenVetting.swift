import APNsProtocol
import TokenHygiene

/// Asks the token table which tokens may be sent to. Reads only.
struct TokenVetting {
    let lookup: RowLookup
    let partition: Partition
    /// Whether marks stand in the side table.
    let readsSideMarks: Bool
    let dialect: SQLDialect

    /// Why tokens are not to be sent to; those that are not named may be.
    func refusals(
        _ tokens: [DeviceToken], _ connection: any SQLConnection
    ) throws(SQLFailure) -> [DeviceToken: SkipReason] {
        guard !tokens.isEmpty else { return [:] }
        let sorted = Set(tokens).sorted()
        let time = EpochMilliseconds(0)
        let asked = sorted.map { TokenEvidence(token: $0, time: time) }
        let rows = try lookup.rows(for: asked[...], connection, locking: false).rows
        var marks: [DeviceToken: EpochMilliseconds] = [:]
        if readsSideMarks && !rows.isEmpty {
            marks = try SideMarks(
                partition: partition, source: .feedback, dialect: dialect
            ).marks(on: Set(rows.map { sorted[$0.evidence] }).sorted(), connection, locking: false)
        }
        var isLive = [Bool?](repeating: nil, count: sorted.count)
        // A token that several rows have is sent to if one of them is alive.
        for row in rows where isLive[row.evidence] != true {
            let registered = RegisteredToken(
                registeredAt: row.registeredAt,
                invalidatedAt: row.mark ?? marks[sorted[row.evidence]])
            isLive[row.evidence] = !registered.isStale
        }
        var refusals: [DeviceToken: SkipReason] = [:]
        for (token, isLive) in zip(sorted, isLive) where isLive != true {
            refusals[token] = isLive == nil ? .unknown : .stale
        }
        return refusals
    }
}

import APNsProtocol
import Database
import TokenHygiene

/// Whether a token may be sent to, by the rows of the token table.
package enum TokenStanding: Hashable, Sendable {
    /// A row has it, without a mark or with a later registration.
    case living
    /// Every row that has it is marked, without a later registration.
    case stale
    /// No row has it for this app and environment.
    case unknown
}

/// Looks up which tokens of a partition may be sent to. Reads only.
package struct TokenStandings {
    private let lookup: RowLookup
    private let partition: Partition
    /// Whether marks are in the side table.
    private let readsSideMarks: Bool
    private let dialect: SQLDialect

    fileprivate init(
        _ lookup: RowLookup, _ partition: Partition, readsSideMarks: Bool, _ dialect: SQLDialect
    ) {
        self.lookup = lookup
        self.partition = partition
        self.readsSideMarks = readsSideMarks
        self.dialect = dialect
    }

    /// The standing of each token, in the order of `tokens`.
    ///
    /// - Throws: any failure of reading.
    package func standings(
        of tokens: [DeviceToken], _ connection: any SQLConnection
    ) throws(SQLFailure) -> [DeviceToken: TokenStanding] {
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
        var standings = [TokenStanding](repeating: .unknown, count: sorted.count)
        // A token in several rows may be sent to if one of them is living.
        for row in rows where standings[row.evidence] != .living {
            let registered = RegisteredToken(
                registeredAt: row.registeredAt,
                invalidatedAt: row.mark ?? marks[sorted[row.evidence]])
            standings[row.evidence] = registered.isStale ? .stale : .living
        }
        return Dictionary(uniqueKeysWithValues: zip(sorted, standings))
    }
}

extension TokenTable {
    /// The lookup for one partition.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func standings(in partition: Partition) throws(StoreFailure) -> TokenStandings {
        let layout = try layout()
        return TokenStandings(
            try RowLookup(layout, connection.dialect, partition, wholeRows: false), partition,
            readsSideMarks: try hasSideMarks(in: partition), connection.dialect)
    }
}

// The table is read in ranges of the index over the device, which has to be there: without it each run would sort the
// table. In a range the index alone tells the values that several rows have; these are few, and only their rows are
// read. Statements take other texts for the same as the collation does, so the rows are told apart by their
// bytes here.
//
// Nothing is locked and nothing changed. What is found is evidence, and is judged as any other.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// What a range of devices has.
package struct SupersededRange: Hashable, Sendable {
    /// The superseded tokens, in their order.
    package var tokens: [SupersededToken] = []
    /// Devices with more tokens of one kind than a device can have.
    package var crowded = 0
}

/// Finds the superseded tokens of one partition, range by range. Reads only.
package struct SupersededSearch {
    /// The most rows that one value may have, over all partitions, to be read as those of a device.
    private static let mostRows = 20

    private let table: TokenTable
    private let partition: Partition
    private let layout: TableLayout
    private let columns: SupersededColumns
    private let lookup: RowLookup
    private let ranges: KeyRanges
    /// The places of device and kind among the columns of the lookup.
    private let places: (device: Int, kinds: [Int], user: Int?)
    /// The marks beside the table; nil where they cannot be read.
    private let marks: InvalidTokenTable?
    /// Nil where there are none, or where they cannot be read.
    private let suspects: Suspects?
    private let undone: (([TokenEvidence]) throws(StoreFailure) -> Set<DeviceToken>)?
    /// The registrations that can be true: one in the future would be later than any other.
    private let bounds: EvidenceBounds
    /// By the database's clock.
    private let now: EpochMilliseconds
    /// The end of the last range; nil at the end of the table.
    private var position: [SQLValue]? = []

    private var connection: any SQLConnection { table.connection }

    /// Prepares the search in a partition as the rows name it.
    ///
    /// - Throws: `configuration` where `SupersededColumns` refuses the table; any failure of a query.
    package init(
        _ table: TokenTable, in partition: Partition, span: Int = 10_000
    ) throws(StoreFailure) {
        (self.table, self.partition) = (table, partition)
        layout = try table.layout()
        columns = try table.supersededColumns()
        let user = try table.readableUserColumn(besides: columns.device)
        let lookup = try RowLookup(
            layout, table.connection, partition, wholeRows: false,
            also: [columns.device] + columns.kinds + [user].compactMap { $0 })
        self.lookup = lookup
        ranges = KeyRanges(
            of: columns.device, along: columns.index, layout, table.connection, span: span)
        places = (
            lookup.columns.firstIndex(exactly: columns.device) ?? 0,
            columns.kinds.compactMap { lookup.columns.firstIndex(exactly: $0) },
            user.flatMap { lookup.columns.firstIndex(exactly: $0) }
        )
        marks =
            try table.canReadTokenMarks()
            ? InvalidTokenTable(partition: partition, connection: table.connection) : nil
        let suspects = Suspects(table)
        let areThere = try suspects.visibility() == .readable ? !suspects.isEmpty() : false
        self.suspects = areThere ? suspects : nil
        undone = try table.seesUndos() ? table.undoneTokens(since: EpochMilliseconds(0)) : nil
        now = try table.session.databaseTime()
        bounds = EvidenceBounds(now: now)
    }

    /// What the next devices have; nil at the end of the table.
    ///
    /// - Throws: any failure of a query.
    package mutating func next() throws(StoreFailure) -> SupersededRange? {
        guard let start = position else { return nil }
        let (ranges, name) = (ranges, connection.dialect.quoted(columns.device))
        let (values, end) = try table.retries.retrying("looking for devices in several rows") {
            () throws(SQLFailure) in
            let end = try ranges.end(after: start)
            let values = try ranges.query(
                "\(name), COUNT(*)", in: ranges.condition(after: start, upTo: end), ("", []),
                " GROUP BY \(name) HAVING COUNT(*) > 1")
            try values.require(width: 2)
            return (values, end)
        }
        position = end
        var found = SupersededRange()
        var some: [SQLValue] = []
        var rows = 0
        for row in 0..<values.count where DeviceGroup.device(values[row, 0]) != nil {
            let count = values[row, 1].count ?? 0
            guard count <= Self.mostRows else {
                found.crowded += 1
                continue
            }
            some.append(values[row, 0])
            rows += count
            if some.count == StatementShape.longest || rows > KeyRanges.span {
                try judge(some, into: &found)
                (some, rows) = ([], 0)
            }
        }
        if !some.isEmpty { try judge(some, into: &found) }
        found.tokens.sort { $0.older.token < $1.older.token }
        return found
    }

    /// Reads the rows of some devices and enters what is superseded.
    private func judge(
        _ devices: [SQLValue], into found: inout SupersededRange
    ) throws(StoreFailure) {
        let rows = try table.retries.retrying("reading the rows of devices") {
            () throws(SQLFailure) in
            try living(of: devices)
        }
        let suspected =
            try suspects?.open(among: rows.map(\.row.token), of: partition, withAside: true) ?? []
        let judgement = DeviceJudgement(
            rows, suspects: suspected, areKindsKnown: columns.isKnown)
        found.crowded += judgement.crowded
        let superseded = judgement.superseded.filter { $0.isTried(at: now) }
        guard !superseded.isEmpty else { return }
        let doubtful = try table.retries.retrying("looking up the rows of older tokens") {
            () throws(SQLFailure) in
            try unclear(superseded)
        }
        let takenBack = try undone?(superseded.map(\.evidence)) ?? []
        found.tokens += superseded.filter {
            !doubtful.contains($0.older.token) && !takenBack.contains($0.older.token)
        }
    }

    // MARK: Rows

    /// What a row says of its device.
    private enum Sight {
        case dead
        /// It is living, and its device, kind or registration is not known.
        case unclear
        case living(DeviceRow)
    }

    private func sight(
        _ row: MatchedRow, _ token: DeviceToken, markedAt time: EpochMilliseconds?
    ) -> Sight {
        if row.judged(markedAt: time).isStale { return .dead }
        guard row.obstacle == nil, let registered = row.registeredAt,
            bounds.rejection(of: registered) == nil,
            let device = DeviceGroup.device(row[places.device]),
            let kind = kind(of: row)
        else { return .unclear }
        let key = LedgerKey(lookup.name(of: row), of: token)
        return .living(
            DeviceRow(
                group: DeviceGroup(device: device, kind: kind),
                row: RegisteredRow(key: key, token: token, registered: registered),
                user: places.user.flatMap { DeviceGroup.bytes(row[$0]) }))
    }

    /// The kind in a row; nil where the row does not say it.
    private func kind(of row: MatchedRow) -> [UInt8]? {
        if columns.isKnown { return places.kinds.first.flatMap { DeviceGroup.bytes(row[$0]) } }
        return places.kinds.flatMap { (DeviceGroup.bytes(row[$0]) ?? []) + [0xFF] }
    }

    /// The living rows of the partition that have one of some values as their device.
    private func living(of devices: [SQLValue]) throws(SQLFailure) -> [DeviceRow] {
        let padded = StatementShape.padded(devices)
        let name = connection.dialect.quoted(columns.device)
        let rows = try connection.query(
            "SELECT \(lookup.selected) FROM \(ranges.source) WHERE \(name) IN "
                + "(\(placeholders(padded.count)))\(lookup.condition.sql)",
            padded + lookup.condition.values)
        try rows.require(width: lookup.width)
        var matched: [(row: MatchedRow, token: DeviceToken)] = []
        for place in 0..<rows.count {
            let values = rows.row(place)
            guard let token = layout.token.token(values[values.startIndex + lookup.token]),
                let row = lookup.match(values, evidence: 0)
            else { continue }
            matched.append((row, token))
        }
        let marks = try self.marks?.marks(
            on: Set(matched.map(\.token)).sorted(), locking: false)
        return matched.compactMap { row, token in
            guard case .living(let seen) = sight(row, token, markedAt: marks?[token]?.time) else {
                return nil
            }
            return seen
        }
    }

    /// The older tokens that a living row of the partition has which is not of the same device and kind: evidence
    /// reaches all rows of a token.
    private func unclear(_ found: [SupersededToken]) throws(SQLFailure) -> Set<DeviceToken> {
        var groups: [DeviceToken: Set<DeviceGroup>] = [:]
        for each in found { groups[each.older.token, default: []].insert(each.group) }
        var unclear = Set(groups.filter { $0.value.count > 1 }.keys)
        let evidence = groups.keys.sorted().map {
            TokenEvidence(token: $0, time: EpochMilliseconds(0))
        }
        let rows = try lookup.rows(for: evidence[...], locking: false).rows
        let marks = try self.marks?.marks(of: rows, in: evidence[...], locking: false) ?? [:]
        for row in rows {
            let token = evidence[row.evidence].token
            switch sight(row, token, markedAt: marks[token]?.time) {
            case .dead: continue
            case .living(let other) where groups[token]?.contains(other.group) == true: continue
            case .living, .unclear: unclear.insert(token)
            }
        }
        return unclear
    }
}

/// The columns and the index by which superseded tokens are found.
struct SupersededColumns: Hashable, Sendable {
    let device: String
    /// The column of the kind; where the settings say that all tokens are of one, those that may tell another tale.
    let kinds: [String]
    /// Whether the settings name it.
    let isKnown: Bool
    /// The index that begins with the device.
    let index: String
}

extension TokenTable {
    /// What finds the superseded tokens.
    ///
    /// - Throws: `configuration` where the settings name no device, say nothing of the kind or have no registration, and
    ///   where no index begins with the device; any failure of reading the layout.
    func supersededColumns() throws(StoreFailure) -> SupersededColumns {
        let layout = try layout()
        func refusal(_ reason: String) -> StoreFailure {
            StoreFailure(
                .configuration,
                "preparing the search for superseded tokens in \(layout.table): \(reason)")
        }
        guard let device = layout.device else {
            throw refusal(
                "no column names the device; name one under store.active-users.device.column")
        }
        guard layout.registration != nil else {
            throw refusal(
                "no column has the time of the registration, by which the older of two tokens is known; name "
                    + "one under store.active-users.registered-at.column")
        }
        guard settings.mapping.kind != nil else {
            throw refusal(
                "it is not said whether tokens are of several kinds, such as alert and voip; name the column "
                    + "under store.active-users.kind.column, or write `none` if all are of one kind"
            )
        }
        let index = try catalogTable().index(onToken: device)
        guard let index else {
            let dialect = connection.dialect
            throw refusal(
                "no index begins with column \(device), so each run would sort the whole table; run "
                    + "CREATE INDEX \(dialect.quoted("\(layout.table.name)_\(device)")) ON "
                    + "\(layout.table.sql(dialect)) (\(dialect.quoted(device)))")
        }
        let kinds: [String]
        if let kind = layout.kind { kinds = [kind] } else { kinds = try kindsBesides(layout) }
        return SupersededColumns(
            device: device, kinds: kinds, isKnown: layout.kind != nil, index: index.name)
    }

    /// Columns of texts that may tell kinds of tokens where the settings say that all are of one, as far as the account
    /// sees them: tokens of a device whose values differ there supersede no others.
    private func kindsBesides(_ layout: TableLayout) throws(StoreFailure) -> [String] {
        let used = Set((layout.usedColumns + layout.deviceColumns).map { $0.lowercased() })
        let words = ["kind", "type", "channel", "push", "topic", "voip", "service", "purpose"]
        return try catalogTable().columns.filter(\.isText).map(\.name).filter { name in
            !used.contains(name.lowercased()) && words.contains(where: name.lowercased().contains)
        }
    }

    /// The column of users, where there is one besides that of the device and the account may read it.
    fileprivate func readableUserColumn(besides device: String) throws(StoreFailure) -> String? {
        guard let user = try userColumn()?.name, user.lowercased() != device.lowercased() else {
            return nil
        }
        let (name, table) = (connection.dialect.quoted(user), try layout().table)
        do {
            return try retries.retrying("looking for the users of \(table)") {
                () throws(SQLFailure) in
                _ = try connection.query(
                    "SELECT \(name) FROM \(table.sql(connection.dialect)) WHERE 1 = 0")
                return user
            }
        } catch {
            guard error.code == .permission else { throw error }
            return nil
        }
    }

    /// Refuses `policy.superseded: mark` where the table does not allow the search.
    ///
    /// - Throws: `configuration` as the search does; any failure of reading the layout.
    package func requireSuperseded() throws(StoreFailure) { _ = try supersededColumns() }
}

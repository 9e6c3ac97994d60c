// The entries of the ledger about one token. The ledger's key begins with the run, and it names rows
// by their keys, so without another index an entry is found only by reading all entries. An index
// over row keys would have up to 2,048 characters, and would not find a row that was deleted, whose
// key nobody knows any more. So the ledger has an index over the token, which every entry repeats
// for followers. An entry about a row that is gone is found like any other.
//
// The price is one index entry for each changed row. Evidence is applied in the order of tokens, so
// the index entries of a feed are written in their order too; docs/decisions.md has the figures. An
// older ledger gets the index with `schema apply`. Until then all entries are read, and the result
// says so. Entries of versions before `token` existed cannot be found; the result says that too.

import APNsProtocol
import Database
import TokenHygiene

/// What an entry of the ledger says about a row before or after its change.
package struct RowStanding: Hashable, Sendable {
    /// Whether the row, or the mark beside the table, existed.
    package let exists: Bool
    /// The time of the mark.
    package var mark: EpochMilliseconds?
    /// The reason of the mark.
    package var reason: String?
    /// What the column of two values said.
    package var isDead: Bool?
    /// The registration, where the entry has the whole row.
    package var registeredAt: EpochMilliseconds?
}

/// One entry of the ledger about a token.
package struct TokenChange: Hashable, Sendable {
    /// The run that made the change.
    package let run: String
    /// The feed behind it; the run itself for an undo.
    package let feed: String
    /// What was done, as the ledger names it: `mark`, `advance`, `delete`, `side-mark`, `insert`,
    /// `restore`, `side-restore`, or `refused`.
    package let action: String
    /// The row's key.
    package let key: LedgerKey
    /// The app, by the table's value, and the environment; nil where the checkpoint is gone.
    package var partition: Partition?
    /// Whether a person released the feed.
    package var isReleased = false
    /// The source of the feed: `feedback`, a reason of APNs, `delete-after` or `undo`.
    package let source: String
    /// The reason of the mark, as the row's reason column has it; nil for the change of an undo.
    package let reason: String?
    /// The time of the evidence.
    package let evidence: EpochMilliseconds?
    /// The time of the change by the database's clock.
    package let changed: EpochMilliseconds?
    /// The state before; nil where the entry does not say.
    package let before: RowStanding?
    /// The state after; nil where the entry does not say.
    package let after: RowStanding?
    /// Why the row stayed as it was, in one word; nil for a change.
    package let refusal: String?
}

/// What was found, with the limits that were reached.
package struct ChangesFound: Hashable, Sendable {
    /// The entries, the latest first.
    package var changes: [TokenChange] = []
    /// Whether there are more than were read.
    package var isCut = false
}

extension TokenHistory {
    /// The most entries of the ledger that are read for a token.
    package static let mostChanges = 500
    /// The most characters of a before-image that are read. A longer one tells no details.
    private static let longestImage = 65_536
    private static let changeColumns =
        "run, feed, part, action, row_key, evidence_at, source, changed_at"

    /// Whether the ledger has the index over its tokens.
    ///
    /// - Throws: any failure of a query.
    package func ledgerHasIndex() throws(StoreFailure) -> Bool {
        try table.retries.retrying("reading the schema") { () throws(SQLFailure) in
            try Catalog(connection: connection).table(
                TableName(name: PushsweepTable.change.name))?.index(onToken: "token") != nil
        }
    }

    /// Whether the ledger has entries of versions that did not repeat the token. Call it only with
    /// the index, without which it reads all entries.
    ///
    /// - Throws: any failure of the query.
    package func ledgerHasNamelessEntries() throws(StoreFailure) -> Bool {
        try table.retries.retrying("looking for old entries of the ledger") {
            () throws(SQLFailure) in
            try connection.query(
                "SELECT 1 FROM pushsweep_change WHERE token IS NULL AND seq >= 0 LIMIT 1"
            ).count > 0
        }
    }

    /// The entries of the ledger about a token, the latest first, at most `mostChanges`. Their
    /// partitions come from the checkpoints, where `readsFeeds`.
    ///
    /// - Throws: any failure of a query.
    package func changes(
        of token: DeviceToken, readsFeeds: Bool
    ) throws(StoreFailure) -> ChangesFound {
        guard token.count <= InvalidTokenTable.longestToken else { return ChangesFound() }
        return try table.retries.retrying("reading the changes of a token") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(Self.changeColumns), SUBSTR(before_image, 1, \(Self.longestImage)) "
                    + "FROM pushsweep_change WHERE token = ? ORDER BY changed_at DESC, seq DESC "
                    + "LIMIT \(Self.mostChanges + 1)", [.bytes(token.bytes)])
            try rows.require(width: 9)
            let places = min(rows.count, Self.mostChanges)
            let feeds =
                readsFeeds
                ? try checkpoints(of: Set((0..<places).compactMap { rows[$0, 1].text })) : [:]
            let changes = (0..<places).map { place in
                let values = Array(rows.row(place))
                return change(
                    values, token, feeds["\(values[1].text ?? "") \(values[2].count ?? 0)"])
            }
            return ChangesFound(changes: changes, isCut: rows.count > Self.mostChanges)
        }
    }

    private typealias Checkpoint = (partition: Partition, isReleased: Bool, source: String)

    /// The checkpoints of feeds, by feed and part.
    private func checkpoints(of feeds: Set<String>) throws(SQLFailure) -> [String: Checkpoint] {
        var found: [String: Checkpoint] = [:]
        for run in feeds.sorted().runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map(SQLValue.text))
            let rows = try connection.query(
                "SELECT feed, part, app, environment, released, source FROM pushsweep_feed "
                    + "WHERE feed IN (\(placeholders(values.count)))", values)
            for row in 0..<rows.count {
                found["\(rows[row, 0].text ?? "") \(rows[row, 1].count ?? 0)"] = (
                    Partition(app: rows[row, 2].text ?? "", environment: rows[row, 3].text ?? ""),
                    rows[row, 4].count == 1, rows[row, 5].text ?? ""
                )
            }
        }
        return found
    }

    private func change(
        _ values: [SQLValue], _ token: DeviceToken, _ checkpoint: Checkpoint?
    ) -> TokenChange {
        let time = dialect.ownTime("changed_at")
        let (action, image) = (values[3].text ?? "", values[8].text)
        let evidence = time.mark(values[5])
        let source = values[6].text ?? ""
        let entry = UndoEntry(
            group: 0, sequence: 0, action: action, time: evidence ?? EpochMilliseconds(0),
            changed: nil, source: source, hasImage: image != nil)
        let images = ChangeImages(entry, image: image, layout)
        let isRefused = action == ChangeLedger.refused
        return TokenChange(
            run: values[0].text ?? "", feed: values[1].text ?? "", action: action,
            key: LedgerKey(values[4].text ?? "", of: token), partition: checkpoint?.partition,
            isReleased: checkpoint?.isReleased ?? false, source: checkpoint?.source ?? source,
            reason: source == "undo" ? nil : source, evidence: evidence,
            changed: time.mark(values[7]), before: images.map { standing($0.before) },
            after: images.map { standing($0.after) },
            refusal: isRefused
                ? image.flatMap(RowImageReader.content)?["refused"]?.text ?? "refused" : nil)
    }

    /// What a content says; nil stands for no row.
    private func standing(_ content: RowContent?) -> RowStanding {
        guard let content else { return RowStanding(exists: false) }
        var standing = RowStanding(exists: true)
        if let beside = content.tokenMark, layout.mark == nil {
            (standing.mark, standing.reason) = (beside.time, beside.reason)
        }
        if let column = layout.mark, let value = content[column.name] {
            standing.mark = column.mark(column.asRead(value))
        }
        if let name = layout.reason { standing.reason = content[name]?.text }
        if let living = layout.living { standing.isDead = content[living.name].map(living.isDead) }
        let registered = RowLookup.registration(content, layout)
        standing.registeredAt = registered?.rawValue == .max ? nil : registered
        return standing
    }

    // MARK: Runs

    /// The records of runs, by their names, and the names of the hosts of at most ten thousand runs.
    ///
    /// - Throws: any failure of a query.
    package func runs(
        _ names: Set<String>
    ) throws(StoreFailure) -> (runs: [String: RunRecord], hosts: [String]) {
        let time = dialect.ownTime("started")
        return try table.retries.retrying("reading the records of runs") {
            () throws(SQLFailure) in
            var found: [String: RunRecord] = [:]
            for run in names.sorted().runs(of: StatementShape.longest) {
                let values = StatementShape.padded(run.map(SQLValue.text))
                let rows = try connection.query(
                    "SELECT id, kind, started, ended, host, operator FROM pushsweep_run "
                        + "WHERE id IN (\(placeholders(values.count)))", values)
                for row in 0..<rows.count {
                    let id = rows[row, 0].text ?? ""
                    found[id] = RunRecord(
                        id: id, kind: rows[row, 1].text ?? "",
                        started: time.mark(rows[row, 2]) ?? EpochMilliseconds(0),
                        ended: time.mark(rows[row, 3]), host: rows[row, 4].text ?? "",
                        operator: rows[row, 5].text)
                }
            }
            let hosts = try connection.query(
                "SELECT DISTINCT host FROM (SELECT host FROM pushsweep_run LIMIT 10000) AS some")
            return (found, (0..<hosts.count).compactMap { hosts[$0, 0].text }.sorted())
        }
    }
}

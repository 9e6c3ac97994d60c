import Database
import Findings
import TokenHygiene
import TokenTable

// Sending cannot be undone, so everything that can be checked about the queue's table is checked
// before the first claim, with statements that change nothing. The token table's needs are examined
// separately (`examine`), because a sender applies evidence too.

extension TokenTable {
    /// Examines the queue for a use and throws the first finding that forbids it. `partitions` are
    /// those whose rows the run will send.
    ///
    /// - Throws: `permission`, `configuration` or `readOnly` as found; any failure of the
    ///   examination's own queries.
    @discardableResult
    package func requireQueue(
        _ need: QueueUse, partitions: [Partition]
    ) throws(StoreFailure) -> [Finding] {
        let findings = try examineQueue(need, partitions: partitions)
        if let failure = findings.refusal { throw failure }
        return findings
    }

    /// Examines the queue for a use and reports all findings. Reads no rows, so the cost does not
    /// depend on the queue's length.
    ///
    /// - Throws: only if the database cannot be queried.
    package func examineQueue(
        _ need: QueueUse, partitions: [Partition]
    ) throws(StoreFailure) -> [Finding] {
        let layout: QueueLayout
        var findings: [Finding]
        do {
            layout = try queueLayout()
            for partition in partitions {
                _ = try layout.selection(of: partition)
            }
            let table = try queueTable()
            findings =
                QueueExamination(
                    layout: layout, table: table, dialect: connection.dialect,
                    longestToken: settings.mapping.longestToken, partitions: partitions
                ).findings
            if need != .history { findings += try hiddenOptions(table) }
            if need != .preview {
                findings += [Self.engineFinding(table), Self.remoteFinding(table)].compactMap { $0 }
            }
        } catch {
            guard error.code == .configuration || error.code == .permission else { throw error }
            return [Finding(error)]
        }
        if need == .send {
            findings += try triggerFindings(layout)
            findings += try missingTables(
                PushsweepTable.queueTables.filter { $0 != .delivery || !layout.delivery.isInRow })
            if layout.delivery.isInRow { findings += try leftResults(layout) }
        }
        let isUsable = !findings.contains { $0.failure?.code == .configuration }
        guard isUsable, case .server(let server) = settings.location else { return findings }
        if need == .preview { findings += try hiddenTables(layout) }
        let plan = try queueRights(need, layout, server)
        return findings + (try rightsFindings(plan, session.describe().account ?? server.user))
    }

    /// Refuses an account from which columns of a notification's options are hidden: a row that names a push type, a
    /// priority or an end would be sent as if it named none.
    private func hiddenOptions(_ table: CatalogTable) throws(StoreFailure) -> [Finding] {
        let queue = settings.queue
        let hidden = try withHidden(
            [queue.pushType, queue.priority, queue.expiration, queue.collapseID], of: table
        ).hidden.sorted()
        guard !hidden.isEmpty,
            let grant = try session.grant({ $0.reading(hidden, of: table.name) })
        else { return [] }
        return [
            .failure(
                .permission,
                "the account may not read \(hidden.joined(separator: ", ")) of \(table.name), and rows would be sent "
                    + "as if they had none; run \(grant), or set each under store.push-queue to `none`"
            )
        ]
    }

    /// Refuses triggers that may set a column of results back: its rows would be sent again without end. So
    /// an account that may not see triggers is refused too.
    private func triggerFindings(_ layout: QueueLayout) throws(StoreFailure) -> [Finding] {
        let written = layout.writtenColumns
        guard !written.isEmpty else { return [] }
        let table = layout.table
        let (triggers, seesAll) = try retries.retrying("reading the triggers of \(table)") {
            () throws(SQLFailure) in
            let catalog = Catalog(connection: connection)
            let found = try catalog.triggers(of: table)
            return (found, found.isEmpty ? try catalog.seesTriggers(of: table) : true)
        }
        if !seesAll { return try hiddenTriggersFinding(table) }
        return triggers.compactMap { trigger in
            guard let column = written.first(where: { trigger.mayWrite([$0]) }) else { return nil }
            return .failure(
                .configuration,
                "trigger \(trigger.name) of \(table) may write column \(column), where results of sending are "
                    + "kept, so a row that was sent could be sent again; drop it, or name another column "
                    + "under store.push-queue")
        }
    }

    /// Refuses a queue that got columns for the state of its rows, while its earlier results are in the side
    /// table: rows that were ended there would be sent again.
    private func leftResults(_ layout: QueueLayout) throws(StoreFailure) -> [Finding] {
        let name = try queueTable().canonicalName
        let dialect = connection.dialect
        let isLeft: Bool
        do {
            isLeft = try retries.retrying("looking for results of \(name) in pushsweep_delivery") {
                () throws(SQLFailure) in
                guard
                    try Catalog(connection: connection).table(
                        TableName(name: PushsweepTable.delivery.name)) != nil
                else { return false }
                return try connection.query(
                    "SELECT 1 FROM pushsweep_delivery WHERE queue = ? LIMIT 1", [.text(name)]
                ).count > 0
            }
        } catch {
            // An account without rights on the table has never used it.
            guard error.code == .permission else { throw error }
            return []
        }
        guard isLeft else { return [] }
        let copied = layout.delivery.named.map { setting, name in
            "q.\(dialect.quoted(name)) = d.\(setting.replacing("-", with: "_"))"
        }.joined(separator: ", ")
        let table = layout.table.sql(dialect)
        let text = dialect.literal(name)
        return [
            .failure(
                .configuration,
                "\(layout.table) has columns for the state of its rows, and pushsweep_delivery still has "
                    + "results of earlier ones, so rows that were ended would be sent again; while no sender "
                    + "runs, carry them over in the form of your columns, such as UPDATE \(table) q JOIN "
                    + "pushsweep_delivery d ON d.queue = \(text) AND d.queue_key = "
                    + "q.\(dialect.quoted(layout.key)) SET \(copied); then DELETE FROM pushsweep_delivery "
                    + "WHERE queue = \(text)")
        ]
    }

    /// The exact GRANT statements that an account (`name` or `name@host`) needs for a use of the
    /// queue, without closing semicolons. Sending also needs those of `grants(for:user:)`, because
    /// a sender looks tokens up and applies evidence. Without `user` the statements are for the
    /// account of this connection. Empty for SQLite, where the file's mode decides.
    ///
    /// - Throws: `configuration` if the tables do not fit the settings.
    package func queueGrants(
        for need: QueueUse, user: String? = nil
    ) throws(StoreFailure) -> [String] {
        guard case .server(let server) = settings.location else { return [] }
        let account: String
        if let user {
            account = user
        } else {
            account = try session.describe().account ?? server.user
        }
        return try queueRights(need, queueLayout(), server).grants(to: account)
    }

    private func queueRights(
        _ need: QueueUse, _ layout: QueueLayout, _ server: StoreLocation.Server
    ) throws(StoreFailure) -> RequiredPrivileges {
        // A dry run on a database without side tables does not need them.
        let visible =
            need == .preview ? try previewTables(layout).filter { $0.visibility == .readable } : []
        return RequiredPrivileges(
            need, layout, connection.dialect, database: server.database,
            visible: visible.map(\.table), showsTriggers: try session.describe().showsTriggers)
    }

    /// The side tables that a preview reads where the account may.
    private func previewTables(
        _ layout: QueueLayout
    ) throws(StoreFailure) -> [(table: PushsweepTable, visibility: TableVisibility)] {
        let tables = layout.delivery.isInRow ? [PushsweepTable.claim] : [.claim, .delivery]
        var seen: [(PushsweepTable, TableVisibility)] = []
        for table in tables {
            seen.append(
                (
                    table,
                    try session.visibility(
                        of: table.name, table.columns.map(\.name).joined(separator: ", "))
                ))
        }
        return seen
    }

    /// The tables that a preview cannot read because the account may not. Some servers give the
    /// same answer where the table does not exist.
    private func hiddenTables(_ layout: QueueLayout) throws(StoreFailure) -> [Finding] {
        var findings: [Finding] = []
        for (table, visibility) in try previewTables(layout) where visibility == .hidden {
            let grant = try session.grant { $0.sideTable(table, .read) } ?? ""
            findings.append(
                .warning(
                    "queue-claims-not-seen",
                    "the account may not read \(table.name), so rows that senders hold or have "
                        + "finished may be counted as due; if the table exists, run "
                        + grant))
        }
        return findings
    }
}

/// Checks a resolved queue for conditions that lose notifications or have unexpected effects.
struct QueueExamination {
    let layout: QueueLayout
    let table: CatalogTable
    let dialect: SQLDialect
    /// Bytes of the longest token that the queue is expected to hold.
    let longestToken: Int
    let partitions: [Partition]

    var findings: [Finding] {
        [summary]
            + [openIndex, tokenRoom, payloadRoom, sharedRows, environmentDefault].compactMap { $0 }
    }

    private var summary: Finding {
        let options = layout.options
        let parts = [
            "key \(layout.key)", "token \(layout.token.name) (\(layout.token.encoding.rawValue))",
            "payload \(layout.payload)", "app \(layout.app?.name ?? "none")",
            "environment \(layout.environment?.name ?? "none")",
            "options \(options.names.isEmpty ? "none" : options.names.joined(separator: " "))",
            "sent \(layout.sentAt?.name ?? "none")",
            "state \(layout.delivery.isInRow ? "in the row" : "in pushsweep_delivery")",
        ]
        return .ok("table \(layout.table): \(parts.joined(separator: ", "))")
    }

    private var openIndex: Finding? {
        guard layout.openIndex == nil else { return nil }
        let closing = layout.delivery.isInRow ? layout.delivery.answeredAt : layout.sentAt
        guard let closing else {
            return .warning(
                "no-index",
                "\(layout.table) has no column for the time of sending, so every run reads all rows "
                    + "it ever had; delete rows that are done, or name a column under "
                    + "store.push-queue.sent-at")
        }
        return .warning(
            "no-index",
            "column \(closing.name) of \(layout.table) has no index, so every run reads all rows that "
                + "are done to find those that are not; `pushsweep schema apply --upgrade` adds one"
        )
    }

    private var tokenRoom: Finding? {
        guard let length = table.column(layout.token.name)?.length else { return nil }
        let bytes = layout.token.encoding == .hex ? length / 2 : length
        guard bytes < longestToken else { return nil }
        return .warning(
            "narrow-column",
            "column \(layout.token.name) of \(layout.table) has room for tokens of \(bytes) bytes, and "
                + "tokens may have \(longestToken): notifications to longer ones cannot be queued; "
                + "widen it")
    }

    private var payloadRoom: Finding? {
        guard let length = table.column(layout.payload)?.length, length < 4_096 else { return nil }
        return .warning(
            "narrow-column",
            "column \(layout.payload) of \(layout.table) has room for payloads of \(length) "
                + (layout.payloadIsBinary ? "bytes" : "characters")
                + ", and APNs takes 4096 bytes (5120 for VoIP): longer ones cannot be queued; widen it"
        )
    }

    /// A default that is the word of no environment: rows inserted without one would never be sent.
    private var environmentDefault: Finding? {
        guard let column = layout.environment,
            let usual = table.column(column.name)?.constantDefault
        else { return nil }
        let words = partitions.compactMap { try? column.value(for: $0.environment) }.map {
            $0.text ?? $0.integer.map(String.init) ?? ""
        }
        guard let word = words.first,
            !words.contains(where: { Array($0.utf8) == Array(usual.utf8) })
        else { return nil }
        let dialect = dialect
        let cure =
            dialect.engine == .sqlite
            ? "name '\(word)' in each INSERT, or make the table anew with that default"
            : "ALTER TABLE \(layout.table.sql(dialect)) ALTER COLUMN \(dialect.quoted(column.name)) "
                + "SET DEFAULT \(column.isInteger ? word : dialect.literal(word))"
        return .warning(
            "queue-default-state",
            "column \(column.name) of \(layout.table) is '\(usual)' in a row that is inserted without it, "
                + "and the settings look for \(words.map { "'\($0)'" }.joined(separator: " and ")), so "
                + "nothing would send such a row; \(cure)")
    }

    /// Without an app column every app would claim every row.
    private var sharedRows: Finding? {
        let apps = Set(partitions.map(\.app))
        let environments = Set(partitions.map(\.environment))
        let isShared =
            layout.app == nil && apps.count > 1
            || layout.environment == nil && environments.count > 1
        guard isShared else { return nil }
        return .failure(
            .configuration,
            "\(layout.table) does not show which of \(partitions.count) apps a notification is for; "
                + "name the columns under store.push-queue.app and environment, or send one app "
                + "only (--app)")
    }
}

/// The use of the queue, which decides the rights it needs.
package enum QueueUse: Hashable, Sendable {
    /// Reading only, for dry runs. SELECT is enough.
    case preview
    /// Claiming rows and writing results.
    case send
    /// Explaining the rows with a token.
    case history
}

extension RequiredPrivileges {
    /// The rights that a use of the queue needs. `database` holds the tables without a qualified
    /// name. `visible` are the side tables that a preview reads. `showsTriggers` states whether the
    /// server shows triggers without a right of their own.
    init(
        _ need: QueueUse, _ layout: QueueLayout, _ dialect: SQLDialect, database: String,
        visible: [PushsweepTable] = [], showsTriggers: Bool = true
    ) {
        let maker = PrivilegeMaker(database, dialect)
        let delivery = layout.delivery
        let written = layout.writtenColumns
        let partition = [layout.app?.name, layout.environment?.name].compactMap { $0 }
        let queuedAt = [layout.queuedAt?.name].compactMap { $0 }
        // The layout of a queue is not known without the column of the payload.
        let read =
            [layout.key, layout.token.name, layout.payload] + partition
            + (need == .history ? queuedAt : layout.options.names)
        var rights = [maker.reading(read + written, of: layout.table)]
        switch need {
        case .preview: rights += visible.map { maker.sideTable($0, .read) }
        case .history:
            rights.append(maker.sideTable(.claim, .read))
            if !delivery.isInRow { rights.append(maker.sideTable(.delivery, .read)) }
        case .send:
            if !written.isEmpty {
                rights.append(
                    maker.updating(written, of: layout.table, purpose: "write results to"))
                if !showsTriggers { rights.append(maker.seeingTriggers(of: layout.table)) }
            }
            rights += [
                maker.sideTable(.queue, .change), maker.sideTable(.claim, .change),
                maker.deleting(from: .claim),
            ]
            if !delivery.isInRow { rights.append(maker.sideTable(.delivery, .change)) }
        }
        self.init(rights: rights)
    }

    /// The right to find the tokens of a user.
    static func users(
        _ column: String, of table: TableName, database: String
    ) -> RequiredPrivileges {
        RequiredPrivileges(rights: [
            PrivilegeMaker(database, .mariaDB).reading([column], of: table)
        ])
    }
}

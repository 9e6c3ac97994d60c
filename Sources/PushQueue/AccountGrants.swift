// The statements that make an account and give it its rights. They are needed before the account
// exists, so they must not depend on what it may read. Where the tables can be read their columns
// count, else those of the settings, in a table as `schema print` shows it.
//
// A database client stops at the first statement that fails, and a grant on a table that is missing
// fails. So the jobs of a queue are named only where there is one or the settings want one, and after
// those of the token table.

import Database
import Findings
import TokenHygiene
import TokenTable

/// The statements for an account of the token database, one list for each job.
package struct AccountGrants {
    /// The account, `name` or `name@host`.
    package let account: String
    /// Why columns come from the settings; nil where they come from the tables themselves.
    package private(set) var reason: String?
    /// The jobs with their statements in order, without closing semicolons.
    package private(set) var jobs: [(name: String, statements: [String])] = []

    private let settings: StoreSettings
    private let database: String
    /// Whether the server shows triggers without a right; false where it is not known.
    private let showsTriggers: Bool

    /// Makes the statements for `user`, or for the account of the settings. Nil for SQLite, where
    /// the file's mode decides. `asked` gives the further columns that `check` asks about.
    ///
    /// - Throws: `configuration` where the settings contradict themselves.
    package init?(
        _ settings: StoreSettings, _ policy: RemovalPolicy, user: String?,
        asking asked: (TokenTable) -> Set<String> = { _ in [] }
    ) throws(StoreFailure) {
        guard case .server(let server) = settings.location else { return nil }
        account = user ?? server.user
        self.settings = settings
        database = server.database
        var store: TokenTable?
        let tokens: TableLayout
        do {
            let opened = try TokenTable(settings, pacing: Pacing(patience: 0))
            tokens = try opened.layout()
            store = opened
        } catch {
            // A mapping that does not fit a table whose columns are all seen would give wrong rights.
            if error.code == .configuration,
                let seen = try? TokenTable(settings, pacing: Pacing(patience: 0)),
                (try? seen.catalogTable()) != nil, (try? seen.ensureSeesAllColumns()) != nil
            {
                throw error
            }
            reason = error.sentence
            tokens = try .planned(settings.mapping)
        }
        showsTriggers = (try? store?.session.describe().showsTriggers) ?? false
        let queue = try queueLayout(store)
        add(
            "an account",
            ["CREATE USER IF NOT EXISTS \(Privilege.account(account)) IDENTIFIED BY 'PASSWORD'"])
        // What other senders reported waits in a table that each sweep decides by.
        add(
            "sweep, import, replay, holds release",
            rights(.apply(policy), tokens)
                + RequiredPrivileges.intake(database: database, .mariaDB).grants(to: account))
        if let store, let column = try store.userColumn()?.name {
            add(
                "explain --user, besides those of sweep",
                RequiredPrivileges.users(column, of: tokens.table, database: database)
                    .grants(to: account))
        }
        addLooks(tokens)
        addQuestions(tokens, store.map(asked) ?? [])
        add("undo", rights(.undo(policy, in: tokens), tokens))
        // A purge finds its table by the layout of the token table.
        add("purge", rights(.read, tokens) + rights(.purge(isDry: false), tokens))
        if let queue {
            add("send, besides those of sweep", rights(.send, queue))
            add(
                "explain, and a dry run of send, for rows of the queue",
                rights(.history, queue) + rights(.preview, queue))
        }
        if let grants = try? store?.session.groupGrants(to: account), !grants.isEmpty {
            add("all jobs, on a member of a replication group", grants)
        }
        if let right = try? store?.session.replicationRight() {
            add(Self.replicaJob, [right.grant(to: account)])
        }
        let tables = [tokens.table, queue?.table].compactMap { $0 }
        add(Self.schemaJob, schemaRights(tables))
    }

    /// The job whose rights an account that only sweeps and sends should not have.
    package static let schemaJob = "schema apply, rather for another account"
    /// The right to see a replication that is stopped. It concerns the whole server, and who grants the
    /// others may not have it.
    package static let replicaJob = "knowing a stopped replica, on MySQL any, optional"

    /// The rights of an account that only looks. What it does not see is a gap, and a gate does not decide without it.
    private mutating func addLooks(_ tokens: TableLayout) {
        let maker = PrivilegeMaker(database, .mariaDB)
        // That of marks is among the rights of reading, where it is needed.
        let sides = PushsweepTable.sideTables.filter { $0 != .invalid }
        add(
            "preflight, audit, explain and dry runs, for an account that only looks",
            rights(.read, tokens) + sides.map { maker.sideTable($0, .read).grant(to: account) })
    }

    /// The rights to see the columns that `check` asks about.
    private mutating func addQuestions(_ tokens: TableLayout, _ asked: Set<String>) {
        if !asked.isEmpty {
            add(
                "check, to see the columns that it asks about",
                [
                    PrivilegeMaker(database, .mariaDB).reading(asked.sorted(), of: tokens.table)
                        .grant(to: account)
                ])
        }
    }

    private mutating func add(_ name: String, _ statements: [String]) {
        jobs.append((name, statements))
    }

    private func rights(_ use: TableUse, _ layout: TableLayout) -> [String] {
        RequiredPrivileges(
            use, layout, .mariaDB, database: database, readsTokenMarks: true,
            showsTriggers: showsTriggers
        ).grants(to: account)
    }

    private func rights(_ use: QueueUse, _ layout: QueueLayout) -> [String] {
        RequiredPrivileges(
            use, layout, .mariaDB, database: database, showsTriggers: showsTriggers
        ).grants(to: account)
    }

    /// The queue as it is, or as the settings describe it where they want one; nil for neither.
    private func queueLayout(_ store: TokenTable?) throws(StoreFailure) -> QueueLayout? {
        if let store, let layout = try? store.queueLayout() { return layout }
        guard settings.wantsQueue else { return nil }
        return try .planned(settings.queue, settings.mapping.environmentValues)
    }

    /// MySQL wants INSERT for ALTER TABLE too.
    private func schemaRights(_ tables: [TableName]) -> [String] {
        let schemas = Set(tables.map { $0.schema ?? database } + [database]).sorted()
        return schemas.map { schema in
            Privilege(
                purpose: "change the schema of",
                privileges: "SELECT, INSERT, CREATE, ALTER, INDEX",
                table: "\(SQLDialect.mariaDB.quoted(schema)).*", probe: ""
            ).grant(to: account)
        }
    }
}

extension QueueLayout {
    /// The layout that a server's queue would have if it was created with the columns of the
    /// settings.
    fileprivate static func planned(
        _ mapping: QueueMapping, _ environmentValues: [String: String]
    ) throws(StoreFailure) -> QueueLayout {
        let time = mapping.timeType?.serverType
        var names = ["device_token": mapping.token, "payload": mapping.payload]
        for (own, column) in mapping.optional { names[own] = column.name }
        names["queued_at"] = mapping.queuedAt?.name
        var types: [String: String] = [:]
        if mapping.encoding == .hex { types["device_token"] = "VARCHAR(200) NOT NULL" }
        for column in ["queued_at", "not_before", "answered_at"] { types[column] = time }
        var added: [(name: String, type: String)] = []
        if case .named(let name) = mapping.sentAt {
            added.append((name, time ?? TimeColumnType.datetime.serverType))
        }
        let table = PushsweepTable.pushQueue.described(
            as: try TableName(mapping.table, setting: "store.push-queue.table"), names: names,
            types: types, adding: added, key: mapping.key.map { [$0] })
        return try QueueResolver(
            mapping: mapping, environmentValues: environmentValues, table: table,
            dialect: .mariaDB
        ).layout()
    }
}

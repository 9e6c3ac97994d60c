import Database
import Findings
import TokenHygiene

// The conditions that have to be known before the first change and do not show in the row: whether
// a rollback undoes changes, whether the binary log accepts them, and how a removal affects other
// rows.

extension TokenTable {
    /// Findings that forbid changing or removing rows of the token table.
    func reachFindings(
        _ layout: TableLayout, _ table: CatalogTable, _ need: TableUse,
        _ partitions: [Partition] = []
    ) throws(StoreFailure) -> [Finding] {
        var findings = try commitFindings(table, need)
        if need.writes { findings += try binaryLogFindings() }
        let reach = try retries.retrying(
            "reading what refers to \(table.name)",
            do: Catalog(connection: connection).reach(of: table.name))
        if need.changesRows(of: layout), !reach.seesTriggers {
            findings += try hiddenTriggersFinding(table.name)
        }
        if need.rows?.marks == true, !layout.markColumns.isEmpty {
            findings += spreadFindings(
                reach, layout.changedByMarks, table, "marking a row of \(table.name)",
                cure: "remove them, or keep marks in pushsweep_invalid: `none` under invalidated-at"
            )
        }
        if need.seesKeys(of: layout), !reach.seesKeys {
            findings += try hiddenKeysFinding(reach, table)
        }
        findings += try foreignTriggerFindings(layout, reach, need, partitions)
        guard need.removesRows else {
            return findings + [triggerWarning(reach, layout)].compactMap { $0 }
        }
        return findings + findingsOfSpread(reach, layout)
    }

    /// Refuses changes of some columns that change rows of other tables: a foreign key refers to one of them.
    private func spreadFindings(
        _ reach: TableReach, _ columns: [String], _ table: CatalogTable, _ doing: String,
        cure: String
    ) -> [Finding] {
        let spreading = reach.keys.filter { $0.spreads(updating: columns) }
        guard !spreading.isEmpty else { return [] }
        let list = Set(spreading.map { "\($0.table) (ON UPDATE \($0.updateRule))" }).sorted()
        return [
            .failure(
                .configuration,
                "\(doing) changes rows of other tables by foreign keys: "
                    + "\(list.joined(separator: ", ")); the change ledger has no copy of that, and undo "
                    + "cannot restore it; \(cure)")
        ]
    }

    /// Refuses a table whose engine keeps the changes of a rolled back transaction.
    package static func engineFinding(_ table: CatalogTable) -> Finding? {
        guard let engine = table.engine, !engine.hasTransactions else { return nil }
        return .failure(
            .configuration,
            "table \(table.name) has the engine \(engine.name), which has no transactions, so rows and "
                + "ledger would not change together; convert it with ALTER TABLE "
                + "\(table.name.sql(.mariaDB)) ENGINE=InnoDB")
    }

    /// Under READ COMMITTED InnoDB refuses every change that the log would store as a statement
    /// (1665).
    private func binaryLogFindings() throws(StoreFailure) -> [Finding] {
        guard connection.dialect.engine == .mariaDB else { return [] }
        let isLogged = try retries.retrying("reading how \(settings.location) logs changes") {
            () throws(SQLFailure) in
            do throws(SQLFailure) {
                let rows = try connection.query("SELECT @@log_bin, @@session.binlog_format")
                return rows[0, 0].count == 1 && rows[0, 1].text?.uppercased() == "STATEMENT"
            } catch {
                // Later versions have neither this variable nor such a log.
                guard error.code == 1_193 else { throw error }
                return false
            }
        }
        guard isLogged else { return [] }
        return [
            .failure(
                .configuration,
                "\(settings.location) writes its binary log by statements (binlog_format=STATEMENT), and "
                    + "refuses changes under READ COMMITTED; set binlog_format to ROW or MIXED")
        ]
    }

    private func findingsOfSpread(_ reach: TableReach, _ layout: TableLayout) -> [Finding] {
        let table = layout.table
        let cure =
            "the change ledger has no copy of that, and undo cannot restore it; set policy.action to "
            + "mark, or remove it"
        var findings: [Finding] = []
        let spreading = reach.keys.filter(\.spreads)
        if !spreading.isEmpty {
            let list = Set(spreading.map { "\($0.table) (ON DELETE \($0.rule))" }).sorted()
            findings.append(
                .failure(
                    .configuration,
                    "removing a row of \(table) changes rows of other tables by foreign keys: "
                        + "\(list.joined(separator: ", ")); \(cure)"))
        }
        let triggers = reach.triggers.filter { $0.event == "DELETE" }
        if !triggers.isEmpty {
            findings.append(
                .failure(
                    .configuration,
                    "removing a row of \(table) runs triggers: "
                        + "\(triggers.map(\.name).sorted().joined(separator: ", ")); \(cure)"))
        }
        let inserting = foreign(reach, "INSERT", layout)
        if !inserting.isEmpty, connection.dialect.engine != .sqlite {
            findings.append(
                .warning(
                    "table-has-triggers",
                    "an undo inserts removed rows of \(table) again, which runs triggers: "
                        + "\(inserting.joined(separator: ", ")); each row is tried before it is removed, "
                        + "and one that would come back otherwise stays and is named"))
        }
        let restricting = Set(reach.keys.filter { !$0.spreads }.map(\.table)).sorted()
        if !restricting.isEmpty {
            findings.append(
                .warning(
                    "referenced-rows",
                    "rows of \(table) that \(restricting.joined(separator: ", ")) refers to cannot be "
                        + "removed; they are left, counted as refused, and named"))
        }
        return findings
    }

    /// Refuses an account that does not see the foreign keys of all tables. A schema that is hidden from it
    /// may be hidden from the administrator who granted its rights, too.
    private func hiddenKeysFinding(
        _ reach: TableReach, _ table: CatalogTable
    ) throws(StoreFailure) -> [Finding] {
        let doing =
            "looking for foreign keys that would spread a change of \(table.name): the account does "
        guard reach.hasWideRight else {
            guard let grant = try session.grant({ _ in RequiredPrivileges.seeingKeys }) else {
                return []
            }
            return [
                .failure(
                    .permission,
                    doing + "not see those of all tables; run \(grant), which lets it see them and "
                        + "change nothing", grant: grant)
            ]
        }
        var findings: [Finding] = []
        for schema in reach.hiddenSchemas {
            let right = RequiredPrivileges.seeingKeys(ofSchema: schema, connection.dialect)
            guard let grant = try session.grant({ _ in right }) else { continue }
            findings.append(
                .failure(
                    .permission,
                    doing
                        + "not see those of schema \(schema.prefix(64)), where its rights were taken "
                        + "away; run \(grant) as an administrator who has that right there",
                    grant: grant))
        }
        return findings
    }

    /// Refuses an account to which the server does not show the triggers of a table.
    package func hiddenTriggersFinding(_ table: TableName) throws(StoreFailure) -> [Finding] {
        guard let grant = try session.grant({ $0.seeingTriggers(of: table) }) else { return [] }
        return [
            .failure(
                .permission,
                "looking for triggers of \(table), which may take a change back or change other rows: "
                    + "this server shows them only to accounts with the right TRIGGER; run \(grant)",
                grant: grant)
        ]
    }

    /// Warnings of triggers of some tables of this program: they may write the token table with every entry, and
    /// no row of a chunk shows it.
    func ownTriggerFindings(_ tables: [PushsweepTable]) throws(StoreFailure) -> [Finding] {
        var findings: [Finding] = []
        for own in tables {
            let triggers = try retries.retrying(
                "reading the triggers of \(own.name)",
                do: Catalog(connection: connection).triggers(of: TableName(name: own.name)))
            guard !triggers.isEmpty else { continue }
            let names = Set(triggers.map(\.name)).sorted().joined(separator: ", ")
            findings.append(
                .warning(
                    "table-has-triggers",
                    "table \(own.name) has triggers (\(names)), and what they write to other tables is in no "
                        + "ledger, so no undo takes it back; a program can follow `pushsweep changes` in their "
                        + "place"))
        }
        return findings
    }

    /// A warning of triggers of a server that run when a row is marked; those that can write it are refused.
    private func triggerWarning(_ reach: TableReach, _ layout: TableLayout) -> Finding? {
        let triggers = foreign(reach, "UPDATE", layout)
        guard !triggers.isEmpty, !layout.markColumns.isEmpty else { return nil }
        return .warning(
            "table-has-triggers",
            "marking a row of \(layout.table) runs triggers: \(triggers.joined(separator: ", ")); what they "
                + "write elsewhere is not undone, and rows they refuse are left and named")
    }

    /// The names of the triggers for an event that are not ours and that no finding refuses.
    private func foreign(_ reach: TableReach, _ event: String, _ layout: TableLayout) -> [String] {
        reach.triggers.filter {
            $0.event == event && !layout.owns($0) && !(event == "UPDATE" && $0.mayWriteTable)
        }.map(\.name).sorted()
    }
}

// A row changes together with its entry in the ledger, the checkpoint of its batch and the lease: one engine
// of one server holds all of them, and it has transactions. Elsewhere two commits follow one another, and a
// crash in between keeps one without the other. That holds for engines that do not roll back (MyISAM), for
// two engines of one server, and for those whose rows are on other servers (Spider, FEDERATED, CONNECT). No
// such table is changed.

extension TokenTable {
    /// The engines whose rows are on other servers, in capitals.
    private static let remote: Set = ["SPIDER", "FEDERATED", "CONNECT"]

    private static func isRemote(_ engine: CatalogEngine) -> Bool {
        remote.contains(engine.name.uppercased())
    }

    /// Findings about the commits of rows and ledger, for a use that changes rows.
    func commitFindings(
        _ table: CatalogTable, _ need: TableUse
    ) throws(StoreFailure) -> [Finding] {
        guard need.writes else { return [] }
        let change = TableName(name: PushsweepTable.change.name)
        let ledger = try retries.retrying(
            "reading the engine of \(change)", do: Catalog(connection: connection).engine(change))
        return [Self.commitFinding(table, ledger: ledger)].compactMap { $0 }
    }

    /// Refuses a table whose rows do not commit together with a ledger of some engine; nil where they do.
    /// An engine is nil where it is not known, and for SQLite.
    static func commitFinding(
        _ table: CatalogTable, ledger: CatalogEngine?
    ) -> Finding? {
        guard let engine = table.engine else { return nil }
        if let finding = engineFinding(table) { return finding }
        let change = PushsweepTable.change.name
        if let ledger, !ledger.hasTransactions || isRemote(ledger) {
            return .failure(
                .configuration,
                "table \(change) has the engine \(ledger.name), which cannot keep the before-images of "
                    + "changes safely; keep the tables of this program on the server itself: ALTER TABLE "
                    + "\(change) ENGINE=InnoDB")
        }
        let isOther = ledger.map { $0.name.uppercased() != engine.name.uppercased() } ?? false
        guard isRemote(engine) || isOther else { return nil }
        return .failure(
            .configuration,
            "the rows of \(table.name) are in the engine \(engine.name) and would commit apart from the "
                + "change ledger, so a crash could keep a change without its before-image; keep both in one "
                + "engine of this server: ALTER TABLE \(table.name.sql(.mariaDB)) ENGINE="
                + (ledger?.name ?? "InnoDB"))
    }

    /// Refuses a queue whose rows are on other servers: its results and its claims, which are local, have
    /// to change together.
    package static func remoteFinding(_ table: CatalogTable) -> Finding? {
        guard let engine = table.engine, isRemote(engine) else { return nil }
        return .failure(
            .configuration,
            "table \(table.name) has the engine \(engine.name): its rows are on other servers, and claims "
                + "could not change together with them; keep the queue on the server itself")
    }
}

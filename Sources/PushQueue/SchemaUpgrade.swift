import Database
import Findings
import TokenTable

extension TokenTable {
    /// What is missing in this database. Existing tables of tokens and notifications are the user's:
    /// only `upgrading` adds the columns and indexes that make marks and lookups good. The queue is
    /// missing only where the mapping wants one. Empty when nothing is.
    ///
    /// - Throws: `configuration` where the token table is missing, unless `creatingTokens`;
    ///   `permission` where the account sees only some columns of a table to upgrade; any failure of
    ///   a query.
    package func missingSchema(
        upgrading: Bool, creatingTokens: Bool = true
    ) throws(StoreFailure) -> SchemaScript {
        SchemaScript(
            statements: try missingTokenSchema(upgrading, creatingTokens)
                + missingQueueSchema(upgrading) + missingSideTables())
    }

    /// The statement for the queue, or for the index that separates its open rows from closed ones.
    private func missingQueueSchema(_ upgrading: Bool) throws(StoreFailure) -> [String] {
        let dialect = connection.dialect
        let name = try TableName(settings.queue.table, setting: "store.push-queue.table")
        let existing = try described(name)
        guard existing != nil else {
            // A queue is of no use to those who only sweep.
            return settings.wantsQueue
                ? PushsweepTable.pushQueue.naming(environments: settings.mapping.environmentValues)
                    .creation(dialect, named: name) : []
        }
        guard upgrading else { return [] }
        let layout = try queueLayout()
        let closing = layout.delivery.isInRow ? layout.delivery.answeredAt : layout.sentAt
        guard let closing, layout.openIndex == nil else { return [] }
        let partition = [layout.app?.name, layout.environment?.name].compactMap { $0 }
        let index = PushsweepTable.Index(
            name: "pushsweep_open", columns: [closing.name] + partition, isUnique: false)
        return [PushsweepTable.pushQueue.creation(of: index, on: name, dialect)]
    }

    private func missingTokenSchema(
        _ upgrading: Bool, _ creating: Bool
    ) throws(StoreFailure) -> [String] {
        let dialect = connection.dialect
        let name = try TableName(settings.mapping.table)
        let mapping = settings.mapping
        let existing = try described(name)
        guard let existing else {
            // A mistyped name looks like a missing table, and an empty table that no program fills
            // would pass every later check.
            guard creating else {
                throw StoreFailure(
                    .configuration,
                    "looking for the token table: \(settings.location) has no table \(name) that the "
                        + "account may see; correct store.active-users.table, or create the table "
                        + "with `pushsweep schema apply --create-token-table`")
            }
            return PushsweepTable.activeUsers.naming(environments: mapping.environmentValues)
                .creation(dialect, named: name)
        }
        guard upgrading else { return [] }
        try ensureSeesAllColumns()
        var statements = mapping.additions(to: existing).map {
            PushsweepTable.activeUsers.addition(of: $0, to: name, dialect)
        }
        let leading = [mapping.app.name, mapping.environment.name, mapping.platform.column]
            .compactMap { $0 }
        if existing.index(onToken: mapping.token, after: leading) == nil {
            let index = PushsweepTable.Index(
                name: "pushsweep_token", columns: [mapping.token], isUnique: false)
            statements.append(PushsweepTable.activeUsers.creation(of: index, on: name, dialect))
        }
        return statements
    }

    /// A table as the database describes it; nil where there is none that the account may see.
    func described(_ name: TableName) throws(StoreFailure) -> CatalogTable? {
        try retries.retrying("reading the schema", do: Catalog(connection: connection).table(name))
    }

    private func missingSideTables() throws(StoreFailure) -> [String] {
        let dialect = connection.dialect
        return try ownTables(PushsweepTable.sideTables + PushsweepTable.queueTables)
            .flatMap { own, known in
                known.map { own.completion(of: $0, dialect) } ?? own.creation(dialect)
            }
    }

    /// Executes the missing statements and returns them. A second call finds none missing. No
    /// statement is retried: adding a column or an index twice is an error, so after a lost
    /// connection the catalog has to be read again first.
    ///
    /// - Throws: `permission` where the account may not change the schema; statements before the
    ///   refused one remain in effect (servers commit each by itself).
    @discardableResult
    package func applySchema(
        upgrading: Bool, creatingTokens: Bool = true
    ) throws(StoreFailure) -> SchemaScript {
        let script = try missingSchema(upgrading: upgrading, creatingTokens: creatingTokens)
        for statement in script.statements {
            let subject = statement.split(separator: "(").first ?? ""
            let doing = "changing the schema (\(subject.prefix(80)))"
            do {
                try connection.runSchemaChange(statement)
            } catch {
                connection.rollBack()
                guard error.kind == .lost else { throw StoreFailure(error, while: doing) }
                throw StoreFailure(
                    .busy,
                    "\(doing): \(error.message) (\(error.code)), so it may be done, undone or still "
                        + "under way; when the database answers run `pushsweep schema apply"
                        + (upgrading ? " --upgrade" : "") + "` again, which first checks what "
                        + "exists")
            }
        }
        return script
    }
}

extension TableMapping {
    /// The columns that an upgrade adds to a table: those whose names the settings leave to detection.
    fileprivate func additions(to table: CatalogTable) -> [PushsweepTable.Column] {
        // With a column of two values the time and the reason of a mark are in pushsweep_invalid.
        // So they are where there is to be no mark in the row.
        let hasMark = living.column == nil && invalidatedAt.column != .absent
        let marks = hasMark ? [invalidatedAt.column, reason] : []
        return PushsweepTable.additions.filter {
            table.column($0.name) == nil
                && ([registeredAt.column] + marks).contains(.detect($0.name))
        }
    }
}

import Database
import Findings
import TokenHygiene

// The rights that a use needs, each with a statement that needs exactly them and changes nothing.
// Parsing SHOW GRANTS would require an implementation of roles, wildcards, PUBLIC and three
// dialects of them. The server has one already, and refuses a statement with `WHERE 1 = 0` as it
// refuses the real one. Such a statement also detects a read-only server. Column rights are used
// where the statements allow them: an account that marks can then change nothing but marks.

/// The use of the token table, which decides the rights and the side tables that it needs.
package enum TableUse: Hashable, Sendable {
    /// Reading only: dry runs and audits. SELECT is enough.
    case read
    /// Applying evidence under a policy.
    case apply(RemovalPolicy)
    /// Undoing the changes of a plan; a dry run needs SELECT only.
    case undo(actions: Set<String>, isDry: Bool)
    /// Dropping old entries; a dry run needs SELECT only.
    case purge(isDry: Bool)

    /// What a use does with the rows of the token table.
    struct RowAccess {
        /// Whether whole rows are read, for the ledger or to compare them with it.
        var readsWholeRows = false
        /// Whether rows are locked.
        var locks = false
        var marks = false
        var inserts = false
        var removes = false
    }

    /// What the use does with a side table.
    struct SideAccess {
        let table: PushsweepTable
        let access: SideTableAccess
        /// Whether it deletes rows too.
        var deletes = false
    }

    /// What the use does with the rows of the token table; nil where it does not read them.
    var rows: RowAccess? {
        switch self {
        case .read: return RowAccess()
        case .apply(let policy):
            let removes = policy.action == .delete
            // Before rows are removed, it is tried whether they can come back.
            return RowAccess(
                readsWholeRows: removes, locks: true, marks: true, inserts: removes,
                removes: removes)
        case .undo(let actions, let isDry):
            // Rows that are inserted, or compared after an insert, are read whole.
            let isWhole = actions.contains("insert") || actions.contains("delete") && !isDry
            guard !isDry else { return RowAccess(readsWholeRows: isWhole) }
            return RowAccess(
                readsWholeRows: isWhole, locks: true,
                marks: !actions.isDisjoint(with: ["mark", "advance", "restore"]),
                inserts: isWhole, removes: actions.contains("insert"))
        case .purge: return nil
        }
    }

    /// The undo of all that runs under a policy change in a table. It knows no ledger, so it needs at
    /// least what the undo of one run needs.
    package static func undo(_ policy: RemovalPolicy, in layout: TableLayout) -> TableUse {
        var actions: Set = ["mark", "advance", "restore"]
        if layout.mark == nil { actions.formUnion(["side-mark", "side-restore"]) }
        if policy.action == .delete { actions.formUnion(["delete", "insert"]) }
        return .undo(actions: actions, isDry: false)
    }

    /// The side tables of the use, in the order in which they are checked. A token table with a mark
    /// column does not need `pushsweep_invalid`.
    func sideTables(hasMarkColumn: Bool) -> [SideAccess] {
        switch self {
        case .read: return hasMarkColumn ? [] : [SideAccess(table: .invalid, access: .read)]
        case .apply(let policy):
            let own = [PushsweepTable.run, .batch, .lease, .commit].map {
                SideAccess(table: $0, access: .change)
            }
            let removesMarks =
                policy.action == .delete && !policy.deletesAtOnce
            return own
                + [
                    SideAccess(table: .change, access: .add),
                    SideAccess(table: .part, access: .change),
                    SideAccess(table: .hold, access: .change),
                    SideAccess(table: .report, access: .change, deletes: true),
                    SideAccess(table: .suspect, access: .change, deletes: true),
                    SideAccess(table: .spared, access: .change, deletes: true),
                    SideAccess(table: .quarantine, access: .change, deletes: true),
                ]
                + (hasMarkColumn
                    ? [] : [SideAccess(table: .invalid, access: .change, deletes: removesMarks)])
        case .undo(let actions, let isDry):
            let (change, add): (SideTableAccess, SideTableAccess) =
                isDry ? (.read, .read) : (.change, .add)
            var used = [
                SideAccess(table: .run, access: change), SideAccess(table: .batch, access: .read),
                SideAccess(table: .part, access: change), SideAccess(table: .change, access: add),
            ]
            if !isDry {
                used += [.lease, .commit].map { SideAccess(table: $0, access: change) }
                used.append(SideAccess(table: .spared, access: .change, deletes: true))
            } else {
                used.append(SideAccess(table: .commit, access: .read))
            }
            if actions.contains(where: LedgerEntry.isBeside) {
                used.append(SideAccess(table: .invalid, access: change, deletes: !isDry))
            }
            return used
        case .purge(let isDry):
            return [PushsweepTable.run, .batch, .hold, .part, .change, .commit, .report].map {
                let isCounted = $0 == .batch && !isDry
                return SideAccess(
                    table: $0, access: isCounted ? .change : .read, deletes: !isDry)
            } + [SideAccess(table: .quarantine, access: .read)]
                + [SideAccess(table: .spared, access: .read, deletes: !isDry)]
                + (isDry ? [] : [SideAccess(table: .day, access: .change)])
        }
    }

    /// The side tables that have to exist. A run that only reads continues without them.
    func requiredTables(hasMarkColumn: Bool) -> [PushsweepTable] {
        if case .read = self { return [] }
        let used = sideTables(hasMarkColumn: hasMarkColumn).map(\.table)
        return PushsweepTable.sideTables.filter(used.contains)
    }

    /// Whether the use writes to the database.
    var writes: Bool {
        switch self {
        case .read, .undo(_, isDry: true), .purge(isDry: true): false
        case .apply, .undo, .purge: true
        }
    }

    /// Whether the use changes or removes rows of the token table that it has locked. Where all marks are
    /// in `pushsweep_invalid` it changes none, and a shared lock keeps registrations out as well: no
    /// right that could change or block the table is needed for it.
    func changesRows(of layout: TableLayout) -> Bool {
        guard let rows else { return false }
        return rows.removes || rows.marks && !layout.markColumns.isEmpty
    }

    /// Whether the use finds rows by their tokens.
    var findsTokens: Bool {
        switch self {
        case .read, .apply: true
        case .undo, .purge: false
        }
    }

    /// Whether the use has to see the foreign keys of all tables: one that removes rows, or marks them in a
    /// column that a foreign key may refer to.
    func seesKeys(of layout: TableLayout) -> Bool {
        removesRows
            || rows?.marks == true && layout.marksMayBeReferenced && changesRows(of: layout)
    }

    /// Whether the use may remove rows of the token table.
    var removesRows: Bool { rows?.removes ?? false }
}

/// The rights for one use of the database, in the order in which they are checked.
package struct RequiredPrivileges {
    let rights: [Privilege]

    /// A plan of given rights.
    package init(rights: [Privilege]) { self.rights = rights }

    /// The plan for a use of the token table. `database` holds the tables without a qualified name.
    /// `readsTokenMarks` states whether a run that only reads may use `pushsweep_invalid`.
    /// `showsTriggers` states whether the server shows triggers without a right of their own.
    package init(
        _ need: TableUse, _ layout: TableLayout, _ dialect: SQLDialect, database: String,
        readsTokenMarks: Bool, showsTriggers: Bool = false
    ) {
        let maker = PrivilegeMaker(database, dialect)
        var rights: [Privilege] = []
        if let rows = need.rows {
            rights.append(
                maker.reading(
                    rows.readsWholeRows ? nil : layout.judgedColumns, of: layout.table,
                    lock: rows.locks && !need.changesRows(of: layout) ? dialect.sharedLock : ""))
            if rows.marks, let names = layout.markedColumns {
                rights.append(maker.updating(names, of: layout.table, purpose: "mark rows of"))
            }
            if need.changesRows(of: layout), !showsTriggers {
                rights.append(maker.seeingTriggers(of: layout.table))
            }
            if rows.inserts {
                rights.append(maker.inserting(layout.columns, into: layout.table))
            }
            if rows.removes {
                rights.append(maker.deleting(from: layout.table, layout.key[0].name))
            }
            if need.seesKeys(of: layout) { rights.append(Self.seeingKeys) }
        }
        for side in need.sideTables(hasMarkColumn: layout.mark != nil) {
            if need == .read && !readsTokenMarks { continue }
            rights.append(maker.sideTable(side.table, side.access))
            if side.deletes { rights.append(maker.deleting(from: side.table)) }
        }
        self.rights = rights
    }

    /// The right to see which tables refer to others, in all schemas. An account cannot change
    /// anything with it.
    static let seeingKeys = Privilege(
        purpose: "see foreign keys of", privileges: "REFERENCES", table: "*.*", probe: "")

    /// The same for one schema, in which it was taken away.
    static func seeingKeys(ofSchema schema: String, _ dialect: SQLDialect) -> Privilege {
        Privilege(
            purpose: "see foreign keys of", privileges: "REFERENCES",
            table: "\(dialect.quoted(schema)).*", probe: "")
    }

    /// The GRANT statements for an account, `name` or `name@host`.
    package func grants(to user: String) -> [String] {
        rights.map { $0.grant(to: user) }
    }
}

extension TableLayout {
    /// The layout that a server's table would have if it was created with the columns of the
    /// settings: for grants to an account that may not read the table yet.
    ///
    /// - Throws: `configuration` where the settings contradict themselves.
    package static func planned(_ mapping: TableMapping) throws(StoreFailure) -> TableLayout {
        var names = ["device_token": mapping.token]
        for (own, column) in [
            ("app_id", mapping.app), ("environment", mapping.environment),
            ("registered_at", mapping.registeredAt.column),
            ("invalidated_at", mapping.invalidatedAt.column), ("invalid_reason", mapping.reason),
        ] {
            names[own] = column.name
        }
        var types: [String: String] = [:]
        if mapping.encoding == .hex { types["device_token"] = "VARCHAR(200) NOT NULL" }
        types["registered_at"] = mapping.registeredAt.type?.serverType
        types["invalidated_at"] = mapping.invalidatedAt.type?.serverType
        let own = Set(
            PushsweepTable.activeUsers.columns.map { (names[$0.name] ?? $0.name).lowercased() })
        // Words fit there, and so do numbers.
        let others = Set(
            [mapping.platform.column, mapping.living.column].compactMap { $0 })
        let table = PushsweepTable.activeUsers.described(
            as: try TableName(mapping.table), names: names, types: types,
            adding: others.filter { !own.contains($0.lowercased()) }.sorted()
                .map { (name: $0, type: "VARCHAR(255) NULL") },
            key: mapping.key)
        return try LayoutResolver(mapping: mapping, table: table, dialect: .mariaDB).layout()
    }

    /// The columns that a use reads to judge a row, each once.
    fileprivate var judgedColumns: [String] {
        var seen: Set<String> = []
        return (usedColumns + heldColumns).filter { seen.insert($0).inserted }
    }

    /// The columns that a mark writes; nil without a mark column.
    fileprivate var markedColumns: [String]? {
        guard !markColumns.isEmpty else { return nil }
        return markColumns + heldColumns
    }
}

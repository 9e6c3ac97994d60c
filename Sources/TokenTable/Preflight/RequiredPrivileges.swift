import Database
import TokenHygiene

// The rights that a policy needs, each with a statement that needs exactly them and changes
// nothing. Parsing SHOW GRANTS would require an implementation of roles, wildcards, PUBLIC and
// three dialects of them. The server has one already, and refuses a statement with `WHERE 1 = 0` as
// it refuses the real one. Such a statement also detects a read-only server. Column rights are used
// where the statements allow them: an account that marks can then change nothing but marks.

/// The rights for one use of the store, in the order in which they are checked.
package struct RequiredPrivileges {
    let rights: [Privilege]

    /// A plan of given rights.
    package init(rights: [Privilege]) { self.rights = rights }

    /// The plan for a layout. `database` holds the tables without a qualified name.
    init(
        _ layout: TableLayout, _ dialect: SQLDialect, database: String, need: TableUse,
        hasSideMarks: Bool
    ) {
        let table = TableName(schema: layout.table.schema ?? database, name: layout.table.name)
        var rights: [Privilege] = []
        switch need {
        case .read:
            rights.append(Privilege.reading(Self.readColumns(layout), of: table, dialect, lock: ""))
            if hasSideMarks {
                rights.append(Privilege.sideTable(.invalid, ["SELECT"], database, dialect))
            }
        case .apply(let policy):
            let deletes = policy.action == .delete
            rights.append(
                Privilege.reading(
                    deletes ? nil : Self.readColumns(layout), of: table, dialect,
                    lock: dialect.rowLock))
            if let marking = Self.marking(layout, table, dialect) { rights.append(marking) }
            if deletes {
                rights.append(Self.deleting(layout.key[0].name, of: table, dialect))
                rights.append(Self.seeingKeys)
            }
            let change = ["SELECT", "INSERT", "UPDATE"]
            for own in [PushsweepTable.run, .feed, .lease] {
                rights.append(Privilege.sideTable(own, change, database, dialect))
            }
            rights.append(Privilege.sideTable(.change, ["SELECT", "INSERT"], database, dialect))
            if layout.mark == nil {
                rights.append(Privilege.sideTable(.invalid, change, database, dialect))
                if deletes && !policy.deletesAtOnce {
                    rights.append(
                        Self.deleting(
                            "token",
                            of: TableName(schema: database, name: PushsweepTable.invalid.name),
                            dialect))
                }
            }
        case .undo(let actions, let isDry):
            rights += Self.undoing(actions, layout, table, database, dialect, isDry: isDry)
        case .purge(let isDry):
            for own in [PushsweepTable.run, .feed, .change] {
                rights.append(Privilege.sideTable(own, ["SELECT"], database, dialect))
                guard !isDry else { continue }
                rights.append(
                    Self.deleting(
                        own.primaryKey[0], of: TableName(schema: database, name: own.name), dialect)
                )
            }
        }
        self.rights = rights
    }

    /// The right to see which tables refer to others, in all schemas. An account cannot change
    /// anything with it.
    static let seeingKeys = Privilege(
        purpose: "see foreign keys of", privileges: "REFERENCES", table: "*.*", probe: "")

    static func readColumns(_ layout: TableLayout) -> [String] {
        var names = layout.key.map(\.name) + [layout.token.name]
        names += [layout.app?.name, layout.environment?.name, layout.registration?.name]
            .compactMap { $0 }
        names += [layout.mark?.name, layout.reason].compactMap { $0 }
        var seen: Set<String> = []
        return names.filter { seen.insert($0).inserted }
    }

    static func marking(
        _ layout: TableLayout, _ table: TableName, _ dialect: SQLDialect
    ) -> Privilege? {
        guard let mark = layout.mark else { return nil }
        var names = [mark.name] + [layout.reason].compactMap { $0 }
        if layout.registrationMovesItself, let registration = layout.registration {
            names.append(registration.name)
        }
        return Privilege.updating(names, of: table, dialect, purpose: "mark rows of")
    }

    /// The GRANT statements for an account, `name` or `name@host`.
    package func grants(to user: String) -> [String] {
        rights.map { $0.grant(to: user) }
    }
}

import Database
import TokenHygiene
import TokenTable

/// The use of the queue, which decides the rights it needs.
package enum QueueUse: Hashable, Sendable {
    /// Reading only, for dry runs. SELECT is enough.
    case preview
    /// Claiming rows and writing results.
    case send
    /// Adding rows for tokens or users.
    case enqueue
}

extension RequiredPrivileges {
    /// The rights that a use of the queue needs. `database` holds the tables without a qualified
    /// name. `users` is the token table's user column, if users are looked up. `visible` are the
    /// side tables that a preview reads.
    init(
        _ need: QueueUse, _ layout: QueueLayout, _ dialect: SQLDialect, database: String,
        users: (table: TableName, column: String)? = nil, visible: [PushsweepTable] = []
    ) {
        let table = TableName(schema: layout.table.schema ?? database, name: layout.table.name)
        let delivery = layout.delivery
        let options =
            [layout.app?.name, layout.environment?.name].compactMap { $0 } + layout.options.names
        var written = [layout.sentAt?.name].compactMap { $0 }
        if delivery.isInRow {
            written += [
                delivery.state, delivery.attempts, delivery.reason,
                delivery.notBefore.name, delivery.answeredAt.name,
            ]
        }
        let content = [layout.token.name, layout.payload]
        var rights = [
            Privilege.reading(
                [layout.key] + content + options + written, of: table, dialect, lock: "")
        ]
        switch need {
        case .preview:
            rights += visible.map { Privilege.sideTable($0, ["SELECT"], database, dialect) }
        case .send:
            if !written.isEmpty {
                rights.append(
                    Privilege.updating(written, of: table, dialect, purpose: "write results to"))
            }
            let change = ["SELECT", "INSERT", "UPDATE"]
            rights.append(Privilege.sideTable(.queue, change, database, dialect))
            rights.append(Privilege.sideTable(.claim, change, database, dialect))
            rights.append(Self.deletingClaims(database, dialect))
            if !delivery.isInRow {
                rights.append(Privilege.sideTable(.delivery, change, database, dialect))
            }
        case .enqueue:
            let added =
                options + content + [layout.queuedAt?.name].compactMap { $0 }
                + (delivery.isInRow ? [delivery.notBefore.name] : [])
            rights.append(Self.adding(added, to: table, dialect))
            if let users {
                let table = TableName(
                    schema: users.table.schema ?? database, name: users.table.name)
                rights.append(Privilege.reading([users.column], of: table, dialect, lock: ""))
            }
        }
        self.init(rights: rights)
    }

    private static func deletingClaims(_ database: String, _ dialect: SQLDialect) -> Privilege {
        let claims = TableName(schema: database, name: PushsweepTable.claim.name).sql(dialect)
        return Privilege(
            purpose: "delete rows of", privileges: "DELETE", table: claims,
            // sql_safe_updates refuses a condition without a column.
            probe: "DELETE FROM \(claims) WHERE id = NULL")
    }

    private static func adding(
        _ names: [String], to table: TableName, _ dialect: SQLDialect
    ) -> Privilege {
        let columns = names.map(dialect.quoted).joined(separator: ", ")
        let nothing = repeatElement("NULL", count: names.count).joined(separator: ", ")
        return Privilege(
            purpose: "add rows to", privileges: "INSERT (\(columns))", table: table.sql(dialect),
            probe: "INSERT INTO \(table.sql(dialect)) (\(columns)) SELECT \(nothing) FROM "
                + "\(table.sql(dialect)) AS source WHERE 1 = 0")
    }
}

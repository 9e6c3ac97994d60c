import Database
import Encodings

// Triggers that write the time of a registration, for applications that cannot be changed.
//
// An insert is a registration where it names no time: NULL, a zero date, a count of 0 or an empty
// text. An update is one where the application writes the token. A trigger of a server sees the row
// before and after, and not which columns a statement names, so these count as registrations:
//
//   the token differs          the device has a new token
//   nothing differs            the statement wrote what was there: the same token again
//   the column of two values   the application set the row living again
//   goes from dead to living
//
// A statement that leaves the token and changes another column is none. So the same token written
// together with, say, a new nickname is not seen on a server. Columns that the engine moves by itself
// differ in every update and are not compared. Texts are compared as bytes, because a collation takes
// different texts for equal. SQLite calls a trigger for the columns that a statement names; there
// every statement that names the token is a registration.
//
// To compare everything, a server's trigger names all columns, and a server refuses every statement
// on the table after one of them is dropped or renamed. The application must not fail because of
// this program. So a handler ends the trigger there: a new token still counts, the same token again
// does not until the trigger is made again. `check` compares the trigger with the one for the table
// of today.
//
// Changes by this program are none: on a server its sessions carry a variable, in SQLite none of its
// statements names the token of a row that stays. A row that an undo inserts keeps the time that it
// had. Where the application itself writes another time, that time stays.

/// The statements that make a table write the time of each registration.
package struct RegistrationTriggers {
    let layout: TableLayout
    /// The table as the database describes it.
    let table: CatalogTable
    /// The column of the registration, which may still have to be added.
    let registration: TimeColumn
    /// Columns that are about to be added to the table.
    let added: [PushsweepTable.Column]
    /// The triggers that the table has.
    let existing: [TableReach.Trigger]
    let dialect: SQLDialect

    /// The beginning of the triggers' names.
    package static let prefix = "pushsweep_registered"
    /// The delimiter that a command-line client of a server needs around the statements.
    package static let delimiter = "$$"

    /// One trigger.
    struct Trigger: Hashable {
        /// `insert` or `update`.
        let event: String
        /// When it runs.
        let head: String
        /// What it does.
        let body: String
    }

    /// The statements in order, without closing semicolons. They replace earlier triggers; none where
    /// the table has all of them.
    package var statements: [String] {
        outdated.map { "DROP TRIGGER \(qualified($0.name))" }
            + triggers.filter { isCurrent($0) != true }.flatMap {
                ["DROP TRIGGER IF EXISTS \(qualified(name($0.event)))", creation($0)]
            }
    }

    /// The statements that remove the triggers, without closing semicolons.
    package var removal: [String] {
        triggers.map { "DROP TRIGGER \(qualified(name($0.event)))" }
    }

    /// Whether the table has such triggers that are not those for the table as it is now.
    var areOutdated: Bool {
        !outdated.isEmpty || triggers.contains { isCurrent($0) == false }
    }

    /// Triggers under names that these do not have, for example from before the table was renamed.
    private var outdated: [TableReach.Trigger] {
        let names = Set(triggers.map { name($0.event) })
        return existing.filter { $0.isOwn && !names.contains($0.name) }
    }

    /// Whether the table has a trigger exactly; nil where the account does not see it.
    private func isCurrent(_ trigger: Trigger) -> Bool? {
        let name = name(trigger.event)
        guard let known = existing.first(where: { $0.name == name }), !known.body.isEmpty else {
            return nil
        }
        // SQLite keeps the whole statement, a server what follows FOR EACH ROW.
        let expected = dialect.engine == .sqlite ? "\(trigger.head)\n\(trigger.body)" : trigger.body
        func words(_ sql: String) -> [Substring] { sql.split(whereSeparator: \.isWhitespace) }
        return words(known.body).reversed().starts(with: words(expected).reversed())
    }

    private func creation(_ trigger: Trigger) -> String {
        "CREATE TRIGGER \(qualified(name(trigger.event))) \(trigger.head)\n\(trigger.body)"
    }

    /// The name of the trigger for an event. Triggers of all tables of a schema share their names, so
    /// a name that is too long is cut and gets a check of the whole.
    func name(_ event: String) -> String {
        let table = layout.table.name
        let room = 64 - Self.prefix.count - event.count - 2
        guard table.unicodeScalars.count > room else { return "\(Self.prefix)_\(event)_\(table)" }
        let check = String(FNV1a.hash(table), radix: 16)
        let start = table.unicodeScalars.prefix(room - check.count - 1).map(Character.init)
        return "\(Self.prefix)_\(event)_\(String(start))_\(check)"
    }

    private func qualified(_ name: String) -> String {
        TableName(schema: layout.table.schema, name: name).sql(dialect)
    }

    private var triggers: [Trigger] {
        switch dialect.engine {
        case .mariaDB: server
        case .sqlite: sqlite
        }
    }

    private var server: [Trigger] {
        let table = layout.table.sql(dialect)
        let column = dialect.quoted(registration.name)
        let isApp = "\(MariaDBConnection.ownMark) IS NULL"
        let isNone = "COALESCE(NEW.\(column) + 0, 0) <= 0"
        let others = (layout.columns + added.map(\.name)).filter {
            $0.lowercased() != registration.name.lowercased()
                && self.table.column($0)?.movesItself != true
        }
        var causes = ["NOT (\(isSame(layout.token.name)))"]
        if let living = layout.living {
            let name = dialect.quoted(living.name)
            let dead = dialect.literal(living.compared(living.dead))
            causes.append("(OLD.\(name) <=> \(dead) AND NOT (NEW.\(name) <=> \(dead)))")
        }
        func guarded(_ condition: String, _ statements: String) -> String {
            """
            BEGIN
              DECLARE EXIT HANDLER FOR 1054 BEGIN END;
              IF \(isApp) AND \(condition) THEN
                \(statements)
              END IF;
            END
            """
        }
        return [
            Trigger(
                event: "insert", head: "BEFORE INSERT ON \(table) FOR EACH ROW",
                body: guarded(isNone, "SET NEW.\(column) = \(now);")),
            Trigger(
                event: "update", head: "BEFORE UPDATE ON \(table) FOR EACH ROW",
                body: guarded(
                    "(\(isSame(registration.name)) OR \(isNone))",
                    """
                    IF \(causes.joined(separator: " OR ")) THEN
                          SET NEW.\(column) = \(now);
                        ELSEIF \(([registration.name] + others).map(isSame).joined(separator: "\n      AND ")) THEN
                          SET NEW.\(column) = \(now);
                        END IF;
                    """)),
        ]
    }

    /// Whether a column has the same value before and after an update on a server.
    private func isSame(_ name: String) -> String {
        let (new, old) = ("NEW.\(dialect.quoted(name))", "OLD.\(dialect.quoted(name))")
        let isText =
            table.column(name)?.isText ?? added.contains { $0.name == name && $0.isText }
        guard isText else { return "\(new) <=> \(old)" }
        return "CAST(\(new) AS BINARY) <=> CAST(\(old) AS BINARY)"
    }

    private var sqlite: [Trigger] {
        let table = dialect.quoted(layout.table.name)
        let column = dialect.quoted(registration.name)
        let row = layout.key.map {
            "\(dialect.quoted($0.name)) IS NEW.\(dialect.quoted($0.name))"
        }.joined(separator: " AND ")
        let body = "BEGIN UPDATE \(table) SET \(column) = \(now) WHERE \(row); END"
        let isNone =
            "(COALESCE(trim(NEW.\(column)), '') IN ('', '0') OR NEW.\(column) GLOB '0000-00-00*')"
        return [
            Trigger(
                event: "insert", head: "AFTER INSERT ON \(table) FOR EACH ROW",
                body: "WHEN \(isNone)\n\(body)"),
            Trigger(
                event: "update",
                head:
                    "AFTER UPDATE OF \(dialect.quoted(layout.token.name)) ON \(table) FOR EACH ROW",
                body: "WHEN NEW.\(column) IS OLD.\(column) OR \(isNone)\n\(body)"),
        ]
    }

    /// Whether the registration is a TIMESTAMP.
    var isTimestamp: Bool { table.column(registration.name)?.type == "timestamp" }

    /// The present as a value of the column.
    var now: String {
        switch (registration.storage, dialect.engine) {
        case (.wallClock(let fraction, let offset), _):
            if isTimestamp { return "CURRENT_TIMESTAMP(\(fraction))" }
            return "UTC_TIMESTAMP(\(fraction))"
                + (offset == 0 ? "" : " + INTERVAL \(offset) SECOND")
        case (.text(let offset), _):
            let zone = offset == 0 ? "" : ", '\(offset) seconds'"
            return "strftime('%Y-%m-%d %H:%M:%f', 'now'\(zone))"
        case (.epochSeconds, .mariaDB): return "UNIX_TIMESTAMP()"
        case (.epochSeconds, .sqlite): return "CAST(strftime('%s', 'now') AS INTEGER)"
        case (.epochMilliseconds, .mariaDB):
            return "CAST(UNIX_TIMESTAMP(CURRENT_TIMESTAMP(3)) * 1000 AS SIGNED)"
        case (.epochMilliseconds, .sqlite):
            return "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
        }
    }
}

extension TableReach.Trigger {
    /// Whether it is one of `RegistrationTriggers`.
    var isOwn: Bool { name.hasPrefix(RegistrationTriggers.prefix) }
}

extension SQLDialect {
    /// A value as an SQL literal; NULL for one that is neither number nor text.
    fileprivate func literal(_ value: SQLValue) -> String {
        switch value {
        case .text(let word): literal(word)
        case .integer(let number): "\(number)"
        case .real(let number): "\(number)"
        default: "NULL"
        }
    }
}

extension TokenTable {
    /// What writes the registration times of this table: the triggers, with what an application may
    /// do instead. `added` are columns that are about to be added. Nil where there is no column of
    /// the registration, or the engine itself moves or computes it.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func registrationTriggers(
        adding added: [PushsweepTable.Column] = []
    ) throws(StoreFailure) -> RegistrationTriggers? {
        let layout = try layout()
        let dialect = connection.dialect
        if layout.registrationMovesItself { return nil }
        var registration = layout.registration
        // Nothing can write a column that is computed from others.
        if let registration, layout.generated.contains(registration.name) { return nil }
        if registration == nil, let name = settings.mapping.registeredAt.column.name,
            added.contains(where: { $0.name == name })
        {
            let offset = settings.mapping.registeredAt.zone.seconds
            registration = TimeColumn(
                name: name,
                storage: dialect.engine == .mariaDB
                    ? .wallClock(fraction: 3, offset: offset) : .text(offset: offset))
        }
        guard let registration else { return nil }
        return RegistrationTriggers(
            layout: layout, table: try catalogTable(), registration: registration, added: added,
            existing: try triggers(layout), dialect: dialect)
    }

    /// The triggers of the table that the account sees.
    func triggers(_ layout: TableLayout) throws(StoreFailure) -> [TableReach.Trigger] {
        try retries.retrying("reading the triggers of \(layout.table)") {
            () throws(SQLFailure) in
            try Catalog(connection: connection).triggers(of: layout.table)
        }
    }
}

import Database

// Triggers that write the time of a registration, for applications that cannot be changed.
//
// An insert is a registration where it names no time. An update is one where the application writes
// the token. A trigger of a server sees the row before and after, and not which columns a statement
// names, so these count as registrations:
//
//   the token differs          the device has a new token
//   nothing differs            the statement wrote what was there: the same token again
//   the column of two values   the application set the row living again
//   goes from dead to living
//
// A statement that leaves the token and changes another column is none. So the same token written
// together with, say, a new nickname is not seen on a server. SQLite calls a trigger for the columns
// that a statement names; there every statement that names the token is a registration.
//
// Changes by this program are none: on a server its sessions carry a variable, in SQLite none of its
// statements names the token of a row that stays. A row that an undo inserts keeps the time that it
// had. Where the application itself writes another time, that time stays.

/// The statements that make a table write the time of each registration.
package struct RegistrationTriggers {
    let layout: TableLayout
    /// The column of the registration, which may still have to be added.
    let registration: TimeColumn
    /// Whether it is a TIMESTAMP.
    let isTimestamp: Bool
    /// Columns that are about to be added to the table.
    let added: [String]
    let dialect: SQLDialect

    /// The beginning of the triggers' names.
    package static let prefix = "pushsweep_registered"

    /// The statements in order, without closing semicolons. They replace earlier ones.
    package var statements: [String] {
        switch dialect.engine {
        case .mariaDB: server
        case .sqlite: sqlite
        }
    }

    /// The name of the trigger for an event, in the table's schema. Triggers of all tables of a
    /// schema share their names.
    private func name(_ event: String) -> String {
        let room = 64 - Self.prefix.count - event.count - 2
        let table = String(layout.table.name.unicodeScalars.prefix(room).map(Character.init))
        return TableName(
            schema: layout.table.schema, name: "\(Self.prefix)_\(event)_\(table)"
        ).sql(dialect)
    }

    private func replacing(_ event: String, _ body: String) -> [String] {
        let name = name(event)
        return ["DROP TRIGGER IF EXISTS \(name)", "CREATE TRIGGER \(name) \(body)"]
    }

    private var server: [String] {
        let table = layout.table.sql(dialect)
        let column = dialect.quoted(registration.name)
        let isApp = "\(MariaDBConnection.ownMark) IS NULL"
        func isSame(_ name: String) -> String {
            "NEW.\(dialect.quoted(name)) <=> OLD.\(dialect.quoted(name))"
        }
        let others = (layout.columns + added).filter {
            $0.lowercased() != registration.name.lowercased()
        }
        var causes = [
            "NOT (\(isSame(layout.token.name)))",
            "(" + others.map(isSame).joined(separator: " AND ") + ")",
        ]
        if let living = layout.living {
            let name = dialect.quoted(living.name)
            let dead = dialect.literal(living.compared(living.dead))
            causes.append("OLD.\(name) <=> \(dead) AND NOT (NEW.\(name) <=> \(dead))")
        }
        return replacing(
            "insert",
            "BEFORE INSERT ON \(table) FOR EACH ROW\nSET NEW.\(column) = IF(\(isApp), "
                + "COALESCE(NEW.\(column), \(now)), NEW.\(column))")
            + replacing(
                "update",
                "BEFORE UPDATE ON \(table) FOR EACH ROW\nSET NEW.\(column) = IF(\(isApp) AND "
                    + "\(isSame(registration.name)) AND (\n    "
                    + causes.joined(separator: "\n    OR ") + "\n  ), \(now), NEW.\(column))")
    }

    private var sqlite: [String] {
        let table = dialect.quoted(layout.table.name)
        let column = dialect.quoted(registration.name)
        let row = layout.key.map {
            "\(dialect.quoted($0.name)) IS NEW.\(dialect.quoted($0.name))"
        }.joined(separator: " AND ")
        let body = "BEGIN UPDATE \(table) SET \(column) = \(now) WHERE \(row); END"
        return replacing(
            "insert",
            "AFTER INSERT ON \(table) FOR EACH ROW\nWHEN NEW.\(column) IS NULL\n\(body)")
            + replacing(
                "update",
                "AFTER UPDATE OF \(dialect.quoted(layout.token.name)) ON \(table) FOR EACH ROW\n"
                    + "WHEN NEW.\(column) IS OLD.\(column)\n\(body)")
    }

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

    /// What an application can do itself in place of the triggers, in lines for a comment.
    package var alternatives: [String] {
        let table = layout.table.sql(dialect)
        let (token, column) = (
            dialect.quoted(layout.token.name), dialect.quoted(registration.name)
        )
        var lines = [
            "An application that writes \(registration.name) itself needs no triggers:",
            "  UPDATE \(table) SET \(token) = ?, \(column) = \(now) WHERE ...",
        ]
        switch dialect.engine {
        case .mariaDB:
            lines += [
                "  INSERT INTO \(table) (...) VALUES (...) ON DUPLICATE KEY UPDATE",
                "    \(token) = VALUES(\(token)), \(column) = \(now)",
                "For one that deletes a row and inserts it again a default is enough:",
                "  ALTER TABLE \(table) ALTER COLUMN \(column) SET DEFAULT "
                    + (isTimestamp ? now : "(\(now))"),
                "ON UPDATE CURRENT_TIMESTAMP moves the time at every change of a row by the",
                "application, so signals about devices that are gone are ignored.",
            ]
        case .sqlite:
            lines += [
                "  INSERT INTO \(table) (...) VALUES (...) ON CONFLICT (...) DO UPDATE SET",
                "    \(token) = excluded.\(token), \(column) = \(now)",
                "For one that deletes a row and inserts it again a default in CREATE TABLE is enough:",
                "  \(column) DATETIME DEFAULT (\(now))",
            ]
        }
        return lines
    }
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
    /// the registration, or the engine itself moves it.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func registrationTriggers(
        adding added: [String] = []
    ) throws(StoreFailure) -> RegistrationTriggers? {
        let layout = try layout()
        let dialect = connection.dialect
        if layout.registrationMovesItself { return nil }
        if let registration = layout.registration {
            let type = try catalogTable().column(registration.name)?.type
            return RegistrationTriggers(
                layout: layout, registration: registration, isTimestamp: type == "timestamp",
                added: added, dialect: dialect)
        }
        guard let name = settings.mapping.registeredAt.column.name, added.contains(name) else {
            return nil
        }
        let offset = settings.mapping.registeredAt.zone.seconds
        return RegistrationTriggers(
            layout: layout,
            registration: TimeColumn(
                name: name,
                storage: dialect.engine == .mariaDB
                    ? .wallClock(fraction: 3, offset: offset) : .text(offset: offset)),
            isTimestamp: false, added: added, dialect: dialect)
    }
}

import Database

extension RegistrationTriggers {
    /// What keeps the triggers working.
    private var standing: [String] {
        guard dialect.engine == .mariaDB else {
            return ["To remove the triggers:"] + removal.map { "  \($0);" }
        }
        return [
            "The triggers run with the rights of the account that creates them. Create them with one",
            "that stays: without it every INSERT and UPDATE of the table fails with error 1449.",
            "Error 1419 means that the server's binary log needs log_bin_trust_function_creators.",
            "After the table has got or lost a column print and run this again.",
            "To remove the triggers:",
        ] + removal.map { "  \($0);" }
    }

    /// What keeps the triggers working, how to remove them, and what an application can do itself in
    /// their place, in lines for a comment.
    package var notes: [String] {
        let table = layout.table.sql(dialect)
        let (token, column) = (
            dialect.quoted(layout.token.name), dialect.quoted(registration.name)
        )
        var lines = standing
        lines += [
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

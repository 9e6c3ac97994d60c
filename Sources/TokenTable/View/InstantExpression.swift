import Database

// The times of a row as SQL numbers, so that a view judges a row as `RegisteredToken` does: see
// `TimeColumn` for the forms of values. A view is read in sessions of any time zone. A DATETIME is
// a reading of a declared clock, whatever that zone is; a TIMESTAMP is shown in the zone of the
// session, so only its own instant is compared.

/// The instant in a time column, in milliseconds since 1970, as SQL.
struct InstantExpression {
    let column: TimeColumn
    /// The column with its table's name, quoted.
    let name: String
    /// Whether the column is a TIMESTAMP.
    let isTimestamp: Bool
    let dialect: SQLDialect

    /// The milliseconds, rounded up for a registration and down for a mark; NULL where the value is
    /// none or unreadable.
    func milliseconds(roundingUp: Bool) -> String {
        switch (column.storage, dialect.engine) {
        case (.epochSeconds, let engine):
            return "CASE WHEN \(isWhole(engine))\(name) > 0 AND \(name) < \(limit) "
                + "THEN \(name) * 1000 END"
        case (.epochMilliseconds, let engine):
            return "CASE WHEN \(isWhole(engine))\(name) >= \(limit) THEN \(name) END"
        case (.wallClock(let fraction, let offset), _):
            return server(fraction, offset, roundingUp ? "CEILING" : "FLOOR")
        case (.text(let offset), _): return text(offset)
        }
    }

    /// Whether the value is neither empty nor a time: 1, 0 or NULL.
    var isUnreadable: String {
        switch (column.storage, dialect.engine) {
        case (.epochSeconds, .mariaDB): return "\(name) >= \(limit)"
        case (.epochMilliseconds, .mariaDB): return "(\(name) > 0 AND \(name) < \(limit))"
        case (.epochSeconds, .sqlite):
            return "(\(name) IS NOT NULL AND (typeof(\(name)) <> 'integer' OR \(name) >= \(limit)))"
        case (.epochMilliseconds, .sqlite):
            return "(\(name) IS NOT NULL AND (typeof(\(name)) <> 'integer' OR "
                + "(\(name) > 0 AND \(name) < \(limit))))"
        case (.wallClock, _):
            return isTimestamp
                ? "FALSE"
                : "(TO_DAYS(\(name)) IS NULL AND (YEAR(\(name)) > 0 OR MONTH(\(name)) > 0 "
                    + "OR DAYOFMONTH(\(name)) > 0))"
        case (.text(let offset), _):
            return "(\(name) IS NOT NULL AND NOT (typeof(\(name)) = 'text' AND trim(\(name)) = '') "
                + "AND \(text(offset)) IS NULL)"
        }
    }

    /// Whether both are readings of one clock, so that they are compared without a calculation.
    func isComparable(to other: InstantExpression) -> Bool {
        guard case .wallClock(_, let one) = column.storage,
            case .wallClock(let fraction, let two) = other.column.storage
        else { return false }
        return one == two && fraction <= 3 && !isTimestamp && !other.isTimestamp
    }

    private var limit: Int64 { TimeColumn.leastMilliseconds }

    /// SQLite keeps words and fractions in a column of whole numbers.
    private func isWhole(_ engine: SQLDialect.Engine) -> String {
        engine == .sqlite ? "typeof(\(name)) = 'integer' AND " : ""
    }

    private func server(_ fraction: Int, _ offset: Int, _ rounding: String) -> String {
        if isTimestamp {
            return "\(rounding)(NULLIF(UNIX_TIMESTAMP(\(name)), 0) * 1000)"
        }
        let zone = offset == 0 ? "" : " - \(offset * 1_000)"
        return "\(rounding)(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', \(name)) / 1000)\(zone)"
    }

    /// ISO 8601 text with an optional zone. The seconds are read apart, because the date functions of
    /// SQLite cut milliseconds off at a binary fraction.
    private func text(_ offset: Int) -> String {
        let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
        let zone =
            "CASE WHEN \(name) GLOB '*[Zz]' THEN 'Z' "
            + "WHEN \(name) GLOB '*[-+][0-9][0-9]:[0-9][0-9]' THEN substr(\(name), -6) "
            + "ELSE '\(ZoneOffset(seconds: offset))' END"
        let seconds =
            "CASE substr(\(name), 17, 1) WHEN ':' "
            + "THEN CAST(round(CAST(substr(\(name), 18) AS REAL) * 1000) AS INTEGER) ELSE 0 END"
        return "CASE WHEN typeof(\(name)) = 'text' "
            + "AND \(name) GLOB '\(day)[ T][0-9][0-9]:[0-9][0-9]*' "
            + "AND date(substr(\(name), 1, 10), '+0 days') = substr(\(name), 1, 10) "
            + "THEN strftime('%s', substr(\(name), 1, 16) || \(zone)) * 1000 + \(seconds) END"
    }
}

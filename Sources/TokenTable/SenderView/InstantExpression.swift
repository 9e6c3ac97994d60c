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
        case (.text(let offset), _): return text(offset, roundingUp)
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
            return "(\(name) IS NOT NULL AND NOT (\(isText) AND trim(\(name)) = '') "
                + "AND \(text(offset, false)) IS NULL)"
        }
    }

    /// Whether the column holds no unreadable value.
    var isAlwaysReadable: Bool {
        if case .wallClock = column.storage { isTimestamp } else { false }
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

    /// Text whose end SQLite's functions see: they stop at a NUL.
    private var isText: String {
        "typeof(\(name)) = 'text' AND instr(CAST(\(name) AS BLOB), x'00') = 0"
    }

    private func server(_ fraction: Int, _ offset: Int, _ rounding: String) -> String {
        if isTimestamp {
            return "\(rounding)(NULLIF(UNIX_TIMESTAMP(\(name)), 0) * 1000)"
        }
        let zone = offset == 0 ? "" : " - \(offset * 1_000)"
        // A literal of the type is read once, text for each row.
        let microseconds = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', \(name))"
        // Whole milliseconds need no rounding, and whole numbers are faster than decimal ones.
        return fraction <= 3
            ? "\(microseconds) DIV 1000\(zone)" : "\(rounding)(\(microseconds) / 1000)\(zone)"
    }

    /// ISO 8601 text with an optional zone, exactly in the forms that `WallClock` reads. The date
    /// functions of SQLite accept more, and cut milliseconds off at a binary fraction.
    ///
    /// `stated` is the text, `zone` the zone at its end, `time` what is between the minutes and the
    /// zone. With a LIMIT the engine calculates each of them once; without, it writes the whole into each place that
    /// names it, which takes twelve times as long.
    private func text(_ offset: Int, _ roundingUp: Bool) -> String {
        let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
        let zone =
            "CASE WHEN stated GLOB '*[Zz]' THEN substr(stated, -1) "
            + "WHEN stated GLOB '* UTC' OR stated GLOB '* GMT' THEN substr(stated, -4) "
            + "WHEN stated GLOB '*[-+][0-9][0-9]:[0-5][0-9]' AND substr(stated, -5) <= '14:00' "
            + "THEN substr(stated, -6) "
            + "WHEN stated GLOB '*[-+][0-9][0-9][0-5][0-9]' AND substr(stated, -4) <= '1400' "
            + "THEN substr(stated, -5) "
            + "WHEN substr(stated, 17) GLOB '*[-+][0-9][0-9]' AND substr(stated, -2) <= '14' "
            + "THEN substr(stated, -3) ELSE '' END"
        let texts = "SELECT replace(\(name), ',', '.') AS stated LIMIT 1"
        let stated = "SELECT stated, \(zone) AS zone FROM (\(texts)) LIMIT 1"
        // As strftime reads it.
        let offsetText =
            "CASE length(zone) WHEN 3 THEN zone || ':00' WHEN 4 THEN 'Z' "
            + "WHEN 5 THEN substr(zone, 1, 3) || ':' || substr(zone, 4) ELSE zone END"
        let spaced =
            "SELECT stated, zone, substr(stated, 17, length(stated) - 16 - length(zone)) AS time "
            + "FROM (\(stated)) LIMIT 1"
        let parts =
            "SELECT stated, \(offsetText) AS zone, CASE WHEN length(zone) NOT IN (0, 4) AND time GLOB '* ' "
            + "THEN substr(time, 1, length(time) - 1) ELSE time END AS time FROM (\(spaced)) LIMIT 1"
        let isTime =
            "(time = '' OR time GLOB ':[0-5][0-9]' OR time GLOB ':[0-5][0-9].[0-9]*' "
            + "AND substr(time, 5) NOT GLOB '*[^0-9]*')"
        // Digits past the millisecond count up to the microsecond.
        let rest =
            roundingUp ? " + (substr(substr(time, 5) || '000000', 4, 3) > '000')" : ""
        let milliseconds =
            "CASE time WHEN '' THEN 0 ELSE substr(time, 2, 2) * 1000 "
            + "+ substr(substr(time, 5) || '000', 1, 3)\(rest) END"
        return "CASE WHEN \(isText) THEN (SELECT "
            + "strftime('%s', substr(stated, 1, 16) || CASE zone WHEN '' "
            + "THEN '\(ZoneOffset(seconds: offset))' ELSE zone END) * 1000 + \(milliseconds) "
            + "FROM (\(parts)) WHERE stated GLOB '\(day)[ T][0-2][0-9]:[0-5][0-9]*' "
            + "AND substr(stated, 12, 2) < '24' AND substr(stated, 1, 4) > '0000' "
            + "AND date(substr(stated, 1, 10), '+0 days') = substr(stated, 1, 10) "
            + "AND \(isTime)) END"
    }
}

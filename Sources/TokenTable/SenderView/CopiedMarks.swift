import Database
import Findings
import TokenHygiene

// The marks of a table that is to have them beside its rows from now on, as statements that a person runs once. Each
// token gets the latest of its marks, if all of its rows have one: a mark beside is one of the token, and would silence the
// row that has none. A column of two values has no times: a row that is dead counts as dead from now on, and what is beside
// a row that the application set living again goes first.

/// Copies the marks of a column to `pushsweep_invalid`.
struct CopiedMarks {
    let rows: SendableRows
    let app, environment: SendableRows.Word

    private var isFile: Bool { rows.dialect.engine == .sqlite }

    /// The statements in their order, without closing semicolons; empty where no column has marks.
    var statements: [String] {
        if let living = rows.layout.living {
            let isLiving = rows.living(living)
            return [
                "DELETE FROM pushsweep_invalid WHERE EXISTS (SELECT 1 FROM \(table) WHERE "
                    + "\(rows.besideToken) AND \(rows.beside("app", is: app)) "
                    + "AND \(rows.beside("environment", is: environment)) AND \(isLiving))",
                copy(
                    at: "CASE WHEN \(isLiving) THEN NULL ELSE "
                        + (isFile
                            ? "CAST(strftime('%s', 'now') AS INTEGER) * 1000"
                            : "TIMESTAMPDIFF(SECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP()) * 1000")
                        + " END"),
            ]
        }
        guard let mark = rows.layout.mark else { return [] }
        return [
            copy(at: rows.instant(mark).milliseconds(roundingUp: false))
        ]
    }

    private var table: String { rows.layout.table.sql(rows.dialect) }

    /// Copies the marks whose `time` is not NULL.
    private func copy(at time: String) -> String {
        // The collation of a column may take two apps for one.
        func word(_ word: SendableRows.Word) -> String {
            rows.value(of: word) + (isFile ? " COLLATE BINARY" : "")
        }
        // The column beside has 32 characters.
        let reason = rows.layout.reason.map { "SUBSTR(\(rows.column($0)), 1, 32)" } ?? "NULL"
        let condition = (rows.platform + rows.tokenTerms).joined(separator: " AND ")
        let latest =
            isFile
            ? "strftime('%Y-%m-%d %H:%M:%f', MAX(marked.time) / 1000.0, 'unixepoch')"
            : "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL MAX(marked.time) * 1000 MICROSECOND"
        return
            "INSERT INTO pushsweep_invalid (app, environment, token, invalidated_at, reason) SELECT marked.app, "
            + "marked.environment, marked.token, \(latest), MIN(marked.reason) FROM (SELECT \(word(app)) AS app, "
            + "\(word(environment)) AS environment, \(token) AS token, \(time) AS time, \(reason) AS reason "
            + "FROM \(table) WHERE \(condition)) AS marked GROUP BY marked.app, marked.environment, marked.token "
            + "HAVING COUNT(*) = COUNT(marked.time) \(otherwise)"
    }

    /// What becomes of a mark that stands beside already.
    private var otherwise: String {
        let own = "pushsweep_invalid.invalidated_at"
        return isFile
            ? "ON CONFLICT (token, app, environment) DO UPDATE SET "
                + "invalidated_at = MAX(\(own), excluded.invalidated_at)"
            : "ON DUPLICATE KEY UPDATE invalidated_at = GREATEST(\(own), VALUES(invalidated_at))"
    }

    /// The bytes of a row's token.
    private var token: String {
        let name = rows.column(rows.layout.token.name)
        switch (rows.layout.token.encoding, rows.dialect.engine) {
        case (.binary, _): return name
        case (.hex, .mariaDB): return "UNHEX(TRIM(CONVERT(\(name) USING latin1)))"
        case (.hex, .sqlite):
            // Before 3.41 there is no function for it. Byte by byte, out of all bytes in their order.
            let all = (0..<256).map {
                $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16)
            }
            func digit(_ place: String) -> String {
                "(instr('0123456789abcdef', substr(lower(h), \(place), 1)) - 1)"
            }
            let byte =
                "substr(x'\(all.joined())', \(digit("i")) * 16 + \(digit("i + 1")) + 1, 1)"
            return
                "(WITH RECURSIVE b (i, h, t) AS (SELECT 1, rtrim(CAST(\(name) AS TEXT)), x'' UNION ALL "
                + "SELECT i + 2, h, CAST(t || \(byte) AS BLOB) FROM b WHERE i < length(h)) "
                + "SELECT t FROM b ORDER BY i DESC LIMIT 1)"
        }
    }
}

extension TokenTable {
    /// The statements that copy the marks of the table's column to `pushsweep_invalid`, for the settings of these
    /// partitions.
    ///
    /// - Throws: `configuration` where the table does not show which of several apps a row is of.
    func copiedMarks(_ partitions: [Partition]) throws(StoreFailure) -> [String] {
        let rows = try sendableRows(partitions, countingSideMarks: true)
        guard let words = rows.sideMarks else { return [] }
        return CopiedMarks(rows: rows, app: words.app, environment: words.environment).statements
    }
}

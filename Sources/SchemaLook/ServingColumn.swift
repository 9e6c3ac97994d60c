// Some shapes cannot be read or searched as they are: a JSON document, an address, a DATE, a time as text.
// A generated column serves most of them: the database computes it, no application has to change, and an
// index on it finds tokens. It is written for the engine's own expressions, and named after its origin.
//
// The application goes on writing what it likes, and in strict mode a server refuses its row where a function
// of the expression cannot read its argument. So each such function stands behind a test that lets pass only
// what it reads.

import Database
import Encodings
import TokenTable

/// A generated column that serves a column which cannot be used as it is.
struct ServingColumn {
    let name: String
    /// The type in the statement, and the type of its times in the settings.
    let type: String
    var timeType: TimeColumnType?
    let expression: String
    var isIndexed = false

    /// The expression with the type that the column gives it.
    var converted: String {
        type.utf8.starts(with: "DATETIME".utf8) ? "CAST(\(expression) AS \(type))" : expression
    }

    /// The statement that adds it.
    func statement(for table: TableName, _ dialect: SQLDialect) -> String {
        let column = dialect.quoted(name)
        let change =
            "ALTER TABLE \(table.sql(dialect)) ADD COLUMN \(column) \(type) AS (\(expression)) VIRTUAL"
        guard isIndexed else { return change }
        return dialect.engine == .mariaDB
            ? "\(change), ADD INDEX (\(column))"
            : "\(change); CREATE INDEX \(dialect.quoted("\(table.name)_\(name)")) ON "
                + "\(dialect.quoted(table.name)) (\(column))"
    }
}

extension ServingColumn {
    /// A column of plain hex for tokens in another form; nil where the engine has no expression for it.
    init?(
        tokens column: CatalogColumn, _ form: TokenForm, separators: Set<UInt8>,
        in table: CatalogTable, _ dialect: SQLDialect
    ) {
        let isServer = dialect.engine == .mariaDB
        let name = Self.text(of: column, dialect)
        let expression: String
        switch form {
        case .hex, .bytes, .spelled(.several): return nil
        case .spelled(.grouped):
            expression = separators.sorted().reduce(name) { text, byte in
                let sign = Self.literal(String(decoding: [byte], as: UTF8.self), dialect)
                return "REPLACE(\(text), \(sign), '')"
            }
        case .spelled(.prefixed(let word)):
            let count = word.unicodeScalars.count
            expression =
                "CASE WHEN SUBSTR(\(name), 1, \(count)) = \(Self.literal(word, dialect)) "
                + "THEN SUBSTR(\(name), \(count + 1)) ELSE \(name) END"
        case .spelled(.base64):
            guard isServer else { return nil }
            expression = Self.hex(ofBase64: name)
        case .url:
            expression =
                isServer
                ? "SUBSTRING_INDEX(\(name), '/', -1)"
                : "replace(\(name), rtrim(\(name), replace(\(name), '/', '')), '')"
        case .json(let path): expression = Self.text(at: path, of: name, dialect)
        }
        self.name = Self.free("\(column.name)_hex", in: table)
        type = isServer ? "VARCHAR(255) \(Self.anyText)" : "TEXT"
        // The application may store anything, and no row of its own may be refused for this column.
        self.expression = isServer ? "LEFT(LOWER(\(expression)), 255)" : "LOWER(\(expression))"
        isIndexed = true
    }

    /// The characters that the application's own text may have, whatever the table's are.
    private static let anyText = "CHARACTER SET utf8mb4"

    /// A column of the text at a place of a JSON document.
    init(json path: [String], in column: CatalogColumn, of table: LookedTable) {
        let dialect = table.dialect
        let isServer = dialect.engine == .mariaDB
        name = Self.free("\(column.name)_\(path.last ?? "")", in: table.catalog)
        type = isServer ? "VARCHAR(64) \(Self.anyText)" : "TEXT"
        let text = Self.text(at: path, of: Self.text(of: column, dialect), dialect)
        expression = isServer ? "LEFT(\(text), 64)" : text
    }

    /// A column as text that functions take: MySQL has none for patterns and JSON in bytes, and any byte is a
    /// character of latin1.
    private static func text(of column: CatalogColumn, _ dialect: SQLDialect) -> String {
        let name = dialect.quoted(column.name)
        return column.isBinary && dialect.engine == .mariaDB
            ? "CONVERT(\(name) USING latin1)" : name
    }

    /// The hex of tokens in base64 with or without padding, and of those that are hex already; NULL for other
    /// text. Padding is made anew: a server reads none without it.
    private static func hex(ofBase64 text: String) -> String {
        let bare = "TRIM(TRAILING '=' FROM \(text))"
        let digits = UnfindableSpelling.usualDigits
        let most = UnfindableSpelling.mostBytes
        return "CASE WHEN \(text) REGEXP '^[0-9A-Fa-f]{\(digits),\(most * 2)}$' THEN \(text) "
            + "WHEN \(text) REGEXP '^[A-Za-z0-9+/_-]{\((digits * 2 + 2) / 3),\((most * 4 + 2) / 3)}={0,2}$' "
            // A dollar stands before a line end too, and no four characters begin with one left over.
            + "AND \(text) NOT REGEXP '[^A-Za-z0-9+/=_-]' AND CHAR_LENGTH(\(bare)) MOD 4 <> 1 "
            + "THEN HEX(FROM_BASE64(CONCAT(REPLACE(REPLACE(\(bare), '-', '+'), '_', '/'), "
            + "REPEAT('=', 3 - (CHAR_LENGTH(\(bare)) + 3) MOD 4)))) END"
    }

    private static func text(at path: [String], of name: String, _ dialect: SQLDialect) -> String {
        let place = literal(JSONPath.text(path), dialect)
        return dialect.engine == .mariaDB
            ? "CASE WHEN JSON_VALID(\(name)) THEN JSON_UNQUOTE(JSON_EXTRACT(\(name), \(place))) END"
            : "CASE WHEN json_valid(\(name)) THEN json_extract(\(name), \(place)) END"
    }

    /// A column that is `1` where another one has a word within longer ones, in the same case.
    init(saying word: String, in column: CatalogColumn, of table: LookedTable) {
        let sign = Self.literal(word, table.dialect)
        let text = Self.exact(column, table.dialect)
        self.init(
            "is_apple",
            table.dialect.engine == .mariaDB
                ? "LOCATE(\(sign), \(text)) > 0" : "instr(\(text), \(sign)) > 0", table)
    }

    /// A column that is `1` where another one has one of some words.
    init(saying words: [String], in column: CatalogColumn, of table: LookedTable) {
        let dialect = table.dialect
        let isNumber = column.isInteger || ["bit", "bool", "boolean"].contains(column.type)
        let list = words.map { isNumber ? $0 : Self.literal($0, dialect) }
        let value = isNumber ? dialect.quoted(column.name) : Self.exact(column, dialect)
        self.init("is_apple", "\(value) IN (\(list.joined(separator: ", ")))", table)
    }

    /// A text that an expression keeps. A server stores an expression as text: MariaDB loses backslashes and
    /// characters beyond ASCII of a literal there, which a SELECT does not show.
    private static func literal(_ text: String, _ dialect: SQLDialect) -> String {
        let usual = dialect.literal(text)
        guard dialect.engine == .mariaDB, usual.utf8.first != UInt8(ascii: "'") else {
            return usual
        }
        return "CONVERT(UNHEX('\(Hex.text(Array(text.utf8)))') USING utf8mb4) COLLATE utf8mb4_bin"
    }

    /// A column as text of which two are equal only in the same case and with the same accents, whatever the
    /// column's own collation is.
    private static func exact(_ column: CatalogColumn, _ dialect: SQLDialect) -> String {
        let name = dialect.quoted(column.name)
        return dialect.engine == .mariaDB
            ? "CONVERT(\(name) USING utf8mb4) COLLATE utf8mb4_bin"
            : "CAST(\(name) AS TEXT) COLLATE BINARY"
    }

    private init(_ name: String, _ condition: String, _ table: LookedTable) {
        self.name = Self.free(name, in: table.catalog)
        type = table.dialect.engine == .mariaDB ? "TINYINT" : "INTEGER"
        expression = condition
    }

    /// A name that no column has.
    private static func free(_ name: String, in table: CatalogTable) -> String {
        var (free, number) = (name, 1)
        while table.column(free) != nil {
            number += 1
            free = "\(name)_\(number)"
        }
        return free
    }

    /// A column of times that can be read; nil for a column that can be read as it is or in no way.
    init?(times column: CatalogColumn, _ form: TimeForm, of table: LookedTable) {
        let name = table.dialect.quoted(column.name)
        let isServer = table.dialect.engine == .mariaDB
        switch form {
        case .usable, .unread: return nil
        case .date:
            type = isServer ? "DATETIME(3)" : "TEXT"
            expression = isServer ? Self.endOfDay(name) : Self.textOfDay(name)
        case .text:
            guard isServer else { return nil }
            type = "DATETIME(6)"
            expression = TextTime.expression(column.isInteger ? "CAST(\(name) AS CHAR)" : name)
        case .number(let unit):
            timeType = .epochMilliseconds
            type = isServer ? "BIGINT" : "INTEGER"
            expression =
                isServer
                ? Self.milliseconds(name, unit, isText: column.isText)
                : Self.milliseconds(inSQLite: name, unit)
        }
        self.name = Self.free(
            timeType == nil ? "\(column.name)_time" : "\(column.name)_epoch", in: table.catalog)
    }

    private static func endOfDay(_ name: String) -> String {
        "CASE WHEN DAYOFMONTH(\(name)) > 0 AND MONTH(\(name)) > 0 "
            + "THEN TIMESTAMPADD(MICROSECOND, 86399999000, \(name)) "
            // A part of a date.
            + "WHEN YEAR(\(name)) > 0 OR MONTH(\(name)) > 0 OR DAYOFMONTH(\(name)) > 0 "
            + "THEN \(TextTime.later) END"
    }

    /// Other texts stay: a run reads them, or says that it cannot.
    private static func textOfDay(_ name: String) -> String {
        "CASE WHEN \(name) GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' "
            + "AND length(CAST(\(name) AS BLOB)) = 10 "
            + "THEN \(name) || ' 23:59:59.999' ELSE \(name) END"
    }

    /// Milliseconds of a number on a server, rounded up; 1, which is no time, for what cannot be meant.
    private static func milliseconds(_ name: String, _ unit: Int64, isText: Bool) -> String {
        let number = isText ? "CAST(\(name) AS DECIMAL(38,20))" : name
        let scaled =
            unit == 1 ? "\(number) * 1000" : unit == 1_000 ? number : "\(number) / 1000"
        let value =
            "CASE WHEN \(number) <= 0 THEN NULL WHEN \(number) < \(limit(unit)) "
            + "THEN CAST(CEILING(\(scaled)) AS SIGNED) WHEN \(name) IS NOT NULL THEN 1 END"
        guard isText else { return value }
        return "CASE WHEN \(name) NOT REGEXP '[^ ]' THEN NULL "
            + "WHEN \(name) REGEXP '^[0-9]{1,18}([.][0-9]{1,20})?$' AND \(name) NOT REGEXP '[^0-9.]' "
            + "THEN \(value) WHEN \(name) IS NOT NULL THEN 1 END"
    }

    private static func milliseconds(inSQLite name: String, _ unit: Int64) -> String {
        let number =
            "CASE WHEN typeof(\(name)) = 'text' THEN CAST(\(name) AS NUMERIC) ELSE \(name) END"
        let scaled =
            unit == 1 ? "(\(number)) * 1000" : unit == 1_000 ? number : "(\(number)) / 1000.0"
        let isNumber =
            "typeof(\(name)) IN ('integer', 'real') OR typeof(\(name)) = 'text' "
            + "AND \(name) GLOB '[0-9]*' AND \(name) NOT GLOB '*[^0-9.]*' "
            + "AND \(name) NOT GLOB '*.*.*' AND \(name) NOT GLOB '*.' "
            + "AND instr(CAST(\(name) AS BLOB), x'00') = 0"
        return
            "CASE WHEN \(name) IS NULL OR \(name) = '' THEN NULL "
            + "WHEN NOT (\(isNumber)) THEN 1 WHEN (\(number)) <= 0 THEN NULL "
            + "WHEN (\(number)) < \(limit(unit)) "
            + "THEN CAST(\(scaled) AS INTEGER) + (\(scaled) > CAST(\(scaled) AS INTEGER)) ELSE 1 END"
    }

    /// The least number that is no time.
    private static func limit(_ unit: Int64) -> String {
        switch unit {
        case 1: "\(NumberTime.limit / 1_000)"
        case 1_000: "\(NumberTime.limit)"
        default: "\(NumberTime.limit)000"
        }
    }
}

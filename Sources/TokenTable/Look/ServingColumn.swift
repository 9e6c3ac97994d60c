// Some shapes cannot be read or searched as they are: a JSON document, an address, a DATE, a time as text.
// A generated column serves most of them: the database computes it, no application has to change, and an
// index on it finds tokens. It is written for the engine's own expressions, and named after its origin.

import Database
import Encodings

/// A generated column that serves a column which cannot be used as it is.
struct ServingColumn {
    let name: String
    /// The type in the statement, and the type of its times in the settings.
    let type: String
    var timeType: TimeColumnType?
    let expression: String
    var isIndexed = false

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
        let name = dialect.quoted(column.name)
        let isServer = dialect.engine == .mariaDB
        let expression: String
        switch form {
        case .hex, .bytes, .spelled(.several): return nil
        case .spelled(.grouped):
            expression = separators.sorted().reduce(name) { text, byte in
                let sign = dialect.literal(String(decoding: [byte], as: UTF8.self))
                return "REPLACE(\(text), \(sign), '')"
            }
        case .spelled(.prefixed(let word)):
            expression = "SUBSTR(\(name), \(word.unicodeScalars.count + 1))"
        case .spelled(.base64):
            guard isServer else { return nil }
            expression = "HEX(FROM_BASE64(REPLACE(REPLACE(\(name), '-', '+'), '_', '/')))"
        case .url:
            expression =
                isServer
                ? "SUBSTRING_INDEX(\(name), '/', -1)"
                : "replace(\(name), rtrim(\(name), replace(\(name), '/', '')), '')"
        case .json(let path): expression = Self.text(at: path, of: name, dialect)
        }
        self.name = Self.free("\(column.name)_hex", in: table)
        type = isServer ? "VARCHAR(255)" : "TEXT"
        // The application may store anything, and no row of its own may be refused for this column.
        self.expression = isServer ? "LEFT(LOWER(\(expression)), 255)" : "LOWER(\(expression))"
        isIndexed = true
    }

    /// A column of the text at a place of a JSON document.
    init(json path: [String], in column: CatalogColumn, of table: LookedTable) {
        let dialect = table.dialect
        let isServer = dialect.engine == .mariaDB
        name = Self.free("\(column.name)_\(path.last ?? "")", in: table.catalog)
        type = isServer ? "VARCHAR(64)" : "TEXT"
        let text = Self.text(at: path, of: dialect.quoted(column.name), dialect)
        expression = isServer ? "LEFT(\(text), 64)" : text
    }

    private static func text(at path: [String], of name: String, _ dialect: SQLDialect) -> String {
        let place = dialect.literal(JSONPath.text(path))
        return dialect.engine == .mariaDB
            ? "CASE WHEN JSON_VALID(\(name)) THEN JSON_UNQUOTE(JSON_EXTRACT(\(name), \(place))) END"
            : "CASE WHEN json_valid(\(name)) THEN json_extract(\(name), \(place)) END"
    }

    /// A column that is `1` where another one has a word within longer ones.
    init(saying word: String, in column: CatalogColumn, of table: LookedTable) {
        self.init(
            "is_apple",
            "\(table.dialect.quoted(column.name)) LIKE \(table.dialect.literal("%\(word)%"))",
            table)
    }

    /// A column that is `1` where another one has one of some words.
    init(saying words: [String], in column: CatalogColumn, of table: LookedTable) {
        let list = words.map { column.isInteger ? $0 : table.dialect.literal($0) }
        self.init(
            "is_apple", "\(table.dialect.quoted(column.name)) IN (\(list.joined(separator: ", ")))",
            table)
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
        let dialect = table.dialect
        let name = dialect.quoted(column.name)
        let isServer = dialect.engine == .mariaDB
        let whole = isServer ? "SIGNED" : "INTEGER"
        switch form {
        case .usable: return nil
        case .date:
            timeType = nil
            type = isServer ? "DATETIME" : "TEXT"
            expression = isServer ? "CAST(\(name) AS DATETIME)" : "\(name) || ' 00:00:00'"
        case .text(let format):
            guard isServer else { return nil }
            type = "DATETIME(3)"
            let text = "REPLACE(REPLACE(LEFT(\(name), 19), 'T', ' '), 'Z', '')"
            // Other texts would be refused, or read as the year 0.
            expression =
                format.isEmpty
                ? "CASE WHEN \(name) LIKE '____-__-__ __:__:__%' OR \(name) LIKE '____-__-__T__:__:__%' "
                    + "THEN STR_TO_DATE(\(text), '%Y-%m-%d %H:%i:%s') END"
                : "CASE WHEN \(name) REGEXP '^[0-9]{14}' THEN STR_TO_DATE(LEFT(\(name), 14), "
                    + "'\(format)') END"
        case .number(let unit, let isExact):
            timeType = unit == 1 ? .epochSeconds : .epochMilliseconds
            type = isServer ? "BIGINT" : "INTEGER"
            let scaled =
                unit == 1_000_000 ? (isServer ? "\(name) DIV 1000" : "\(name) / 1000") : name
            expression = isExact && isServer ? scaled : "CAST(\(scaled) AS \(whole))"
        }
        self.name = Self.free(
            timeType == nil ? "\(column.name)_time" : "\(column.name)_epoch", in: table.catalog)
    }
}

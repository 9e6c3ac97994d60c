// A statement that is printed is run by somebody who trusts it, and what its expression makes of the rows shows
// only later, as a table without tokens. Engines and versions read the same expression in other ways: a key of
// JSON that is written with an escape, a pattern under a collation that takes cases for one. So each expression
// runs in a SELECT over sampled rows first, beside the columns from which the look has read the same thing, and
// only one that agrees in every row is printed.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

/// What the expression of a column that would serve has to give in the rows.
struct ServingTrial {
    let serving: ServingColumn
    /// The columns by which its values are judged.
    let columns: [CatalogColumn]
    /// Whether the values beside some rows are those that the look reads in them; nil for rows that say
    /// nothing.
    let judge: (LookedTable, [SQLValue]) -> [Bool?]

    var expression: ExactText { ExactText(serving.expression) }

    /// A column of tokens in hex.
    init(_ serving: ServingColumn, tokens form: TokenForm, in column: CatalogColumn) {
        self.serving = serving
        columns = [column]
        judge = { table, made in
            zip(table.values(column.name), made).map { origin, value in
                form.token(in: origin, of: column).map { value.text?.isExactly($0) == true }
            }
        }
    }

    /// A column that has a word, or is 1, in the rows of which `isMeant` says so.
    init(
        _ serving: ServingColumn, columns: [CatalogColumn], has expected: SQLValue,
        where isMeant: @escaping (LookedTable) -> [Bool?]
    ) {
        (self.serving, self.columns) = (serving, columns)
        judge = { table, made in
            zip(isMeant(table), made).map { isMeant, value in
                isMeant.map { $0 == (value == expected) }
            }
        }
    }

    /// A column of the times of another one.
    init(_ serving: ServingColumn, times column: CatalogColumn) {
        self.serving = serving
        columns = [column]
        judge = { table, made in
            let storage: TimeColumn.Storage =
                serving.timeType == .epochMilliseconds
                ? .epochMilliseconds
                : table.dialect.engine == .mariaDB
                    ? .wallClock(fraction: 6, offset: 0) : .text(offset: 0)
            let time = TimeColumn(name: serving.name, storage: storage)
            let times = TimeLook(column, of: table)?.times ?? []
            return zip(times, made).map { known, value in
                known.map { time.registration(value) == $0 }
            }
        }
    }

    /// What speaks against the expression, as a clause; nil where all rows of a sample have what they should.
    ///
    /// - Throws: any failure of a query but that the database refuses the expression.
    func fault(
        _ sampling: RowSampling, of catalog: CatalogTable, _ session: DatabaseSession,
        now: EpochMilliseconds
    ) throws(StoreFailure) -> String? {
        let dialect = session.connection.dialect
        var refusal = ""
        let rows = try session.retries.retrying("trying an expression on rows of \(catalog.name)") {
            () throws(SQLFailure) in
            do throws(SQLFailure) {
                return try sampling.rows(columns, and: serving.converted).all
            } catch {
                guard [.configuration, .refused, .other].contains(error.kind) else { throw error }
                refusal = error.message
                return []
            }
        }
        guard refusal.isEmpty else {
            return
                "the database refuses the expression that would make hex or times of it (\(refusal))"
        }
        let table = LookedTable(
            catalog: catalog, columns: columns, rows: rows.map { $0.prefix(columns.count) },
            now: now, dialect: dialect)
        let judged = judge(table, rows.map { $0.last ?? .null }).compactMap { $0 }
        let wrong = judged.count { !$0 }
        guard wrong > 0 else { return nil }
        return
            "the database's own expression for it gives something else in \(wrong) of \(judged.count) rows tried"
            + (dialect.engine == .sqlite && serving.expression.contains("json_")
                ? " (many versions of SQLite find no key that has a quote or is written with an escape)"
                : "")
    }
}

extension TokenForm {
    /// The token in a value of this form as lower-case hex; nil for a value of another form.
    func token(in value: SQLValue, of column: CatalogColumn) -> String? {
        guard TokenForm(value, of: column) == self else { return nil }
        let text: [UInt8]
        switch value {
        case .text(let word): text = Array(word.utf8)
        case .bytes(let bytes): text = bytes
        default: return nil
        }
        let token: [UInt8]
        switch self {
        case .hex: token = text
        case .bytes: return Hex.text(text)
        case .url: token = text.split(separator: UInt8(ascii: "/")).last.map(Array.init) ?? []
        case .spelled(.grouped): token = text.filter { Hex.value(of: $0) != nil }
        case .spelled(.prefixed(let word)): token = Array(text.dropFirst(word.utf8.count))
        case .spelled(.base64):
            return UnfindableSpelling.bytes(ofBase64: text).map { Hex.text($0) }
        case .spelled(.several): return nil
        case .json(let path):
            token = Array((JSONValue(document: text)?[path]?.text ?? "").utf8)
        }
        return String(decoding: token, as: UTF8.self).lowercased()
    }
}

import CSQLite

// Values are passed by length, as the bytes in the file. As C strings, text would end at a NUL, and
// bytes that are not UTF-8 would be replaced by U+FFFD: a key that was cut is the key of another row,
// and a before-image with a replaced byte restores a different row.

/// One prepared statement of SQLite. Used on the connection's thread only.
final class SQLiteStatement {
    private let connection: OpaquePointer
    private let statement: OpaquePointer

    /// Prepares a statement on an open connection, which has to outlive this object.
    ///
    /// - Throws: SQLite's error about the statement.
    init(_ connection: OpaquePointer, _ sql: String) throws(SQLFailure) {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(connection, sql, -1, &statement, nil)
        guard code == SQLITE_OK, let statement else {
            throw .sqlite(
                code: code,
                message: code == SQLITE_OK ? "an empty statement" : Self.message(connection))
        }
        self.connection = connection
        self.statement = statement
    }

    deinit { sqlite3_finalize(statement) }

    private static func message(_ connection: OpaquePointer) -> String {
        sqlite3_errmsg(connection).map { String(cString: $0) } ?? "SQLite error"
    }

    private var failure: SQLFailure {
        .sqlite(code: sqlite3_errcode(connection), message: Self.message(connection))
    }

    private func noRows() -> SQLRows {
        let count = sqlite3_column_count(statement)
        return SQLRows(
            width: Int(count),
            names: (0..<count).map {
                sqlite3_column_name(statement, $0).map { String(cString: $0) } ?? ""
            })
    }

    /// Runs the statement, and reads rows until they have more than `mostBytes` bytes.
    ///
    /// - Throws: SQLite's error.
    func rows(_ values: [SQLValue], mostBytes: Int) throws(SQLFailure) -> SQLRows {
        try bind(values)
        defer { reset() }
        var rows = noRows()
        while rows.bytes <= mostBytes, try step() {
            for column in 0..<sqlite3_column_count(statement) { rows.append(value(column)) }
        }
        return rows
    }

    /// Runs the statement to its end; returns the number of rows it found.
    ///
    /// - Throws: SQLite's error.
    func run(_ values: [SQLValue]) throws(SQLFailure) -> Int {
        try bind(values)
        defer { reset() }
        while try step() {}
        return Int(sqlite3_changes(connection))
    }

    /// Advances to the next row; false at the end.
    private func step() throws(SQLFailure) -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw failure
        }
    }

    /// Resets the statement for its next use. The call repeats the error of the last step, which
    /// was thrown then.
    private func reset() {
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
    }

    // MARK: Values in

    private func bind(_ values: [SQLValue]) throws(SQLFailure) {
        guard values.count == Int(sqlite3_bind_parameter_count(statement)) else {
            throw SQLFailure(
                kind: .other, code: Int(SQLITE_RANGE),
                message: "\(values.count) values for \(sqlite3_bind_parameter_count(statement)) "
                    + "places in a statement")
        }
        for (index, value) in values.enumerated() {
            let code = bind(value, at: CInt(index + 1))
            guard code == SQLITE_OK else {
                reset()
                throw .sqlite(code: code, message: Self.message(connection))
            }
        }
    }

    private func bind(_ value: SQLValue, at place: CInt) -> CInt {
        switch value {
        case .null: sqlite3_bind_null(statement, place)
        case .integer(let number): sqlite3_bind_int64(statement, place, number)
        case .unsigned(let number): bind(text: String(number), at: place)
        case .real(let number): sqlite3_bind_double(statement, place, number)
        case .text(let text): bind(text: text.string, at: place)
        case .rawText(let bytes): bytes.withUnsafeBytes { bind(text: $0, at: place) }
        case .bytes(let bytes):
            bytes.withUnsafeBytes { buffer in
                // A nil pointer would bind NULL.
                buffer.isEmpty
                    ? sqlite3_bind_zeroblob(statement, place, 0)
                    : sqlite3_bind_blob64(
                        statement, place, buffer.baseAddress, UInt64(buffer.count), Self.copied)
            }
        case .wallClock(let clock): bind(text: clock.text(fraction: 3), at: place)
        }
    }

    private func bind(text: String, at place: CInt) -> CInt {
        var text = text
        return text.withUTF8 { bind(text: UnsafeRawBufferPointer($0), at: place) }
    }

    private func bind(text: UnsafeRawBufferPointer, at place: CInt) -> CInt {
        let bytes = text.bindMemory(to: CChar.self)
        guard let base = bytes.baseAddress else {
            return sqlite3_bind_text(statement, place, "", 0, Self.copied)
        }
        return sqlite3_bind_text64(
            statement, place, base, UInt64(bytes.count), Self.copied, UInt8(SQLITE_UTF8))
    }

    /// SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
    private static var copied: sqlite3_destructor_type {
        unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    }

    // MARK: Values out

    private func value(_ column: CInt) -> SQLValue {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(statement, column))
        case SQLITE_BLOB: .bytes(bytes(sqlite3_column_blob(statement, column), column))
        case SQLITE_TEXT: text(bytes(sqlite3_column_text(statement, column), column))
        default: .null
        }
    }

    /// The length is read after the bytes, in the order that SQLite requires.
    private func bytes(_ start: UnsafeRawPointer?, _ column: CInt) -> [UInt8] {
        let count = Int(sqlite3_column_bytes(statement, column))
        return Array(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count))
    }

    private func text(_ bytes: [UInt8]) -> SQLValue {
        String(validating: bytes, as: UTF8.self).map(SQLValue.text) ?? .rawText(bytes)
    }
}

extension SQLFailure {
    /// Classifies an error of SQLite by its primary code (https://www.sqlite.org/rescode.html).
    static func sqlite(code: CInt, message: String) -> SQLFailure {
        let primary = code & 0xFF
        let kind: Kind =
            switch primary {
            case SQLITE_BUSY, SQLITE_LOCKED: .conflict
            case SQLITE_READONLY: .readOnly
            case SQLITE_PERM, SQLITE_AUTH, SQLITE_CANTOPEN: .permission
            // A trigger of the row runs itself.
            case SQLITE_ERROR where message.contains("levels of trigger recursion"): .refused
            case SQLITE_ERROR, SQLITE_NOTADB, SQLITE_CORRUPT, SQLITE_MISMATCH, SQLITE_TOOBIG:
                .configuration
            case SQLITE_CONSTRAINT: .refused
            default: .other
            }
        return SQLFailure(
            kind: kind, code: Int(primary), message: message, exactCode: Int(code))
    }
}

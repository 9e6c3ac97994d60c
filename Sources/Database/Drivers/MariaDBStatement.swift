import CMariaDB

/// One prepared statement with the memory of its parameters and columns. All C allocations live
/// exactly as long as this object.
///
/// The columns are those that the server describes when it runs the statement: MySQL describes no
/// columns of SHOW REPLICA STATUS when it prepares it, and other types where parameters decide them.
final class MariaDBStatement {
    private let handle: UnsafeMutablePointer<MYSQL>
    private let statement: UnsafeMutablePointer<MYSQL_STMT>
    private let parameters: MariaDBParameters
    /// The columns of the last execution's result; nil before the first, and where it has none.
    private var columns: MariaDBColumns?

    /// Prepares a statement on an open handle, which has to outlive this object.
    init(_ handle: UnsafeMutablePointer<MYSQL>, _ sql: String) throws(SQLFailure) {
        guard let statement = mysql_stmt_init(handle) else {
            throw .mariaDB(code: mysql_errno(handle), message: String(cString: mysql_error(handle)))
        }
        guard mysql_stmt_prepare(statement, sql, UInt(sql.utf8.count)) == 0 else {
            let failure = Self.failure(statement)
            mysql_stmt_close(statement)
            throw failure
        }
        self.handle = handle
        self.statement = statement
        parameters = MariaDBParameters(count: Int(mysql_stmt_param_count(statement)))
    }

    deinit { mysql_stmt_close(statement) }

    private static func failure(_ statement: UnsafeMutablePointer<MYSQL_STMT>) -> SQLFailure {
        .mariaDB(
            code: mysql_stmt_errno(statement),
            message: String(cString: mysql_stmt_error(statement)),
            state: String(cString: mysql_stmt_sqlstate(statement)))
    }

    /// Sends the parameters and runs the statement.
    func execute(_ values: [SQLValue]) throws(SQLFailure) {
        guard values.count == parameters.count else {
            throw SQLFailure(
                kind: .other, code: 2034,
                message: "\(values.count) values for \(parameters.count) places in a statement")
        }
        if parameters.count > 0 {
            parameters.fill(values)
            guard mysql_stmt_bind_param(statement, parameters.binds) == 0 else {
                throw Self.failure(statement)
            }
        }
        guard mysql_stmt_execute(statement) == 0 else { throw Self.failure(statement) }
        takeColumns()
    }

    private func takeColumns() {
        let width = Int(mysql_stmt_field_count(statement))
        guard width > 0, let fields = mariadb_stmt_fetch_fields(statement) else {
            columns = nil
            return
        }
        let described = UnsafeBufferPointer(start: fields, count: width)
        if columns?.fit(described) != true { columns = MariaDBColumns(described) }
    }

    /// Reads the rows of a result that nobody wants: left on the connection, they would be the answer
    /// to the next statement.
    func discardRows() {
        if columns != nil { mysql_stmt_free_result(statement) }
    }

    /// Rows the last execution found, changed or not (CLIENT_FOUND_ROWS).
    var foundRows: Int {
        let count = mysql_stmt_affected_rows(statement)
        return count == .max ? 0 : Int(clamping: count)
    }

    /// Reads all rows from the connection, and keeps those up to the one with which they exceed
    /// `mostBytes`.
    func fetch(mostBytes: Int) throws(SQLFailure) -> SQLRows {
        guard let columns else { return SQLRows(width: 1) }
        var rows = SQLRows(width: columns.count, names: columns.names)
        // Reads the rows that are left one by one and drops them.
        defer { mysql_stmt_free_result(statement) }
        try bind(columns)
        while rows.bytes <= mostBytes, try fetchRow(columns, into: &rows) {}
        return rows
    }

    private func bind(_ columns: MariaDBColumns) throws(SQLFailure) {
        guard mysql_stmt_bind_result(statement, columns.binds) == 0 else {
            throw Self.failure(statement)
        }
    }

    /// Reads the next row; false at the end.
    private func fetchRow(
        _ columns: MariaDBColumns, into rows: inout SQLRows
    ) throws(SQLFailure) -> Bool {
        switch mysql_stmt_fetch(statement) {
        case 0, MYSQL_DATA_TRUNCATED:
            for column in 0..<columns.count {
                rows.append(try columns.value(column, of: statement))
            }
            return true
        case MYSQL_NO_DATA: return false
        default:
            // An error among the rows, such as a lock that was not available, stays on the
            // connection and is not copied to the statement (Connector/C 3.3).
            throw mysql_stmt_errno(statement) != 0
                ? Self.failure(statement)
                : .mariaDB(
                    code: mysql_errno(handle), message: String(cString: mysql_error(handle)))
        }
    }
}

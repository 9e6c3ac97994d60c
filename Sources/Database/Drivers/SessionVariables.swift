// A server's defaults, an account and init_connect may give a session any values. Some shorten a result in
// silence (sql_select_limit), refuse it (max_join_size), convert or reorder it, or let a change pass that should
// be refused. So all that this program relies on stands in one table, and is set at each login.
//
//   always   known to every version of both engines, and settable by any account: set in one statement
//   others   asked for, and set where the server knows the variable and its value differs. Some need a right,
//            which nobody has to grant where the value is right already
//
// Left out is what changes only speed or memory, and what only a DDL statement sees that names it itself.

/// A variable of a server's session with the value that this program relies on.
struct SessionVariable: Hashable, Sendable {
    /// Its name.
    let name: String
    /// The value as the server shows it; the word DEFAULT is not quoted.
    let value: String
    /// What another value would do.
    let reason: String

    /// The assignment in a SET SESSION statement.
    var assignment: String {
        let isNumber = !value.isEmpty && value.allSatisfy { $0.isNumber || $0 == "." }
        return "\(name) = \(isNumber || value == "DEFAULT" ? value : "'\(value)'")"
    }

    /// Other values that are as good, in capitals.
    private let others: [String]

    private init(
        _ name: String, _ value: String, _ reason: String, orElse others: [String] = []
    ) {
        (self.name, self.value, self.reason, self.others) = (name, value, reason, others)
    }

    private static let unlimited = "18446744073709551615"

    /// The variables that every server knows. `lockWait` is the wait for a lock of a row, in seconds.
    static func always(lockWait: Int) -> [SessionVariable] {
        [
            .init("autocommit", "1", "a statement outside of a transaction is never committed"),
            .init("completion_type", "NO_CHAIN", "COMMIT opens a transaction or disconnects"),
            .init("sql_mode", MariaDBConnection.strictMode, "a value that does not fit is changed"),
            .init("time_zone", "+00:00", "times are read and written in another zone"),
            .init("sql_select_limit", unlimited, "results end early, without a word"),
            .init("max_join_size", unlimited, "reads of many rows are refused"),
            // After max_join_size, which changes it.
            .init("sql_big_selects", "1", "reads of many rows are refused"),
            .init("sql_safe_updates", "1", "a change without a key is taken"),
            .init("sql_auto_is_null", "0", "IS NULL finds the row inserted last"),
            .init("foreign_key_checks", "1", "deleted rows leave orphans"),
            .init("unique_checks", "1", "a key may be inserted twice"),
            .init("max_sort_length", "1024", "keys with a long common start come in any order"),
            .init("group_concat_max_len", "1048576", "joined texts end early"),
            .init("innodb_lock_wait_timeout", "\(lockWait)", "a row is waited for too long"),
            .init("lock_wait_timeout", "86400", "a table that is altered is not waited for"),
            .init("wait_timeout", "28800", "a connection between two chunks is ended"),
            .init("net_read_timeout", "30", "a statement that comes slowly is not read"),
            .init("net_write_timeout", "60", "a result that is read slowly ends"),
            .init("sql_quote_show_create", "1", "rights are listed in a form that is not read"),
            .init("lc_messages", "en_US", "messages that are looked into have other words"),
        ]
    }

    /// The variables of some servers. `idleTransaction` is the time without a statement after which
    /// the server ends a transaction, in seconds.
    static func others(idleTransaction: Int) -> [SessionVariable] {
        [
            .init("sql_log_bin", "ON", "changes never reach a replica"),
            // MariaDB. idle_transaction_timeout: the server learns of the death of a host after 15
            // minutes to hours, and the rows, the checkpoint and the lease would stay locked.
            .init("idle_transaction_timeout", "\(idleTransaction)", "a dead host locks its rows"),
            .init("idle_write_transaction_timeout", "0", "a transaction ends between statements"),
            .init("idle_readonly_transaction_timeout", "0", "a read ends between its blocks"),
            .init("max_statement_time", "0.000000", "long statements are ended"),
            .init("tmp_disk_table_size", unlimited, "sorting many rows is refused"),
            .init("check_constraint_checks", "ON", "values that a check forbids are taken"),
            .init("system_versioning_asof", "DEFAULT", "rows of the past are read"),
            .init("query_cache_type", "OFF", "an answer may come from a cache"),
            .init("wsrep_dirty_reads", "OFF", "a node without its cluster answers"),
            .init("default_regex_flags", "", "REGEXP finds other tokens"),
            .init("in_predicate_conversion_threshold", "1000", "a list of keys becomes a join"),
            .init("optimizer_max_sel_args", "16000", "a list of keys scans, and locks, the table"),
            .init("optimizer_max_sel_arg_weight", "32000", "the same"),
            .init("alter_algorithm", "DEFAULT", "a change of the schema is refused"),
            // MySQL.
            .init("max_execution_time", "0", "long reads are ended"),
            .init("range_optimizer_max_mem_size", "8388608", "a list of keys scans the table"),
            .init(
                "group_replication_consistency", "BEFORE_ON_PRIMARY_FAILOVER",
                "a primary that takes over shows rows without the last commits",
                orElse: ["BEFORE", "AFTER", "BEFORE_AND_AFTER"]),
            .init(
                "show_gipk_in_create_table_and_information_schema", "ON",
                "a key that the server made is not seen"),
        ]
    }

    /// Whether a shown value is this one, or as good.
    func isShown(as value: String) -> Bool {
        ([self.value.uppercased()] + others).contains(value.uppercased())
    }
}

/// Gives an open session the values of the table.
struct SessionPreparation {
    let connection: MariaDBConnection
    let database: String
    let timeouts: StoreTimeouts
    /// Whether the connection changes rows.
    let changes: Bool

    /// The character set and the database are asked for again, because `init_connect` and
    /// `skip-character-set-client-handshake` change them at the login. READ COMMITTED: so FOR UPDATE takes no
    /// gap locks, which would block registrations of other tokens. The own variable keeps triggers of
    /// `schema print --upgrade` from taking a change of this program for a registration.
    func setAlways() throws(SQLFailure) {
        try connection.run("SET NAMES utf8mb4")
        let values = SessionVariable.always(lockWait: timeouts.lockWait).map(\.assignment)
        try connection.run(
            "SET SESSION \(values.joined(separator: ", ")), \(MariaDBConnection.ownMark) = 1")
        try connection.run(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE")
        if !database.isEmpty { try connection.run("USE \(connection.dialect.quoted(database))") }
    }

    /// Sets the other variables where they differ, and returns the longest statement that the server
    /// accepts, in bytes.
    ///
    /// - Throws: `configuration` where a variable differs that the account may not set; any failure
    ///   of asking.
    func setOthers() throws(SQLFailure) -> Int {
        let wanted = SessionVariable.others(
            idleTransaction: changes ? timeouts.idleTransaction : 0)
        let names = (wanted.map(\.name) + [Self.packet]).map(connection.dialect.literal)
        let rows = try connection.query(
            "SHOW SESSION VARIABLES WHERE Variable_name IN (\(names.joined(separator: ", ")))")
        var shown: [String: String] = [:]
        for row in 0..<rows.count {
            shown[rows[row, 0].text?.lowercased() ?? ""] = rows[row, 1].text ?? ""
        }
        guard let most = shown[Self.packet].flatMap({ Int($0) }) else {
            throw SQLFailure(
                kind: .other, code: 0, message: "the server does not show \(Self.packet)")
        }
        for variable in wanted {
            guard let value = shown[variable.name], !variable.isShown(as: value) else { continue }
            try set(variable, insteadOf: value)
        }
        return most
    }

    private func set(
        _ variable: SessionVariable, insteadOf value: String
    ) throws(SQLFailure) {
        do throws(SQLFailure) {
            try connection.run("SET SESSION \(variable.assignment)")
        } catch {
            guard Self.refused.contains(error.code) else { throw error }
            throw SQLFailure(
                kind: .misplaced, code: 0,
                message: "the server begins sessions with \(variable.name) = \(value), under which "
                    + "\(variable.reason), and this account may not set it to \(variable.value) "
                    + "(\(error.code)); change the server's default, or what sets it at the login",
                longest: 400)
        }
    }

    /// ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_OPTION_PREVENTS_STATEMENT, ER_INCORRECT_GLOBAL_LOCAL_VAR.
    private static let refused = [1_227, 1_290, 1_238]
    private static let packet = "max_allowed_packet"
}

import Foundation
import TestSupport
import Testing

@testable import Database

@Suite("Defaults of a server that would change results", .serialized, .needsServer)
struct SessionDefaultsTests {
    private static let tokens = 600

    /// Each variable of the table with a value that hurts. init_connect gives it to every session of an
    /// account that is no administrator.
    private static let hostile: [String: String] = [
        "autocommit": "0", "completion_type": "'CHAIN'", "sql_mode": "'ANSI,HIGH_NOT_PRECEDENCE'",
        "time_zone": "'+09:30'", "sql_select_limit": "50", "max_join_size": "100",
        "sql_big_selects": "0", "sql_safe_updates": "0", "sql_auto_is_null": "1",
        "foreign_key_checks": "0", "unique_checks": "0", "max_sort_length": "64",
        "group_concat_max_len": "4", "innodb_lock_wait_timeout": "1", "lock_wait_timeout": "1",
        "wait_timeout": "1", "net_read_timeout": "1", "net_write_timeout": "1",
        "lc_messages": "'de_DE'", "sql_quote_show_create": "0",
    ]
    private static let hostileMariaDB: [String: String] = [
        "tx_read_only": "1", "tx_isolation": "'SERIALIZABLE'", "idle_transaction_timeout": "1",
        "idle_write_transaction_timeout": "1", "idle_readonly_transaction_timeout": "1",
        "max_statement_time": "0.05", "tmp_disk_table_size": "1024", "check_constraint_checks": "0",
        "system_versioning_asof": "'2020-01-01'", "default_regex_flags": "'EXTENDED'",
        "in_predicate_conversion_threshold": "2", "optimizer_max_sel_args": "1",
        "optimizer_max_sel_arg_weight": "1", "alter_algorithm": "'INSTANT'",
        "wsrep_dirty_reads": "1",
    ]
    private static let hostileMySQL: [String: String] = [
        "transaction_read_only": "1", "transaction_isolation": "'SERIALIZABLE'",
        "max_execution_time": "1", "range_optimizer_max_mem_size": "1",
        "show_gipk_in_create_table_and_information_schema": "0",
        "group_replication_consistency": "'EVENTUAL'",
    ]

    /// What no account without a special right can change, and the query cache, which is off as a whole.
    private static let untouchable: Set = ["sql_log_bin", "query_cache_type"]

    @Test("no default shortens, refuses or converts what sweep, undo and send do")
    func hostileDefaults() throws {
        let isMariaDB = MariaDBServer.isMariaDB
        let all = Self.hostile.merging(isMariaDB ? Self.hostileMariaDB : Self.hostileMySQL) { $1 }
        let assignments = all.sorted { $0.key < $1.key }.map { "\($0) = \($1)" }
        let own = try PrivateServer(
            [
                "--init-connect=SET SESSION character_set_results = latin1, "
                    + assignments.joined(separator: ", ")
            ], isMariaDB: isMariaDB)
        let admin = try own.server.connection()
        try admin.run("CREATE USER 'job'@'%' IDENTIFIED BY 'p'")
        try admin.run("GRANT ALL ON `ps\\_%`.* TO 'job'@'%'")
        func environment(_ database: TokenDatabase) -> [String: String] {
            let place = "\(own.server.host):\(own.server.port)/\(database.name)"
            return [
                "PUSHSWEEP_STORE_URL": "mysql://job@\(place)", "PUSHSWEEP_STORE_PASSWORD": "p",
                "PUSHSWEEP_STORE_TLS_CA": own.server.ca,
            ]
        }
        let stage = try SweepStage(.mariaDB, dead: Self.tokens, on: own.server)
        try expectOwnValues(stage.database, own.server, hostile: Set(all.keys))

        let swept = try stage.json("sweep", environment: environment(stage.database)).ends(0).app(
            has: ["applied": Self.tokens])
        try stage.json(
            "undo", swept.json["run"] as? String ?? "", environment: environment(stage.database)
        ).ends(0).json(has: ["restored": Self.tokens])
        let marks = "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL"
        #expect(try stage.database.count(marks) == 0)

        let sender = try SendStage(.mariaDB, on: own.server)
        try sender.database.register(0..<Self.tokens, at: 1_600_000_000_000)
        try sender.queue(0..<Self.tokens)
        let sent = try sender.json("send", environment: environment(sender.database)).ends(0)
        #expect(try sender.states() == ["sent": Self.tokens], "\(sent.output)")
        withExtendedLifetime(own) {}
    }

    /// Expects the table's values in a session of the account, and that the test sets each of them.
    private func expectOwnValues(
        _ database: TokenDatabase, _ server: MariaDBServer, hostile: Set<String>
    ) throws {
        let settings = server.settings(database: database.name, user: "job", password: "p")
        let session = try DatabaseSession(settings, pacing: hurried())
        let rows = try session.connection.query("SHOW SESSION VARIABLES")
        let shown = Dictionary(
            uniqueKeysWithValues: (0..<rows.count).map {
                (rows[$0, 0].text?.lowercased() ?? "", rows[$0, 1].text ?? "")
            })
        let table =
            SessionVariable.always(lockWait: settings.timeouts.lockWait)
            + SessionVariable.others(idleTransaction: settings.timeouts.idleTransaction)
        for variable in table where shown[variable.name] != nil {
            let value = shown[variable.name] ?? ""
            let switches = ["ON": "1", "OFF": "0"]
            let isSame =
                variable.isShown(as: value) || switches[value] == variable.value
                || Set(value.split(separator: ","))
                    == Set(variable.value.split(separator: ","))
            #expect(isSame, "\(variable.name) is \(value), not \(variable.value)")
            #expect(
                hostile.contains(variable.name) || Self.untouchable.contains(variable.name),
                "the test leaves \(variable.name) as it is")
        }
    }
}

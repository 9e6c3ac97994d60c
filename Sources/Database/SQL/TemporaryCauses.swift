// The numbers of temporary errors say little by themselves, and those of clusters less than most: the
// same number 1047 is an unknown command of a protocol and a node of Galera that left its cluster. A
// person reads them after the retries are over, so the sentence says what holds the statement up, and
// where to look. Sources: the servers' mysqld_error.h, and the numbers that Galera 26.4
// gave in tests.

extension SQLFailure {
    /// What holds a statement up that was tried again, as a clause; nil where the number says it.
    var temporaryCause: String? {
        switch code {
        case 1_047:
            "this node of the cluster takes no statements, because it is not with the majority or still "
                + "joins it: SHOW STATUS LIKE 'wsrep_%' tells in wsrep_cluster_status and wsrep_ready"
        case 1_180:
            "the commit failed on the server, or on one of the servers behind its tables, so look into the "
                + "server's error log"
        case 1_205:
            "another transaction held the rows for longer each time; information_schema.INNODB_TRX lists "
                + "the transactions"
        case 1_213:
            "other transactions, on a cluster also those of other nodes, changed the same rows each time"
        case 2_013 where kind == .lost, 2_026 where kind == .lost && message.contains("timed out"):
            // Inside TLS the library reports a read that took too long as 2026.
            "the server ended the connection, or gave no answer within store.read-timeout; where it runs, "
                + "a lock on the table may hold the statement up"
        case 1_040, 1_203, 1_226: "the limit of connections is reached; max_connections sets it"
        default: nil
        }
    }

    /// What to do about an error whose number has no meaning of its own; nil for other errors.
    var unnamedCause: String? {
        guard code == 1_105 else { return nil }
        return
            "the server gives no number for it; its error log at this moment names the cause; then run again, nothing is lost"
    }

    /// The name of the setting that limits the size of a transaction.
    var limitOfSize: String {
        if message.contains("wsrep_max_ws_rows") { return "wsrep_max_ws_rows" }
        switch code {
        case 1_105, 1_180: return "wsrep_max_ws_size"
        case 1_197: return "max_binlog_cache_size"
        case 1_206: return "innodb_buffer_pool_size"
        default: return "the server's limit for transactions"
        }
    }

    /// Whether a message of Galera says that a transaction is too large (`wsrep_max_ws_rows`,
    /// `wsrep_max_ws_size`). The numbers 1105 and 1180 have other meanings too.
    static func isOfWriteSet(_ message: String) -> Bool {
        message.contains("wsrep_max_ws_") || message.contains("writeset size exceeded")
    }
}

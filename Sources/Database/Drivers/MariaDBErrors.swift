import CMariaDB

// Error numbers of servers (mysqld_error.h, and those of Galera, group replication) and of
// the client library (errmsg.h), classified by the possible reaction. Numbers missing here are
// `other`: never retried without a check, and never reported as an error of the settings.

extension SQLFailure {
    /// Classifies an error of libmariadb.
    static func mariaDB(
        code: UInt32, message: String, state: String = "", whileConnecting: Bool = false
    ) -> SQLFailure {
        var kind = kind(ofMariaDB: Int(code), message)
        // A trigger may give its SIGNAL any number; SQLSTATE class 45 identifies it as a SIGNAL.
        if state.hasPrefix("45") { kind = .refused }
        // Inside TLS the library reports the end of a connection as a TLS error, at any step. That
        // error proves nothing about the server's identity.
        if kind == .untrusted && ends.contains(where: message.contains) { kind = .lost }
        // A connection that ends without notice shows as a TLS error once it is open, and a server
        // that ends it during the handshake is as absent as one that never answers.
        if kind == .untrusted && !whileConnecting { kind = .lost }
        if kind == .lost && whileConnecting { kind = .unreachable }
        return SQLFailure(
            kind: kind, code: Int(code),
            // The server quotes the offending value here, which may be a whole token.
            message: words[code] ?? message)
    }

    /// Messages of this program for errors whose own messages must not be printed: 1062 quotes a
    /// value, and for 5010 the library prints memory that it has reused since.
    private static let words: [UInt32: String] = [
        1062: "duplicate entry for a unique key",
        5010:
            "the server asks for a way to authenticate that would send the password as it is, or that is "
            + "none of ours",
    ]

    /// The server requested an authentication plugin other than the allowed ones.
    static let refusedPlugin = 5010

    /// CR_SSL_CONNECTION_ERROR: TLS cannot begin, on our side or the server's.
    static let tls = 2026

    /// The words before the file by which a server's certificate was judged, at the end of a message.
    static let judgedBy = ", by the authorities in "

    /// The message without that file, whose name may have any words.
    var withoutAuthorities: String {
        message.firstRange(of: Self.judgedBy).map { String(message[..<$0.lowerBound]) } ?? message
    }

    /// The words of OpenSSL and the system for the end of a connection.
    private static let ends = ["unexpected eof", "reset by peer", "Broken pipe", "timed out"]

    /// Whether the error occurred while the server was to prove its identity: the library checks
    /// that before it sends the account. An alert of the server may come later than that (RFC 8446,
    /// 4.4).
    var isOfVerification: Bool {
        let words = ["certificate", "Certificate", "SSL is required", "without encryption"]
        return !message.contains("alert") && words.contains(where: message.contains)
    }

    private static func kind(ofMariaDB code: Int, _ message: String) -> Kind {
        switch code {
        case 1105 where isOfWriteSet(message), 1180 where isOfWriteSet(message),  // Galera
            1197, 1206,  // binary log cache, lock table
            8004:  // TiDB
            .tooLarge
        case 1205, 3572,  // lock wait timeout, at once where it waits for nothing
            1213,  // deadlock
            1317, 1969, 3024,  // statement interrupted, or over its time limit
            1020,  // row changed since read (snapshot isolation)
            9007:  // TiDB: write conflict
            .conflict
        case 1047,  // Galera: node not ready
            1158, 1159, 1160, 1161,  // a connection of the server itself
            1180,  // a commit that failed; the checkpoint shows what became of it
            1053,  // server shutdown in progress
            1927, 2006, 2013, 2055,  // connection killed, gone, lost
            3168, 3169,  // MySQL: the server is going away, the session was killed
            3100,  // group replication: a member that has left its group refuses the commit
            4031:  // MySQL: the connection was idle for too long
            .lost
        case 1040, 1203, 1226,  // too many connections, resource limit
            1129,  // this host was blocked after failed connections
            1461,  // too many prepared statements
            4082,  // MySQL: the memory of connections is used up
            3032,  // MySQL: the server is in offline mode
            3101,  // group replication: transaction rolled back
            9001:  // ProxySQL: no server took the connection in time
            .overloaded
        case 2002, 2003, 2005: .unreachable
        case tls: .untrusted
        case 1290, 1792, 1836: .readOnly
        case 1044, 1045, 1130, 1142, 1143, 1227, 1370, 1698, 1820, 1862, 3118, 3955,
            4151:
            .permission
        case 1049,  // unknown database
            1054, 1109, 1146,  // unknown column, unknown table
            1665,  // READ COMMITTED with a statement-based binary log
            1064, 1071, 1115, 1175, 1193, 1231, 1298,  // statement not understood or refused
            tooLongPacket, 2020, 1251, 1267, 1271, 1412, 2049, 2058, 2059, 5010,
            1176,  // an index that a statement names, and that was dropped or hidden meanwhile
            1709,  // an index over more than a row format holds
            1524, 2061, 3159,  // the way to authenticate, or the encryption that the account needs
            3098, 3161, 3750:  // a table that group replication or the server's rules do not take
            .configuration
        case 1048, 1264, 1265, 1292, 1300, 1364, 1366, 1406, 1411, 1690,  // a value does not fit
            1216, 1217, 1451, 1452,  // foreign keys
            1644, 3819, 4025:  // a trigger's SIGNAL, a check
            .refused
        default: .other
        }
    }
}

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
        case 1_040: "the server's limit of connections is reached; max_connections sets it"
        case 1_203:
            "the server's limit of connections for one account is reached; max_user_connections sets it"
        case 1_226: limitOfAccount
        case 1_461:
            "the server keeps no more prepared statements, of all its clients; a run needs up to a hundred for each "
                + "connection, so raise max_prepared_stmt_count, which is 16382 by default"
        default: nil
        }
    }

    /// What 1226 says: the account has used up a resource that it was given. The server names it in
    /// quotes, and not the cure.
    private var limitOfAccount: String {
        let named = message.split(separator: "'", omittingEmptySubsequences: false)
        let resources = [
            "max_user_connections", "max_queries_per_hour", "max_updates_per_hour",
            "max_connections_per_hour", "max_questions", "max_updates", "max_connections",
        ]
        let resource = named.map { $0.lowercased() }.first(where: resources.contains)
        let words = [
            "max_questions": "MAX_QUERIES_PER_HOUR", "max_updates": "MAX_UPDATES_PER_HOUR",
            "max_connections": "MAX_CONNECTIONS_PER_HOUR",
        ]
        guard let resource else { return "a limit of the account is reached; ALTER USER sets it" }
        let word = words[resource] ?? resource.uppercased()
        return "this is the account's own limit \(word), which ALTER USER ... WITH \(word) sets"
            + (word.hasSuffix("_PER_HOUR") ? "; it counts anew each hour" : "")
    }

    /// ER_NET_PACKET_TOO_LARGE.
    static let tooLongPacket = 1_153

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

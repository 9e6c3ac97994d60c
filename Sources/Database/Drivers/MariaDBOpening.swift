import CMariaDB
import Glibc

// The library's defaults are unsafe for a batch job: plaintext, any certificate, no timeouts, and a server may
// request local files. So every option is set here, whatever its default. After connecting the cipher is
// checked: with verification on, a connection without a cipher is an error even if the library reports
// success. The order inside the library is capability check, TLS handshake, certificate and host name check,
// credentials; so a wrong peer never receives a credential.

/// Opens the connection of one handle to one host.
struct MariaDBOpening {
    /// A fresh handle.
    let handle: UnsafeMutablePointer<MYSQL>
    let endpoint: StoreLocation.Server
    /// One of the endpoint's addresses.
    let address: StoreLocation.Address
    let settings: StoreSettings

    /// Connects and checks the encryption. Throws `SQLFailure`.
    func open() throws(SQLFailure) {
        try setOptions()
        try connect()
        try checkEncryption()
    }

    /// The seconds for a connection, up to the end of its login: a host that takes connections and says
    /// nothing, as one that is paused, has this long too. Where others wait in the list, it is little.
    private var connectLimit: Int {
        endpoint.addresses.count > 1
            ? min(settings.timeouts.connect, Self.longestOfSeveral) : settings.timeouts.connect
    }

    /// The longest wait for one of several hosts, in seconds.
    private static let longestOfSeveral = 3

    /// The authentication methods that a server may request. Other methods send the password in
    /// plain text to any peer (mysql_clear_password, dialog), or are not supported here. Two of
    /// these send it only inside verified TLS or encrypted with the server's key.
    private static let plugins =
        "mysql_native_password,client_ed25519,parsec,caching_sha2_password,sha256_password"

    private func connect() throws(SQLFailure) {
        let opened: UnsafeMutablePointer<MYSQL>?
        switch address {
        case .tcp(let host, let port):
            opened = mysql_real_connect(
                handle, host, endpoint.user, settings.password?.reveal() ?? "", endpoint.database,
                UInt32(port), nil, UInt(CLIENT_FOUND_ROWS))
        case .unixSocket(let path):
            opened = mysql_real_connect(
                handle, nil, endpoint.user, settings.password?.reveal() ?? "", endpoint.database, 0,
                path,
                UInt(CLIENT_FOUND_ROWS))
        }
        guard opened != nil else {
            let code = mysql_errno(handle)
            // The library does not say by which file the server was judged.
            let words = String(cString: mysql_error(handle))
            let authorities =
                code == SQLFailure.tls && words.contains("certificate")
                ? settings.tls.ca.map { SQLFailure.judgedBy + $0 } : nil
            throw .mariaDB(
                code: code, message: words + (authorities ?? ""),
                whileConnecting: true)
        }
    }

    private func setOptions() throws(SQLFailure) {
        func set(_ option: mysql_option, _ value: UInt32) throws(SQLFailure) {
            var value = value
            guard mysql_options(handle, option, &value) == 0 else { throw refusal(of: option) }
        }
        func set(_ option: mysql_option, _ value: String) throws(SQLFailure) {
            guard mysql_options(handle, option, value) == 0 else { throw refusal(of: option) }
        }
        func set(_ option: mysql_option, _ value: Bool) throws(SQLFailure) {
            var value: my_bool = value ? 1 : 0
            guard mysql_options(handle, option, &value) == 0 else { throw refusal(of: option) }
        }
        try set(MYSQL_OPT_CONNECT_TIMEOUT, UInt32(connectLimit))
        try set(MYSQL_OPT_READ_TIMEOUT, UInt32(settings.timeouts.read))
        try set(MYSQL_OPT_WRITE_TIMEOUT, UInt32(settings.timeouts.write))
        try set(MYSQL_OPT_LOCAL_INFILE, UInt32(0))
        try set(MYSQL_OPT_RECONNECT, false)
        try set(MYSQL_SET_CHARSET_NAME, "utf8mb4")
        try set(MYSQL_REPORT_DATA_TRUNCATION, true)
        try set(MARIADB_OPT_RESTRICTED_AUTH, Self.plugins)
        switch address {
        case .tcp: try set(MYSQL_OPT_PROTOCOL, MYSQL_PROTOCOL_TCP.rawValue)
        case .unixSocket: try set(MYSQL_OPT_PROTOCOL, MYSQL_PROTOCOL_SOCKET.rawValue)
        }
        switch settings.tls.mode {
        case .verify:
            let ca = settings.tls.ca
            try checkAuthorities(ca)
            try set(MYSQL_OPT_SSL_ENFORCE, true)
            try set(MYSQL_OPT_SSL_CA, ca ?? StoreTLS.systemCA)
            try set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, true)
            try set(MARIADB_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3")
        case .off:
            try set(MYSQL_OPT_SSL_ENFORCE, false)
            try set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, false)
        }
    }

    /// Refuses a file of authorities that cannot be read, which the library reports without its name, and
    /// a pipe, because the library would wait for a writer.
    private func checkAuthorities(_ ca: String?) throws(SQLFailure) {
        guard let ca else { return }
        var facts = stat()
        let cause: String
        if stat(ca, &facts) != 0 || access(ca, R_OK) != 0 {
            cause = String(cString: strerror(errno)).lowercased()
        } else if facts.st_mode & S_IFMT != S_IFREG {
            cause = "it is not a regular file"
        } else {
            return
        }
        throw SQLFailure(
            kind: .configuration, code: SQLFailure.tls,
            message: "reading the authorities file \(ca): \(cause)")
    }

    private func refusal(of option: mysql_option) -> SQLFailure {
        SQLFailure(
            kind: .configuration, code: Int(option.rawValue),
            message: "the client library refused connection option \(option.rawValue)")
    }

    private func checkEncryption() throws(SQLFailure) {
        guard settings.tls.mode == .verify, mysql_get_ssl_cipher(handle) == nil else { return }
        throw SQLFailure(
            kind: .untrusted, code: SQLFailure.tls,
            message: "the connection came up without encryption")
    }
}

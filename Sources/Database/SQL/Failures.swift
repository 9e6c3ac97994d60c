import Findings

/// An error of a driver, classified by the possible reaction.
package struct SQLFailure: Error, Hashable, Sendable {
    /// The possible reaction to an error.
    package enum Kind: Hashable, Sendable {
        /// The engine rolled the transaction back in favour of another: redo it.
        case conflict
        /// The connection is lost; uncommitted changes are undone.
        case lost
        /// The server accepts no more work for a moment.
        case overloaded
        /// The transaction is larger than the server or its cluster accepts: redo it with fewer
        /// rows.
        case tooLarge
        /// No answer from the address.
        case unreachable
        /// The peer could not prove its identity, or refused to encrypt.
        case untrusted
        /// The server or file accepts no changes; another node may.
        case readOnly
        /// The server is one to which changes must not go: a replica, or several behind a proxy. The
        /// message says what to do.
        case misplaced
        /// The account lacks a right.
        case permission
        /// The statement does not fit the schema: settings and database disagree.
        case configuration
        /// The row or its content is refused: by a trigger, a foreign key, a check, or because a
        /// value does not fit its column. Other rows may still be accepted.
        case refused
        /// Another run has taken the lease: this one must make no more changes.
        case leaseLost
        /// A read found another number of things than there are. Nothing may be decided by it.
        case inconsistent
        /// Any other error.
        case other
    }

    /// The possible reaction to the error.
    package let kind: Kind
    /// The engine's error number.
    package let code: Int
    /// SQLite's extended error number; else that of `code`.
    package let exactCode: Int
    /// The engine's message, limited in length, on one line, without stored values.
    package let message: String

    /// Makes an error; the message is shortened and put on one line.
    package init(
        kind: Kind, code: Int, message: String, exactCode: Int? = nil, longest: Int = 240
    ) {
        self.kind = kind
        self.exactCode = exactCode ?? code
        self.code = code
        let printable = message.unicodeScalars.map { scalar -> Character in
            scalar.value < 0x20 || scalar.value == 0x7F ? " " : Character(scalar)
        }
        self.message = String(printable.prefix(longest))
    }

    /// Whether a row with the same key exists already: 1062 of servers, SQLITE_CONSTRAINT.
    package var isDuplicate: Bool { code == 1062 || code == 19 }

    /// Whether a table is missing or cannot be read. Servers distinguish the two only for accounts
    /// with rights: 1146, 1109 of `information_schema`, SQLite's "no such table", 1142, and 1143 for some of its
    /// columns.
    var isAbsentOrHidden: Bool {
        [1_109, 1_142, 1_143, 1_146].contains(code)
            || code == 1 && message.hasPrefix("no such table")
    }

    /// Whether the connection has to be opened again before any other operation.
    var needsConnection: Bool {
        switch kind {
        case .lost, .unreachable, .overloaded, .readOnly: true
        default: false
        }
    }
}

extension StoreFailure {
    /// SQLITE_CANTOPEN, which the driver returns for a file that does not exist.
    private static let noDatabaseFile = 14

    /// What to do about errors that one setting or the account itself causes, by the engine's number.
    /// Numbers below 1000 are those of SQLite.
    private static func cure(of code: Int) -> String? {
        switch code {
        case noDatabaseFile:
            "make it with `pushsweep schema apply --create-token-table`, or correct store.url"
        case 26: "correct store.url, or move the file away"
        case 1044, 1049:
            "correct the database name in store.url, or give the account rights on it"
        case 1045, 1698:
            "check the user in store.url and the password (store.password-file); an account that REQUIREs "
                + "X509, ISSUER or SUBJECT is refused too, since no client certificate is shown to the "
                + "database: REQUIRE SSL"
        case 1130: "correct the host in store.url, or let the account connect from this host"
        case 1142, 1143: "grant the account this right"
        case SQLFailure.tooLongPacket, 2020:
            "the server's max_allowed_packet is too small: set it to 1048576 or more"
        case 1709:
            "ALTER TABLE that table with ROW_FORMAT=DYNAMIC, which holds longer keys"
        case 1820, 1862: "give the account a new password, and write it into store.password-file"
        case 3118, 4151: "unlock the account, or correct the user in store.url"
        case 3955:
            "too many wrong passwords have blocked the account: correct store.password-file, then unlock it"
        case SQLFailure.tls: "correct store.tls.ca, or let this user read the file"
        case 3159:
            "remove store.tls.mode: off, and name the server's authority in store.tls.ca"
        case 2061:
            "this way to authenticate needs encryption: remove store.tls.mode: off, or give the account "
                + "another plugin"
        case 1524: "give the account a plugin that the server has, such as caching_sha2_password"
        case 1176: "the index was dropped or hidden while this run worked; run again"
        case 3098: "give the table a primary key and InnoDB, as a replication group needs"
        case 3161, 3750: "the server's rules refuse this table; ask its administrator"
        default: nil
        }
    }

    /// Puts an engine's error into a sentence that begins with what was being done. `milliseconds`
    /// is the time for which it was tried again. `isPassing` states whether a server that takes no changes
    /// may be about to take over.
    package init(
        _ failure: SQLFailure, while doing: String, triedFor milliseconds: Double = 0,
        isPassing: Bool = false
    ) {
        let seconds = Int((milliseconds / 1_000).rounded())
        let tried = seconds > 0 ? ", tried again for \(seconds) s" : ""
        let number = failure.code == 0 ? "" : " (\(failure.code))"
        let happened = "\(doing): \(failure.message)\(number)\(tried)"
        switch failure.kind {
        case .permission, .configuration:
            self = Self.misfit(failure, happened)
        case .conflict, .lost, .overloaded:
            let cause = failure.temporaryCause.map { "\($0); " } ?? ""
            self.init(.busy, "\(happened); \(cause)run again, nothing is lost")
        case .tooLarge:
            self.init(
                .configuration,
                "\(happened); the server accepts no transaction of this size, and this one cannot be "
                    + "made smaller; raise "
                    + failure.limitOfSize)
            isOfSize = true
        case .unreachable:
            self.init(.unreachable, "\(happened); check that the database runs and is reachable")
        case .untrusted:
            let sent = failure.isOfVerification ? "no credentials were sent; " : ""
            self.init(
                .untrusted, "\(happened); \(sent)\(Self.cureOfTLS(failure.withoutAuthorities))")
        case .readOnly:
            self.init(.readOnly, "\(happened); run again when the database takes changes")
        case .misplaced where isPassing:
            self.init(.busy, "\(happened); run again once a server takes changes, nothing is lost")
        case .misplaced: self.init(.configuration, "\(doing): \(failure.message)")
        case .refused: self = Self.difference(happened)
        case .leaseLost:
            self.init(
                .stopped, "\(happened); committed changes are kept, run again to continue",
                reason: .lease)
        case .inconsistent:
            self.init(.inconsistent, "\(happened); nothing was decided by it, report this")
        case .other:
            let next = failure.unnamedCause ?? "run again, and report this if it repeats"
            self.init(.busy, "\(happened); \(next)")
        }
    }

    /// The setting that cures a TLS error, by the words of OpenSSL and of the client library.
    private static func cureOfTLS(_ message: String) -> String {
        if ["SSL is required", "without encryption"].contains(where: message.contains) {
            return
                "give the server a certificate (ssl_cert, ssl_key), or write store.tls.mode: off "
                + "where only trusted hosts see the connection"
        }
        // libmariadb's sentence is the last one: it checks the name itself, the chain OpenSSL.
        let ofName = ["hostname", "Hostname", "IP address", "Validation of SSL server certificate"]
        if ofName.contains(where: message.contains) {
            return
                "write the host name of the server's certificate into store.url; where it names no host, as "
                + "one that MySQL made for itself, give the server one with a subjectAltName, or use its "
                + "unix socket, or write store.tls.mode: off where only trusted hosts see the connection"
        }
        if message.contains("no certificate or crl found") {
            return "name a file of PEM certificates in store.tls.ca"
        }
        if ["self-signed", "self signed", "unable to get", "unknown ca"].contains(
            where: message.contains)
        {
            return
                "name the file of the authority that signed the server's certificate in store.tls.ca"
        }
        return "check the host name in store.url, the authority in store.tls.ca and the server's "
            + "certificate"
    }

    /// Puts an error that repeats until a setting or the account changes into a sentence.
    private static func misfit(_ failure: SQLFailure, _ happened: String) -> StoreFailure {
        let code: Code = failure.kind == .permission ? .permission : .configuration
        if let cure = cure(of: failure.code) { return StoreFailure(code, "\(happened); \(cure)") }
        if failure.code == SQLFailure.refusedPlugin {
            return StoreFailure(
                code,
                "\(happened); the password was not sent; check that no other server answers in its place, "
                    + "or give the account another plugin, such as ed25519")
        }
        // SQLite has no accounts, so a file that it may not use is one of another user.
        if code == .permission && failure.code < 1_000 {
            return StoreFailure(code, "\(happened); give this user the right to the file")
        }
        return code == .permission
            ? StoreFailure(code, "\(happened); grant the account this right")
            : difference(happened)
    }

    private static func difference(_ happened: String) -> StoreFailure {
        StoreFailure(
            .configuration, "\(happened); compare the settings under store with the tables",
            hint: ": `pushsweep check` names the difference")
    }
}

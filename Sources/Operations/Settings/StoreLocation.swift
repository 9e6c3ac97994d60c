extension Settings.Store {
    /// Where the token database is. A password in the address is refused: addresses end up in logs
    /// and process lists.
    package enum Location: Sendable, Equatable, CustomStringConvertible {
        /// A file of the embedded engine.
        case sqlite(path: String)
        /// A server over TCP; without user the client library's default.
        case mysql(host: String, port: Int, user: String?, database: String)
        /// A server over a unix socket; without user the client library's default.
        case mysqlSocket(path: String, user: String?, database: String)

        /// The address as settings write it.
        package var description: String {
            switch self {
            case .sqlite(let path): return "sqlite://\(Self.escape(path))"
            case .mysql(let host, let port, let user, let database):
                let shown = host.contains(":") ? "[\(host)]" : host
                return "mysql://\(Self.account(user))\(shown):\(port)/\(Self.escape(database))"
            case .mysqlSocket(let path, let user, let database):
                return "mysql+unix://\(Self.account(user))\(Self.escape(path))"
                    + "?db=\(Self.escape(database))"
            }
        }

        private static func account(_ user: String?) -> String {
            user.map { escape($0) + "@" } ?? ""
        }

        private static func escape(_ text: String) -> String {
            var result = ""
            for character in text {
                switch character {
                case "%": result += "%25"
                case "?": result += "%3F"
                case "#": result += "%23"
                case "@": result += "%40"
                default: result.append(character)
                }
            }
            return result
        }
    }
}

/// Takes an address apart. Messages never quote it, for it may hold a password by mistake.
struct StoreAddressParser {
    /// Where relative paths start.
    let folder: String

    /// Reads one of the three kinds of address.
    func parse(_ text: String) throws(SettingRefusal) -> Settings.Store.Location {
        guard !text.contains("#") else {
            throw SettingRefusal("must not contain #; write %23 where it belongs to a name")
        }
        if let rest = text.droppingPrefix("sqlite://") { return try sqlite(rest) }
        if let rest = text.droppingPrefix("mysql+unix://") { return try socket(rest) }
        if let rest = text.droppingPrefix("mysql://") { return try server(rest) }
        throw SettingRefusal(
            "must start with mysql://, mysql+unix:// or sqlite://, "
                + "such as mysql://pushsweep@db.example.net:3306/push")
    }

    private func sqlite(_ rest: Substring) throws(SettingRefusal) -> Settings.Store.Location {
        guard !rest.contains("?") else {
            throw SettingRefusal("takes no options after sqlite://; remove everything from the ?")
        }
        let path = try decode(rest, "the path")
        guard !path.hasSuffix("/") else {
            throw SettingRefusal(
                "must name a file, such as sqlite:///var/lib/pushsweep/tokens.sqlite")
        }
        return .sqlite(path: try absolutePath(path, folder: folder))
    }

    private func socket(_ rest: Substring) throws(SettingRefusal) -> Settings.Store.Location {
        let example = "such as mysql+unix:///run/mysqld/mysqld.sock?db=push"
        let (user, tail) = try account(rest)
        let halves = tail.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2, let database = halves[1].droppingPrefix("db="),
            !database.contains("&")
        else {
            throw SettingRefusal("must end in ?db= with the name of the database, \(example)")
        }
        guard halves[0].hasPrefix("/") else {
            throw SettingRefusal("must give the whole path of the socket, \(example)")
        }
        return .mysqlSocket(
            path: try decode(halves[0], "the socket"), user: user,
            database: try decode(database, "the database"))
    }

    private func server(_ rest: Substring) throws(SettingRefusal) -> Settings.Store.Location {
        let example = "such as mysql://pushsweep@db.example.net:3306/push"
        guard !rest.contains("?") else {
            throw SettingRefusal("takes no options; TLS and time limits have settings of their own")
        }
        let (user, tail) = try account(rest)
        guard let slash = tail.firstIndex(of: "/") else {
            throw SettingRefusal("must name the database after a /, \(example)")
        }
        let database = tail[tail.index(after: slash)...]
        guard !database.contains("/") else {
            throw SettingRefusal("must name one database, \(example)")
        }
        let (host, port) = try address(tail[..<slash], example)
        return .mysql(
            host: host, port: port, user: user, database: try decode(database, "the database"))
    }

    private func account(
        _ rest: Substring
    ) throws(SettingRefusal) -> (user: String?, rest: Substring) {
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard authority.contains(":") || rest.contains("@") else { return (nil, rest) }
        // An unescaped @ or / in a password must not slip through as part of a host or path.
        guard let sign = rest.lastIndex(of: "@") else { return (nil, rest) }
        let user = rest[..<sign]
        guard !user.contains(":") else {
            throw SettingRefusal(
                "must not hold a password; remove it and name its file with store.password-file")
        }
        guard !user.contains("/"), !user.contains("@") else {
            throw SettingRefusal("has a misplaced @; write %40 where it belongs to a name")
        }
        return (try decode(user, "the user"), rest[rest.index(after: sign)...])
    }

    private func address(
        _ text: Substring, _ example: String
    ) throws(SettingRefusal) -> (host: String, port: Int) {
        var host = text
        var port: Substring?
        if let rest = text.droppingPrefix("["), let end = rest.firstIndex(of: "]") {
            host = rest[..<end]
            let tail = rest[rest.index(after: end)...]
            port = tail.droppingPrefix(":")
            if port == nil, !tail.isEmpty {
                throw SettingRefusal("must have a : between host and port, \(example)")
            }
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            port = text[text.index(after: colon)...]
        }
        guard SettingText.isHost(host) else {
            throw SettingRefusal("must name a host, \(example)")
        }
        guard let port else { return (String(host), 3306) }
        guard let number = wholeNumber(port), (1...65_535).contains(number) else {
            throw SettingRefusal("must have a port from 1 to 65535, \(example)")
        }
        return (String(host), number)
    }

    private func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    private func decode(
        _ text: Substring, _ part: String
    ) throws(SettingRefusal) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(hexDigit),
                let low = rest.popFirst().flatMap(hexDigit)
            else {
                throw SettingRefusal("has a % in \(part) without two hex digits; write %25 for a %")
            }
            bytes.append(high << 4 | low)
        }
        guard !bytes.isEmpty else { throw SettingRefusal("must not leave \(part) empty") }
        guard let decoded = String(validating: bytes, as: UTF8.self),
            !SettingText.hasControlCharacter(decoded)
        else { throw SettingRefusal("has unprintable characters in \(part)") }
        return decoded
    }
}

extension StringProtocol where SubSequence == Substring {
    /// What follows a prefix, or nil.
    func droppingPrefix(_ prefix: String) -> Substring? {
        hasPrefix(prefix) ? dropFirst(prefix.count) : nil
    }
}

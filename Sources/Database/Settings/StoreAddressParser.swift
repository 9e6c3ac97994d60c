import Encodings

/// Takes the address of a token database apart. Messages never quote it, for it may hold a password
/// by mistake.
struct StoreAddressParser {
    /// The folder where relative paths start.
    let folder: String

    /// The most hosts of one address. Each that does not answer costs its time before the next is
    /// tried.
    static let mostHosts = 8

    private static let serverExample = "such as mysql://pushsweep@db.example.net:3306/push"
    private static let socketExample = "such as mysql+unix:///run/mysqld/mysqld.sock?db=push"
    private static let password = Refusal(
        "must not hold a password; remove it and name its file with store.password-file")

    /// Parses one of the three kinds of address.
    func parse(_ text: String) throws(Refusal) -> StoreLocation {
        guard !text.contains("#") else {
            throw Refusal("must not contain #; write %23 where it belongs to a name")
        }
        if let rest = text.droppingPrefix("sqlite://") { return try sqlite(rest) }
        if let rest = text.droppingPrefix("mysql+unix://") { return .server(try socket(rest)) }
        if let rest = text.droppingPrefix("mysql://") { return .server(try server(rest)) }
        throw Refusal(
            "must start with mysql://, mysql+unix:// or sqlite://, \(Self.serverExample)")
    }

    private func sqlite(_ rest: Substring) throws(Refusal) -> StoreLocation {
        guard !rest.contains("?") else {
            throw Refusal("takes no options after sqlite://; remove everything from the ?")
        }
        let path = try decoded(rest, "the path")
        guard !path.hasSuffix("/") else {
            throw Refusal(
                "must name a file, such as sqlite:///var/lib/pushsweep/tokens.sqlite")
        }
        return .sqlite(path: try PlainText.absolutePath(path, folder: folder))
    }

    private func socket(_ rest: Substring) throws(Refusal) -> StoreLocation.Server {
        let (account, tail) = try splitAccount(rest)
        let halves = tail.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves[0].hasPrefix("/"), !halves[0].hasSuffix("/") else {
            throw Refusal("must give the whole path of the socket, \(Self.socketExample)")
        }
        var options = try readOptions(halves.count == 2 ? halves[1] : "")
        guard let database = options.removeValue(forKey: "db") else {
            throw Refusal(
                "must end in ?db= with the name of the database, \(Self.socketExample)")
        }
        var user = account
        if let option = options.removeValue(forKey: "user") {
            guard account == nil else {
                throw Refusal("names the user twice; keep it before the @")
            }
            user = try readUser(option)
        }
        guard options.isEmpty else {
            throw Refusal("takes no options but db and user, \(Self.socketExample)")
        }
        return .init(
            address: .unixSocket(path: try decoded(halves[0], "the socket")),
            user: user ?? StoreLocation.Server.usualUser,
            database: try readDatabase(database, Self.socketExample))
    }

    private func server(_ rest: Substring) throws(Refusal) -> StoreLocation.Server {
        if let question = rest.firstIndex(of: "?") {
            // Checks for a password first, because it has its own message.
            _ = try splitAccount(rest)
            _ = try readOptions(rest[rest.index(after: question)...])
            throw Refusal("takes no options; TLS and time limits have settings of their own")
        }
        let (user, tail) = try splitAccount(rest)
        guard let slash = tail.firstIndex(of: "/") else {
            throw Refusal("must name the database after a /, \(Self.serverExample)")
        }
        return .init(
            addresses: try addresses(tail[..<slash]),
            user: user ?? StoreLocation.Server.usualUser,
            database: try readDatabase(tail[tail.index(after: slash)...], Self.serverExample))
    }

    /// The user before an `@`, if there is one, and the rest after it.
    private func splitAccount(
        _ rest: Substring
    ) throws(Refusal) -> (user: String?, rest: Substring) {
        // The last `@`: an unescaped @ or / in a password must not become part of a host.
        guard let sign = rest.lastIndex(of: "@") else { return (nil, rest) }
        let name = rest[..<sign]
        guard !name.contains(":") else { throw Self.password }
        guard !name.contains("/"), !name.contains("@") else {
            throw Refusal("has a misplaced @; write %40 where it belongs to a name")
        }
        return (try readUser(name), rest[rest.index(after: sign)...])
    }

    /// The options after a `?`, by name, not yet decoded.
    private func readOptions(_ text: Substring) throws(Refusal) -> [String: Substring] {
        var options: [String: Substring] = [:]
        for option in text.split(separator: "&", omittingEmptySubsequences: false)
        where !text.isEmpty {
            let name = option.prefix { $0 != "=" }
            guard !["password", "pass", "passwd", "pwd"].contains(name.lowercased()) else {
                throw Self.password
            }
            guard options.updateValue(option.dropFirst(name.count + 1), forKey: String(name)) == nil
            else { throw Refusal("gives an option twice; keep one") }
        }
        return options
    }

    /// The hosts of a list with commas, in its order.
    private func addresses(
        _ text: Substring
    ) throws(Refusal) -> [StoreLocation.Address] {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count <= Self.mostHosts else {
            throw Refusal("must name at most \(Self.mostHosts) hosts")
        }
        var addresses: [StoreLocation.Address] = []
        var known: Set<String> = []
        for part in parts {
            guard !part.contains(" ") else {
                throw Refusal("must have no space in its list of hosts")
            }
            guard !part.isEmpty || parts.count == 1 else {
                throw Refusal("must have a host before and after each comma")
            }
            let (host, port) = try address(part)
            let address = StoreLocation.Address.tcp(host: host, port: port)
            guard known.insert(address.description.lowercased()).inserted else {
                throw Refusal("names a host with its port twice; keep one")
            }
            addresses.append(address)
        }
        return addresses
    }

    private func address(_ text: Substring) throws(Refusal) -> (host: String, port: Int) {
        var host = text
        var port: Substring?
        if let rest = text.droppingPrefix("["), let end = rest.firstIndex(of: "]") {
            host = rest[..<end]
            let tail = rest[rest.index(after: end)...]
            port = tail.droppingPrefix(":")
            if port == nil, !tail.isEmpty {
                throw Refusal("must have a : between host and port, \(Self.serverExample)")
            }
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            port = text[text.index(after: colon)...]
        }
        guard PlainText.isHost(host) else {
            throw Refusal("must name a host, \(Self.serverExample)")
        }
        guard let port else { return (String(host), 3306) }
        guard let number = PlainText.wholeNumber(port), (1...65_535).contains(number) else {
            throw Refusal("must have a port from 1 to 65535, \(Self.serverExample)")
        }
        return (String(host), number)
    }

    private func readUser(_ text: Substring) throws(Refusal) -> String {
        let name = try decoded(text, "the user")
        // The longest name of MariaDB; MySQL allows 32.
        guard name.unicodeScalars.count <= 128 else {
            throw Refusal("must have a user of at most 128 characters")
        }
        return name
    }

    private func readDatabase(
        _ text: Substring, _ example: String
    ) throws(Refusal) -> String {
        let name = try decoded(text, "the database")
        guard !name.contains("/"), name.unicodeScalars.count <= 64 else {
            throw Refusal("must name one database of at most 64 characters, \(example)")
        }
        return name
    }

    private func decoded(_ text: Substring, _ part: String) throws(Refusal) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Hex.value),
                let low = rest.popFirst().flatMap(Hex.value)
            else {
                throw Refusal("has a % in \(part) without two hex digits; write %25 for a %")
            }
            bytes.append(high << 4 | low)
        }
        guard !bytes.isEmpty else { throw Refusal("must not leave \(part) empty") }
        guard let decoded = String(validating: bytes, as: UTF8.self),
            !PlainText.hasControlCharacter(decoded)
        else { throw Refusal("has unprintable characters in \(part)") }
        return decoded
    }
}

// What names of columns and tables say about their rows, as far as an examination of the settings asks. A name
// decides nothing by itself. A name counts by its words and not by its letters:
// `location_enabled` is not `enabled`, `reason` does not end in `on`, `disconnected_at` is no `connected_at`.
// Names without signs between their words (`lastupdate`, `issandbox`) are taken apart by the words that
// projects use.

import Encodings

/// The words in a column's or table's name.
package struct ColumnWords: Hashable, Sendable {
    /// The words in lower case: `deviceToken`, `device_token` and `devicetoken` have the same.
    package let words: [String]

    package init(_ name: String) {
        var chunks: [String] = [""]
        var before: Character?
        for character in name {
            let isStart = character.isUppercase && before?.isLowercase == true
            if !(character.isLetter || character.isNumber) || isStart { chunks.append("") }
            if character.isLetter || character.isNumber {
                chunks[chunks.count - 1].append(contentsOf: character.lowercased())
            }
            before = character
        }
        words = chunks.filter { !$0.isEmpty }.flatMap { Self.parts($0) ?? [$0] }
    }

    /// The known words of which a text is made; nil where a part is none.
    private static func parts(_ text: String) -> [String]? {
        if text.isEmpty { return [] }
        for word in known where text.hasPrefix(word) {
            if let rest = parts(String(text.dropFirst(word.count))) { return [word] + rest }
        }
        return nil
    }

    /// The longest first, so that `registered` is not `reg` and a rest.
    private static let known = """
        active activity alive android apn apns app apple application archive archived at
        attempt attempts audit auth backup backups bak bidx blind blocked bounced bounces
        bundle callback cancelled changed cipher ciphertext cloud code connected contact
        copy crash crc create created creation crypt crypted date deactivated dead delete
        deleted deliveries delivery demo dev development device devices digest disabled
        disconnected dump enable enabled enc encrypted endpoint endpoints env environment
        error errors event events expired expires expiry export failed fcm feedback first
        flag gcm gone hash hashed hex historical history hmac id identifier import imports in inactive
        inbox index insert inserted installation installations invalid invalidated ios is
        issue job jobs joined key kind last log login logout logs md5 message mobile
        mode modification modified name notification notifications number old on os outbox
        platform prev previous production push pushes queue queued queues receipt refresh
        refreshed register registered registration registrations remember removed report
        reports revoked sandbox saved sealed secret seen send sent service session sha
        snapshot staging stale state status subscribed subscription subscriptions success
        system temp test time timestamp tmp token tokens topic touched type uid uninstalled
        unregistered unsubscribed update updated user users uuid valid verified version
        visit voip watch
        """.split(whereSeparator: \.isWhitespace).map(String.init)
        .sorted { ($1.count, $0) < ($0.count, $1) }

    /// Whether one of the words is among some.
    package func has(_ some: Set<String>) -> Bool { words.contains(where: some.contains) }

    /// Letters and digits in one piece.
    package var squashed: String { words.joined() }

    // MARK: People

    /// Whether a column is that of a person who logs in.
    package var isOfLogin: Bool { has(["password", "passwd", "pwd", "pass", "passhash"]) }

    /// Whether a column holds what its row would take with it when it is removed.
    package var isOfPerson: Bool {
        isOfLogin
            || has([
                "email", "mail", "balance", "wallet", "secret", "session", "refresh", "credit",
                "salary", "phone", "birthday", "birth", "address", "otp",
            ])
    }

    /// Whether a table's name is that of people or accounts, of which each row is more than a device. Our
    /// own table has such a name.
    package var isOfPeople: Bool {
        guard words != ["active", "users"], let last = words.last else { return false }
        return [
            "user", "users", "member", "members", "profile", "profiles", "account", "accounts",
            "customer", "customers", "client", "clients", "person", "persons", "people", "employee",
            "employees", "driver", "drivers", "player", "players", "student", "students",
        ].contains(last)
    }

    // MARK: Environments

    /// Whether the name says that the column tells the environments of APNs apart.
    package var namesEnvironment: Bool {
        has(["env", "environment", "sandbox", "apns", "apn"]) || words == ["mode"]
            || words == ["development"] || words == ["gateway"]
    }

    /// Whether the name says that the column tells the environments of APNs apart, by words or as a flag.
    package var tellsEnvironment: Bool {
        (namesEnvironment || isSandboxFlag || isProductionFlag) && !isOfOtherEnvironment
    }

    /// Whether the name may speak of the environment of something else than APNs: of receipts, servers, releases.
    package var isOfOtherEnvironment: Bool {
        words.last == "demo"
            || has([
                "receipt", "receipts", "storekit", "server", "backend", "workspace", "release",
                "channel",
                "billing", "payment", "payments", "store", "deploy", "deployment", "build", "stage",
                "paypal", "stripe", "braintree", "adyen", "klarna", "iap", "purchase", "purchases",
                "subscription", "user", "account", "customer", "member", "person", "facebook",
                "google",
                "apple", "status", "state", "result", "error", "response", "not", "no", "non",
                "without",
            ])
    }

    package var isSandboxFlag: Bool {
        let rest = words.filter { !["is", "apns", "apn", "push", "token", "device"].contains($0) }
        return has(["sandbox"]) && !has(["token", "key", "id"])
            || ["demo", "development", "dev"].contains(rest.first ?? "") && rest.count == 1
            || rest == ["debug"] && has(["apns", "apn", "push", "token"])
    }

    package var isProductionFlag: Bool {
        let rest = words.filter { !["is", "apns", "apn", "push", "token"].contains($0) }
        return rest == ["production"] || rest == ["prod"] && words.count > 1
    }

    // MARK: Times

    /// Whether the name says that the time is set when the row is made and never again.
    package var isSetOnce: Bool {
        has([
            "created", "create", "creation", "insert", "inserted", "added", "joined", "first",
            "ctime",
        ])
    }

    private static let senderTimes: Set = [
        "sent", "send", "sending", "pushed", "pinged", "polled", "successful", "attempt",
        "attempted",
        "tried", "retry", "queued", "dispatched", "message", "messages", "msg", "alert", "alerted",
        "campaign", "digest", "mailed", "notify", "reminded", "delivery", "error",
    ]

    /// Whether the name is that of a time at which a sender did something: `last_push_t` too.
    package var isOfSender: Bool {
        if has(Self.senderTimes) { return true }
        let rest = words.filter { !Self.timeWords.contains($0) }
        return rest == ["push"] || rest == ["apns"] || rest == ["apn"] || rest == ["pushes"]
    }

    package static let timeWords: Set = [
        "at", "on", "time", "date", "timestamp", "ts", "t", "last", "dt", "epoch", "ms", "utc",
        "latest", "dttm", "dtm", "datetime",
    ]
}

/// The words that the rows of real projects have for a state of a row or a server of Apple.
package enum ValueWords {
    package static let production: Set = [
        "production", "prod", "apns_prod", "apnsprod", "live", "release", "store", "p",
    ]
    package static let sandbox: Set = [
        "sandbox", "development", "dev", "apns_dev", "apnsdev", "apns_test", "debug", "test", "d",
        "s",
    ]
    /// Words that mean an environment only in a column whose name says so.
    package static let ambiguous: Set = [
        "live", "release", "store", "p", "debug", "test", "d", "s",
    ]

    /// Whether a word means an environment whatever the column is called.
    package static func means(_ word: String, _ environment: Set<String>) -> Bool {
        environment.subtracting(ambiguous).contains(word.lowercased())
    }

    /// Whether a flag's word is one of a pair of yes and no.
    package static func flag(_ word: String) -> Bool? {
        switch word.lowercased() {
        case "1", "y", "yes", "true", "t", "on", "j", "ja", "si", "oui": true
        case "0", "n", "no", "false", "f", "off", "nein", "non": false
        default: nil
        }
    }
}

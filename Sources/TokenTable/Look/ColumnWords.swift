// What names of tables and columns say. A name decides nothing by itself: the values do, and the name
// chooses between columns whose values would do. Words are those of real projects' tables.

/// The words in a column's or table's name.
struct ColumnWords: Hashable {
    /// Letters and digits in lower case: `deviceToken` and `device_token` are one name.
    let squashed: String

    init(_ name: String) {
        squashed = name.lowercased().filter { $0.isLetter || $0.isNumber }
    }

    /// Whether the name has one of some words in it.
    func has(_ words: [String]) -> Bool { words.contains { squashed.contains($0) } }

    /// Whether the name is or ends with one of some words.
    func ends(_ words: [String]) -> Bool { words.contains { squashed.hasSuffix($0) } }

    // MARK: Tokens

    /// How much the name speaks for a column of push tokens, from -6 to 6.
    var tokenScore: Double {
        var score = 0.0
        if has(Self.pushTokens) {
            score = 6
        } else if ends(["token", "tokens", "registrationid", "pushid", "regid"]) {
            score = 4
        } else if has(["notificationaddress", "callbackurl", "endpoint", "pushaddress"]) {
            score = 2
        } else if ends(["deviceid", "device", "devices"]) {
            score = 1
        }
        if has(Self.otherSecrets) { score -= 6 }
        if has(["android", "fcm", "gcm", "voip", "huawei", "google"]) { score -= 2 }
        return score
    }

    private static let pushTokens = [
        "pushtoken", "devicetoken", "apnstoken", "apntoken", "iostoken", "tokenhex", "pushkey",
        "appletoken", "notificationtoken",
    ]
    private static let otherSecrets = [
        "session", "refresh", "hash", "sha1", "sha2", "secret", "passw", "csrf", "auth", "remember",
        "verif", "uuid", "magic", "code", "resource", "signature", "digest", "checksum", "nonce",
        "salt", "fingerprint", "invite", "reset", "apikey", "publickey", "privatekey", "access",
        "login", "etag", "guid", "cookie", "payload",
    ]

    /// How much the name of a table speaks for the place where devices register.
    var tableScore: Double {
        // Tables of what was sent have tokens too.
        let isOfSendings =
            has([
                "history", "log", "queue", "archive", "audit", "backup", "outbox", "deliver",
                "message", "feedback", "invalid", "dead", "stale", "bounce", "block",
            ])
            || ends(["notifications", "notification", "pushes", "events", "requests"])
        if isOfSendings { return -2 }
        if has([
            "access", "session", "oauth", "auth", "passw", "reset", "verif", "refresh", "api",
            "invit", "remember", "csrf", "login", "job", "cache",
        ]) && !has(["push", "device", "apn"]) {
            return -4
        }
        return has([
            "device", "push", "apn", "token", "notif", "subscription", "registration", "install",
        ])
            ? 1.5 : 0
    }

    /// Whether the name is that of people or accounts, of which each row is more than a device.
    var isOfPeople: Bool {
        [
            "user", "users", "member", "members", "profile", "profiles", "account", "accounts",
            "customer", "customers", "client", "clients", "person", "people", "employee",
            "employees", "driver", "drivers",
        ].contains { squashed == $0 || squashed == "tc\($0)" || squashed == "tbl\($0)" }
    }

    /// Whether a column holds what its row would take with it when it is removed.
    var isOfPerson: Bool {
        has([
            "passw", "email", "balance", "wallet", "secret", "session", "refresh", "credit",
            "salary",
            "phone", "birth", "address", "otp",
        ])
    }

    // MARK: Other roles

    var namesApp: Bool {
        ends([
            "appid", "appname", "applicationid", "application", "bundleid", "bundle",
            "bundleidentifier", "topic", "apnskey", "appkey", "packagename", "serviceid",
        ]) || squashed == "app"
    }

    var namesEnvironment: Bool {
        has([
            "env", "mode", "sandbox", "develop", "apns", "gateway", "server", "cert", "release",
            "production", "stage",
        ])
    }

    var isSandboxFlag: Bool {
        has(["sandbox", "isdemo", "develop", "isdev", "debug", "istest"])
    }

    var isProductionFlag: Bool { has(["production"]) || ends(["isprod"]) }

    var namesPlatform: Bool {
        has(["platform", "type", "kind", "system", "service", "provider", "vendor"])
            || ends(["os"])
    }

    /// Whether the name of a flag says that its row is used: true for yes, false for the opposite,
    /// nil for neither.
    var saysLiving: Bool? {
        if ends([
            "deleted", "delete", "disabled", "inactive", "invalid", "expired", "revoked",
            "unsubscribed", "unregistered", "uninstalled", "isdead", "bounced",
        ]) {
            return false
        }
        return ends([
            "active", "enabled", "enable", "valid", "alive", "living", "subscribed",
        ]) || ["status", "state"].contains(squashed) ? true : nil
    }

    /// Whether the name is that of a person's choice, which a mark must not overwrite.
    var isPreference: Bool {
        has([
            "push", "notif", "alert", "sound", "badge", "email", "sms", "marketing", "news", "sync",
        ])
    }

    var namesMarkTime: Bool {
        ends(["at", "time", "on", "date"])
            && has([
                "deleted", "disabled", "invalid", "revoked", "deactivated", "unregistered",
                "expired", "uninstalled", "unsubscribed",
            ])
    }

    /// How much the name speaks for the time of the last registration; nil for another time.
    var registrationScore: Double? {
        if has([
            "expir", "grace", "notif", "success", "fail", "sent", "block", "cron", "birth", "until",
            "verified", "deleted", "disabled", "revoked", "invalid", "trial", "start", "end",
            "due", "publish", "password", "read", "clicked", "deliver",
        ]) && !has(["register"]) {
            return nil
        }
        if isSetOnce { return 0.5 }
        if has(["regist"]) { return 5 }
        if has(["seen", "active", "activity"]) { return 4 }
        if has(["contact", "connect", "visit", "checkin", "ping"]) { return 3.5 }
        if has(["updat", "modif", "mtime", "touch", "refresh"]) { return 3 }
        return ["timestamp", "tstamp", "ts", "time", "date"].contains(squashed) ? 2 : 1
    }

    /// Whether the name says that the time is set when the row is made and never again.
    var isSetOnce: Bool { has(["creat", "insert", "added", "joined", "first", "ctime"]) }

    /// Whether the name says that the device itself writes the time whenever it is there.
    var movesWithDevice: Bool { (registrationScore ?? 0) >= 4 }
}

/// The words that the rows of real projects have for a state of a row or a server of Apple.
enum ValueWords {
    static let production: Set = [
        "production", "prod", "apns_prod", "apnsprod", "live", "release", "store", "p",
    ]
    static let sandbox: Set = [
        "sandbox", "development", "dev", "apns_dev", "apnsdev", "apns_test", "debug", "test", "d",
        "s",
    ]
    /// Words that mean an environment only in a column whose name says so.
    static let ambiguous: Set = ["live", "release", "store", "p", "debug", "test", "d", "s"]

    private static let living = [
        "active", "enabled", "valid", "living", "alive", "ok", "registered", "subscribed", "on",
        "yes", "y", "true", "t", "1", "a",
    ]
    /// In the order in which a mark would choose them.
    private static let dead = [
        "inactive", "dead", "invalid", "disabled", "uninstalled", "unregistered", "gone", "deleted",
        "expired", "revoked", "unsubscribed", "off", "no", "n", "false", "f", "0",
    ]

    static func isLiving(_ word: String) -> Bool { living.contains(word.lowercased()) }

    /// The word that a mark would choose; nil where none means a row that is not used.
    static func deadest(_ words: some Sequence<String>) -> String? {
        words.compactMap { word in dead.firstIndex(of: word.lowercased()).map { ($0, word) } }
            .min { $0.0 < $1.0 }?.1
    }

    /// Whether a flag's word is one of a pair of yes and no.
    static func flag(_ word: String) -> Bool? {
        switch word.lowercased() {
        case "1", "y", "yes", "true", "t": true
        case "0", "n", "no", "false", "f": false
        default: nil
        }
    }
}

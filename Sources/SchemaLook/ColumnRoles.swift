// What names of columns say about the part that they may have in a mapping, and of tables (`TableWords`). A name
// decides nothing by itself: the values do, and the name chooses between columns whose values would do.

import Encodings
import TokenTable

extension ColumnWords {
    // MARK: Tokens

    /// How much the name speaks for a column of push tokens, from -10 to 6.
    var tokenScore: Double {
        var score = 0.0
        if Self.pushTokens.contains(where: squashed.contains) {
            score = 6
        } else if ["token", "tokens", "registrationid", "pushid", "regid"].contains(
            where: squashed.hasSuffix)
        {
            score = 4
        } else if ["notificationaddress", "callbackurl", "callback", "endpoint", "pushaddress"]
            .contains(where: squashed.hasSuffix)
        {
            score = 2
        } else if has(["push", "apns", "apn"]) {
            score = 2
        } else if ["deviceid", "device", "devices"].contains(where: squashed.hasSuffix) {
            score = 1
        }
        if isOfSecret { score -= 6 }
        if has(Self.otherTokens) { score -= 4 }
        if has(["android", "fcm", "gcm", "voip", "huawei", "google"]) { score -= 2 }
        return score
    }

    /// Whether a column of that name may have tokens without anything else that says so. Devices have other keys
    /// and numbers of 64 digits.
    var mayNameTokens: Bool {
        tokenScore >= 2 || squashed.contains("token")
            || has(["ios", "apple", "iphone", "ipad", "notification", "notifications"])
    }

    private static let otherTokens: Set = [
        "old", "prev", "previous", "last", "activity", "watch", "widget", "sandbox", "live",
    ]

    /// Whether a row has such a token besides the one to which notifications go.
    var isOfOtherToken: Bool { has(Self.otherTokens) || has(["voip", "pushkit", "complication"]) }

    private static let pushTokens = [
        "pushtoken", "devicetoken", "apnstoken", "apntoken", "iostoken", "tokenhex", "pushkey",
        "appletoken", "notificationtoken",
    ]

    /// Whether the values are secrets, hashes or names of something else than devices.
    var isOfSecret: Bool {
        has([
            "session", "refresh", "hash", "sha1", "sha2", "sha256", "sha", "md5", "secret",
            "password",
            "passwd", "pwd", "csrf", "auth", "remember", "verify", "verification", "verified",
            "uuid",
            "magic", "code", "resource", "signature", "digest", "checksum", "nonce", "salt",
            "fingerprint", "invite", "reset", "public", "private", "access", "login", "etag",
            "guid",
            "cookie", "payload", "apikey", "api", "certificate", "cert", "pem", "hashed", "hmac",
            "encrypted", "encryption", "enc", "crypt", "cipher", "ciphertext", "aes",
            "authentication",
            "authorization", "oauth", "credential", "bearer", "jwt", "otp", "challenge",
            "activation",
            "confirmation", "recovery", "unsubscribe", "invitation", "csum", "blake2", "argon2",
            "crypted", "crypto", "sealed", "secure", "secured", "protected", "obfuscated", "masked",
            "scrambled", "wrapped", "opaque", "blind", "blinded", "bidx", "kms", "hashes", "md",
            "sha3", "sha224", "sha384", "sha512", "mac", "crc", "crc32", "blake", "blake3",
            "bcrypt",
            "scrypt", "kdf", "idempotency", "encryptedtoken", "cyphertext", "cypher",
            "verschluesselt",
            "chiffre", "cifrado",
        ])
    }

    /// The first word behind that for a token which says that the value is something of the token and not the
    /// token: `bidx` of `token_bidx`, `h` of `push_token_h`; nil for none. Words for a device, a form or a
    /// place say nothing of the kind.
    var tokenTail: String? {
        guard let place = words.lastIndex(where: { $0.contains("token") }) else { return nil }
        var rest =
            words[place].split(separator: "token", omittingEmptySubsequences: false).last ?? ""
        if rest.first == "s" { rest = rest.dropFirst() }
        let tail = [String(rest)] + words[(place + 1)...]
        return tail.first { word in
            let digits =
                word.utf8.first == UInt8(ascii: "v") ? word.utf8.dropFirst() : word.utf8[...]
            return !digits.allSatisfy(DecimalDigits.isDigit) && !Self.tokenTails.contains(word)
        }
    }

    private static let tokenTails: Set = [
        // Forms and places of a value.
        "hex", "value", "values", "val", "string", "str", "text", "txt", "data", "raw", "bin",
        "binary", "bytes", "blob", "ascii", "utf8", "base64", "b64", "id", "ids", "key", "no", "nr",
        "num", "number", "new", "current", "actual", "active", "main", "primary", "default",
        "plain",
        "clear", "cleartext", "plaintext", "decrypted", "original", "column", "col", "field", "url",
        "uri", "list", "json", "array", "map", "for", "of", "from", "to", "and",
        // Devices, platforms and environments.
        "device", "devices", "push", "apn", "apns", "apple", "ios", "iphone", "ipad", "macos",
        "watchos", "tvos", "mobile", "phone", "app", "user", "client", "notification",
        "notifications", "notif", "alert", "alerts", "prod", "production", "live", "release",
        "sandbox", "dev", "development", "debug", "test", "voip", "pushkit", "fcm", "gcm",
        "android", "google", "huawei", "hms", "firebase", "expo", "web", "remote", "native",
        "registration", "watch", "widget", "complication", "activity",
        // The same in languages in which the token comes first.
        "de", "del", "du", "da", "do", "dispositivo", "dispositivos", "dispositif", "appareil",
        "telefono", "telefone", "celular", "movil", "notificacion", "notificaciones",
        "notificacao", "notifica", "notifiche", "aparelho", "usuario", "cliente", "utente",
    ]

    /// Whether the values are encrypted, by the name.
    var isOfCipher: Bool {
        has([
            "encrypted", "encryption", "enc", "crypt", "crypted", "cipher", "ciphertext",
            "cyphertext",
            "aes", "sealed",
        ])
    }

    // MARK: Sendings

    /// Whether a column's name is that of what happened to one notification: 2 for what only a log or a
    /// queue has, 1 for what devices have too, 0 for neither.
    var sendingScore: Int {
        // Mails to a person have times in the row of the person.
        if has([
            "last", "count", "counter", "total", "next", "enabled", "allowed", "confirmation",
            "reset",
            "password", "verification", "email", "mail", "sms", "welcome", "invite", "invitation",
            "otp",
        ]) {
            return 0
        }
        if words.contains("apns"), words.last == "id" { return 2 }
        if has([
            "sent", "delivered", "http", "response", "payload", "body", "subject", "campaign",
            "attempt",
            "attempts", "queued", "scheduled", "result", "gesendet", "versendet", "zugestellt",
            "nachricht", "enviado",
        ]) {
            return 2
        }
        return has(["status", "state", "error", "reason", "code", "message", "title", "event"])
            ? 1 : 0
    }

    // MARK: Other roles

    private static let people: Set = [
        "user", "users", "account", "customer", "member", "person", "owner", "subscriber", "player",
        "driver", "employee", "patient", "student", "profile", "kunde", "kd", "kunden", "nutzer",
        "benutzer", "konto", "mitglied", "teilnehmer", "cliente", "usuario", "utilisateur", "guest",
        "uid", "userid", "kundennr", "kundennummer", "recipient", "passenger", "rider",
    ]
    private static let ofNoPerson: Set = [
        "agent", "type", "role", "group", "status", "state", "language", "lang", "name", "class",
        "level",
    ]

    /// Whether the name is that of a person's key.
    var namesUser: Bool {
        has(Self.people) && (!has(Self.ofNoPerson) || squashed == "username")
    }

    /// Whether the name is that of something else, which may have values in a few rows each.
    var namesNoUser: Bool {
        has(Self.ofNoPerson)
            || has([
                "device", "installation", "install", "session", "model", "version", "os", "locale",
                "country", "city", "zip", "plz", "app", "topic", "bundle", "ip", "timezone", "tz",
                "serial",
                "imei", "idfa", "advertising", "udid", "build", "carrier", "lat", "lon", "latitude",
                "longitude", "token", "push", "endpoint", "arn", "badge",
            ])
    }

    /// Whether the name speaks of what an app may be called: a brand, a tenant, an edition.
    var mayTellApps: Bool {
        has([
            "brand", "tenant", "mandant", "product", "edition", "flavor", "flavour", "variant",
            "portal",
            "realm", "shop", "store", "instance", "project", "marke", "anwendung", "produkt",
            "label",
            "client", "system", "customer", "company", "channel", "target", "programm", "program",
        ]) && !has(["user", "version", "type", "name"]) || namesApp || mayNameApp
    }

    /// Whether the name is that of what a device or a person has, whatever the app.
    var tellsNoApp: Bool {
        namesPlatform || isState || polarity != nil
            || has([
                "lang", "language", "locale", "country", "region", "timezone", "tz", "model",
                "version",
                "theme", "gender", "sex", "salutation", "anrede", "currency", "status", "state",
                "os",
                "permission", "authorization", "carrier", "network", "source", "role", "level",
                "plan",
                "tier", "unit", "units", "sound", "badge", "manufacturer", "vendor", "mode",
                "sprache", "land",
            ])
    }

    var namesApp: Bool {
        [
            "appid", "appname", "applicationid", "application", "bundleid", "bundle",
            "bundleidentifier", "appidentifier", "packagename", "serviceid", "app",
        ].contains(where: { squashed == $0 || squashed == "ios\($0)" })
    }

    /// Whether the name is that of topics, or of the numbers of keys: apps only by their values.
    var mayNameApp: Bool { ["topic", "apnstopic", "apnskey"].contains(squashed) }

    var namesPlatform: Bool {
        has([
            "platform", "type", "kind", "system", "service", "provider", "vendor", "os", "ios",
            "notificationtype", "atype", "plaform",
        ])
    }

    private static let otherTimes: Set = [
        "expire", "expires", "expired", "expiry", "expiration", "grace", "notified", "notification",
        "success", "failed", "failing", "failure", "sent", "block", "blocked", "tmpblock", "cron",
        "birth", "birthday", "until", "verified", "deleted", "disabled", "revoked", "invalid",
        "invalidated", "trial", "start", "started", "starts", "end", "ended", "ends", "due",
        "publish",
        "published", "password", "read", "clicked", "delivered", "disconnected", "inactive",
        "deactivated", "logout", "premium", "cancelled", "uninstalled", "unsubscribed",
        "unregistered",
    ]

    /// Words for the end of what was registered.
    private static let ends: Set = [
        "expire", "expires", "expired", "expiry", "expiration", "until", "end", "ended", "ends",
        "failed", "failure", "due", "grace",
    ]

    /// How much the name speaks for the time of the last registration; nil for another time.
    var registrationScore: Double? {
        if isOfLoginToken { return 1 }
        if namesTokenTime { return 6 }
        // Since when something is so, or when one value of the row changed, is no time of its device.
        if has(["since", "from", "intro"]) || movesByName && has(Self.partsOfRows) { return 1 }
        let isRegistration = has(["registered", "registration", "registrations"])
        if isRegistration, polarity == false || has(Self.ends) { return nil }
        if has(Self.otherTimes) || isOfSender, !isRegistration { return nil }
        if isSetOnce { return has(["token", "tokens"]) ? 0.75 : 0.5 }
        // Beside `upd_date` this is the day on which the row was made.
        if words.filter({ !Self.timeWords.contains($0) }) == ["reg"] { return 3 }
        if isRegistration || has(["register", "reg", "reregistered"]) { return 5 }
        // The time of another token.
        if has(["token", "tokens"]) { return 1 }
        if has(["seen", "active", "activity", "heartbeat", "online", "launched"]) { return 4 }
        if has(["contact", "connected", "visit", "checkin", "ping", "sync", "synced"]) {
            return 3.5
        }
        if movesByName { return 3 }
        return [["timestamp"], ["tstamp"], ["ts"], ["time"], ["date"]].contains(words) ? 2 : 1
    }

    /// Values of a row that change by themselves.
    private static let partsOfRows: Set = [
        "status", "state", "profile", "email", "mail", "name", "settings", "setting", "preferences",
        "preference", "subscription", "plan", "location", "position", "address", "badge", "avatar",
        "photo", "terms", "consent", "role", "language", "locale", "timezone", "version", "balance",
        "score", "phone", "price",
    ]

    /// Whether the name speaks of a token with which people or programs log in: `refresh_token_at`. The time of
    /// a refresh is `token_refresh_at`.
    private var isOfLoginToken: Bool {
        zip(words, words.dropFirst()).contains { first, second in
            ["refresh", "access", "session", "auth", "id", "csrf", "login"].contains(first)
                && ["token", "tokens"].contains(second)
        }
    }

    /// Whether the name is that of a time at which the token was written: `token_saved_at`.
    private var namesTokenTime: Bool {
        guard has(["token", "tokens"]) else { return false }
        let rest = words.filter {
            !Self.timeWords.contains($0) && !Self.tokenWords.contains($0)
        }
        let written: Set = [
            "saved", "stored", "set", "received", "registered", "written", "renewed", "synced",
            "seen",
            "uploaded", "reported",
        ]
        if rest.isEmpty { return words.contains(where: Self.timeWords.contains) }
        return movesByName && rest.count == 1 || rest.allSatisfy(written.contains)
    }

    /// Whether the name is that of the time at which the token was made: `token_created_at`.
    var isOfNewToken: Bool {
        has(["token", "tokens"]) && (registrationScore ?? 6) <= 1
            && (isSetOnce || has(["issued", "generated", "obtained"]))
    }

    /// Whether a time of this name says that a device was there, or that a row was made or written: no such
    /// time says that a row is not used any more.
    var isOfUse: Bool {
        guard polarity != false else { return false }
        return (registrationScore ?? 0) >= 3 || isSetOnce || isOfNewToken || movesByName
            || has(["seen"])
    }

    private static let tokenWords: Set = [
        "token", "tokens", "push", "device", "apns", "apn", "ios", "notification", "notifications",
        "hex",
    ]

    private var movesByName: Bool {
        has([
            "updated", "update", "updatedon", "modified", "modification", "mtime", "touched",
            "refreshed", "refresh", "changed", "upd", "mod",
        ])
    }

    /// Whether the name speaks of the token or its device, and not only of the row.
    var isOfDeviceTime: Bool { (registrationScore ?? 0) >= 3.5 }

    /// Whether a time of this name may be that of the first registration or visit, or of a person: nothing says
    /// that it is the last one, or that it is about a token.
    var mayBeOfFirst: Bool {
        guard let score = registrationScore, (3.5...5).contains(score) else { return false }
        return !has(["last", "latest", "reregistered", "heartbeat"])
            && !(score == 5 && has(Self.tokenWords.union(["installation", "install"])))
    }

    /// Whether the name says that the time moves whenever the row or its device does.
    var moves: Bool { (registrationScore ?? 0) >= 3 }
}

// What names of columns and words in rows say about use: whether a row is used, or is not used any more. They
// sort the questions about the mark and tell which of two values is the one for unused rows; they decide no
// mark. Words of a few languages are among them, because tables have the names that their makers speak.

import TokenTable

extension ColumnWords {
    private static let living: Set = ["active", "enabled", "enable", "valid", "alive", "living"]
    private static let dead: Set = [
        "deleted", "delete", "disabled", "inactive", "invalid", "expired", "revoked",
        "unsubscribed",
        "unregistered", "uninstalled", "dead", "removed", "deactivated",
    ]

    /// Further words for use, which also mean other things.
    private static let used: Set = [
        "ok", "allow", "allowed", "allows", "notify", "subscribed", "subscribe", "subscription",
        "optin",
        "on", "in", "reachable", "registered", "consent", "accept", "accepts", "accepted", "agreed",
        "permitted", "permission", "granted", "receive", "receives", "want", "wants", "use",
        "usable",
        "online", "live", "working", "confirmed", "deliverable", "sendable", "good", "aktiv",
        "gueltig",
        "gültig", "erlaubt", "actif", "active", "valide", "activo", "activa", "valido", "attivo",
        "attiva",
        "ativo", "ativa", "actief", "geldig", "aktywny", "aktivni", "aktivt", "enabled",
        "installed",
    ]
    private static let unused: Set = [
        "out", "optout", "block", "blocked", "ban", "banned", "mute", "muted", "silent", "silenced",
        "fail",
        "failed", "failing", "failure", "bounce", "bounced", "bouncing", "gone", "lost", "stale",
        "bad",
        "error", "unreachable", "undeliverable", "unsub", "unsubscribe", "suspended", "paused",
        "off",
        "obsolete", "retired", "archived", "closed", "logout", "loggedout", "left", "quiet", "dnd",
        "denied", "deny", "rejected", "reject", "ignore", "ignored", "skip", "skipped",
        "uninstall", "unregister", "deregistered", "blacklisted", "blacklist", "hidden",
        "cancelled",
        "canceled", "ended", "terminated", "killed", "trashed", "purged", "inactivated",
        "invalidated",
        "gesperrt", "geloescht", "gelöscht", "inaktiv", "ungueltig", "ungültig", "tot",
        "abgemeldet", "stumm",
        "desactive", "désactivé", "supprime", "supprimé", "inactif", "inactivo", "baja",
        "eliminado",
        "inattivo", "verwijderd",
    ]
    private static let negations: Set = [
        "not", "no", "non", "never", "dont", "without", "un", "kein", "nicht",
    ]

    /// The name without what it is about: `callbackIsExpired` is `expired`.
    private var core: [String] {
        words.filter {
            ![
                "is", "was", "token", "device", "apns", "apn", "registration", "row", "callback",
                "flag",
            ]
            .contains($0)
        }
    }

    /// Whether the name of a flag says that its row is used: true for yes, false for the opposite,
    /// nil for neither.
    var saysLiving: Bool? {
        guard core.count == 1, let word = core.first else { return nil }
        if Self.dead.contains(word) { return false }
        return Self.living.contains(word) || isState ? true : nil
    }

    /// Which of yes and no a used row has, as far as any word of the name says: true for yes; nil where none
    /// says it.
    var polarity: Bool? {
        if let says = saysLiving, !isState { return says }
        let joined = words.joined()
        let isNegated = has(Self.negations)
        let says: Bool?
        if has(Self.dead) || has(Self.unused) || Self.endings(Self.dead.union(Self.unused), joined)
        {
            says = false
        } else if has(Self.living) || has(Self.used)
            || Self.endings(Self.living.union(Self.used), joined)
        {
            says = true
        } else {
            says = isNegated ? true : nil
        }
        return says.map { $0 != isNegated }
    }

    /// Whether a name without signs ends with one of some words of four letters or more.
    private static func endings(_ words: Set<String>, _ joined: String) -> Bool {
        words.contains {
            $0.utf8.count >= 4 && joined.utf8.count > $0.utf8.count && joined.hasSuffix($0)
        }
    }

    /// Whether the name says that the column has words for states, and not which.
    var isState: Bool { core == ["status"] || core == ["state"] }

    /// Whether the last word of the name is one for states.
    var endsAsState: Bool {
        ["status", "state", "stat", "zustand", "statut", "estado", "stato", "flag", "flags"]
            .contains(
                words.last)
    }

    /// Whether the name is that of a person's choice about notifications, which a mark would overwrite.
    var isChoice: Bool {
        let isAbout = has([
            "push", "notification", "notifications", "alert", "alerts", "marketing", "newsletter",
            "sms",
            "mail", "email", "promo",
        ])
        return has([
            "opt", "opted", "optin", "optout", "consent", "subscribed", "unsubscribed", "wants",
            "want",
            "allow", "allows", "allowed", "notify", "muted", "mute", "dnd", "disturb", "accept",
            "accepts",
        ]) || isAbout && has(Self.living.union(Self.dead).union(["on", "off", "ok"]))
    }

    /// How much the name speaks for the mark of a row.
    var markScore: Int {
        var score = 0
        if saysLiving != nil { score += 6 } else if polarity != nil { score += 4 }
        if has(["push", "notification", "notifications", "token", "device", "apns", "notify"]) {
            score += 1
        }
        let isOfOthers = has([
            "language", "lang", "locale", "gender", "sex", "model", "brand", "country", "version",
            "theme",
            "color", "colour", "admin", "premium", "beta", "test", "tester", "debug", "plan",
            "tier", "email",
            "mail", "sms", "phone", "location", "geo", "gps", "camera", "wifi", "sound", "badge",
            "rooted",
            "jailbroken", "tablet", "roaming", "verified", "paid", "trial",
        ])
        return isOfOthers ? score - 4 : score
    }

    var namesMarkTime: Bool {
        guard let last = core.last, ["at", "time", "on", "date"].contains(last) else {
            return false
        }
        let rest = core.dropLast()
        return rest.count == 1 && (Self.dead.contains(rest[0]) || rest[0] == "invalidated")
    }

    /// Whether the last word of the name is one for times.
    var endsAsTime: Bool {
        ["at", "time", "on", "date", "since", "ts", "timestamp", "am"].contains(words.last)
    }
}

extension ValueWords {
    /// Words for Apple's devices and their service, in lower case.
    static let apple: Set = ["ios", "apns", "apn", "apple", "iphone", "ipad", "ipados"]

    /// Words for the devices and services of others, in lower case.
    static let otherPlatforms: Set = [
        "android", "fcm", "gcm", "firebase", "google", "huawei", "hms", "web", "webpush", "chrome",
        "firefox", "windows", "wns", "mpns", "amazon", "adm", "xiaomi", "mipush", "oppo", "vivo",
    ]

    /// Texts that programs store where they have no token.
    static let placeholders: Set = [
        "null", "(null)", "<null>", "undefined", "nil", "none", "n/a", "false", "blacklisted",
    ]

    private static let living: Set = [
        "active", "enabled", "valid", "living", "alive", "registered", "subscribed", "ok", "on",
        "live",
        "allowed", "granted", "authorized", "confirmed", "online", "reachable", "normal", "good",
        "installed",
        "opted_in", "optin", "opt_in", "aktiv", "gueltig", "gültig", "actif", "activo",
    ]
    /// In the order in which a mark would choose them.
    private static let dead = [
        "inactive", "dead", "invalid", "disabled", "uninstalled", "unregistered", "gone", "deleted",
        "expired", "revoked", "unsubscribed", "bounced", "failed", "stale", "removed",
        "invalidated",
        "deactivated", "notregistered", "not_registered", "unreachable", "undeliverable", "lost",
        "off",
        "opted_out", "optout", "opt_out", "blocked", "banned", "muted", "suspended", "denied",
        "rejected",
        "archived", "closed", "retired", "error", "bad", "logged_out", "loggedout", "signed_out",
        "cancelled",
        "canceled", "paused", "inaktiv", "ungueltig", "ungültig", "gesperrt", "geloescht",
        "gelöscht", "tot",
        "inactif", "inactivo",
    ]

    static func isLiving(_ word: String) -> Bool { living.contains(word.lowercased()) }
    static func isDead(_ word: String) -> Bool { dead.contains(word.lowercased()) }
    static func isState(_ word: String) -> Bool { isLiving(word) || isDead(word) }
    static func isFlagOrState(_ word: String) -> Bool { flag(word) != nil || isState(word) }

    /// The word that a mark would choose; nil where none means a row that is not used.
    static func deadest(_ words: some Sequence<String>) -> String? {
        words.compactMap { word in dead.firstIndex(of: word.lowercased()).map { ($0, word) } }
            .min { $0.0 < $1.0 }?.1
    }
}

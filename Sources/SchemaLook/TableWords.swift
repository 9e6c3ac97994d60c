// What the name of a table says about its rows. The tables in which devices register have few names; many
// others have tokens, too, and no sender reads them:
//
//   sendings   logs, queues, audits, and lists of devices that are not used any more
//   copies     backups, archives, tables of a migration or of tests
//   logins     sessions, keys of an API, confirmations of an address
//
// An adjective counts wherever it stands (`dead_tokens`, `tokens_expired`), and so does a noun that hardly
// names anything else (`log_devices`). Other nouns are the thing only at the end: `device_events` are events,
// `event_devices` are devices.

import Encodings
import TokenTable

extension ColumnWords {
    /// Words that say wherever they stand that a table has what was sent, or devices that are not used.
    private static let sendings: Set = [
        "log", "logs", "logging", "history", "histories", "hist", "historical", "journal", "audit",
        "audits", "aud", "ledger", "queue", "queues", "queued", "outbox", "inbox", "dlq", "sent",
        "unsent", "delivered", "undelivered", "scheduled", "failed", "bounced", "bounces", "dead",
        "invalid", "invalidated", "stale", "expired", "unregistered", "deregistered", "uninstalled",
        "unsubscribed", "inactive", "disabled", "deactivated", "deleted", "removed", "revoked",
        "rejected", "blocked", "banned", "blacklist", "blacklisted", "blocklist", "denylist",
        "purged", "optout", "optouts", "suppression", "suppressions", "suppressed", "ignored",
        "outgoing", "orphaned", "orphans", "unreachable", "undeliverable", "gone", "bad", "crash",
        "crashes", "feedback", "feedbacks", "receipts",
    ]
    /// Words that say so at the end of a name.
    private static let lastSendings: Set = [
        "delivery", "deliveries", "message", "messages", "notification", "notifications", "pushes",
        "event", "events", "request", "requests", "response", "responses", "report",
        "reports", "attempt", "attempts", "retry", "retries", "job", "jobs", "task", "tasks",
        "error", "errors", "failure", "failures", "receipt", "result", "results", "stats",
        "statistics", "metrics", "analytics", "sends", "sendings", "dispatches", "broadcasts",
        "mailings", "campaigns", "change", "changes", "revisions", "versions", "removals",
        "deletions", "invalidations", "unregistrations", "uninstalls", "opens", "clicks", "views",
        "logins", "activities", "actions", "timeline", "tracking",
    ]
    /// Words for a thing in a list, behind that of which the list is.
    private static let entries: Set = [
        "entry", "entries", "item", "items", "record", "records", "row", "rows", "line", "lines",
        "data", "list", "table", "tbl", "info", "details", "all", "new",
    ]
    /// Words for devices, beside which a few words of logins say nothing.
    private static let devices: Set = ["push", "device", "devices", "apn", "apns", "mobile"]
    private static let copies: Set = [
        "bak", "backup", "backups", "bkp", "bkup", "bck", "copy", "copies", "old", "older",
        "archive", "archives", "archived", "arch", "tmp", "temp", "temporary", "snapshot",
        "snapshots", "dump", "dumps", "legacy", "migration", "migrated", "deprecated", "restore",
        "restored", "alt", "orig", "original", "prev", "previous", "prior", "former", "before",
        "staging", "stg", "import", "imports", "imported", "export", "exports", "exported", "clone",
        "cloned", "clones", "duplicate", "duplicates", "dup", "dups", "shadow", "trash", "trashed",
        "obsolete", "unused", "retired", "abandoned", "discarded", "gho", "ghc", "zz", "test",
        "tests", "testing", "demo", "sample", "samples", "dummy", "fake", "example", "examples",
    ]

    /// Whether a table's name is that of what was sent, or of devices that are not used any more. Such a
    /// table has tokens, too.
    var isOfSendings: Bool {
        let last = words.last {
            !Self.entries.contains($0) && !$0.utf8.allSatisfy(DecimalDigits.isDigit)
        }
        return has(Self.sendings) || last.map(Self.lastSendings.contains) == true
    }

    /// Whether a table's name is that of a copy.
    var isOfCopy: Bool {
        has(Self.copies)
            || words.contains { word in
                [4, 6, 8].contains(word.utf8.count)
                    && word.utf8.allSatisfy(DecimalDigits.isDigit)
                    && (word.hasPrefix("19") || word.hasPrefix("20"))
            }
    }

    /// Words that say that a table has keys of sessions and of people, those of devices among them.
    private static let logins: Set = [
        "access", "session", "sessions", "oauth", "auth", "authentication", "password", "passwords",
        "reset", "resets", "verification", "verifications", "verify", "refresh", "remember", "csrf",
        "remembered",
        "login", "logins", "signin", "confirmation", "confirmations", "unsubscribe", "unsubscribes",
        "otp", "otps", "trusted", "pairing", "pairings",
    ]

    /// Whether a table's name is that of devices that need no second factor: its tokens are secrets of cookies.
    var isOfTrust: Bool { has(["trusted", "remembered", "pairing", "pairings"]) && !speaksOfPush }

    /// Whether the name speaks of push.
    var speaksOfPush: Bool { has(["push", "apn", "apns", "notification", "notifications"]) }

    /// Whether a table's name is that of logins.
    var isOfLogins: Bool {
        has(Self.logins)
            || has(["api", "invitations", "jobs", "cache"])
                && !has(Self.devices.subtracting(["mobile"]))
            || has(["payment", "payments", "card", "cards", "billing"])
    }

    /// How much the name of a table speaks for the place where devices register.
    var tableScore: Double {
        if isOfSendings || isOfCopy { return -2 }
        let isOfDevices = [
            "device", "push", "apn", "token", "notif", "subscription", "registration", "install",
        ].contains(where: squashed.contains)
        if isOfLogins { return isOfDevices && has(Self.devices) ? 1.5 : -4 }
        return isOfDevices ? 1.5 : 0
    }

    /// Whether the name of a table or column speaks of devices or of notifications, and not only of tokens,
    /// which other things have, too.
    var speaksOfDevices: Bool {
        words == ["active", "users"]
            || ["device", "push", "apns", "notif", "phone", "handset"]
                .contains(where: squashed.contains)
            || has([
                "apn", "ios", "ipad", "ipados", "mobile", "mobiles", "install", "installs",
                "installation", "installations", "pns", "pn", "wallet", "pass", "passes", "geraet",
                "geraete", "gerät", "geräte", "appareil", "appareils", "dispositivo",
                "dispositivos", "dispositif", "dispositifs", "movil", "moviles", "telefono",
                "telefon", "celular", "aparelho", "aparelhos", "notify", "terminals", "fcm", "gcm",
            ])
    }
}

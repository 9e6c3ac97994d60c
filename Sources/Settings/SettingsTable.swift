// The one table of settings. Order is the order of all output, and a default that follows from another
// setting stands below it.
//
// To add a setting, edit two places:
//
// 1. Settings.swift: the field that holds the value.
// 2. Here, or in SettingsTable+Store.swift or SettingsTable+Apps.swift: the row with the key, the type
//    and range, what holds when nothing is written, the field, and a sentence for people. A row without
//    `sample:` shows its default in the sample file as a comment.
//
// The row makes the file and the environment take the setting, checks its value and stores it in the
// field, and prints it in `pushsweep check`, in the sample file and in docs/settings.md. The test of the
// documentation writes that page anew when PUSHSWEEP_TEST_WRITE_DOCS is 1.
//
// More is needed only for more than a key: a rule about two settings stands in SettingsRules.swift, the
// title of a new group in SettingsPages.swift, and an option of the command line in ThrottleOptions.swift,
// where it names the key that it sets.

/// Every setting there is.
package enum SettingsTable {
    /// All rows in the order of all output.
    static let rules: [SettingRule] =
        general + store + apps + policy + throttle + sending + limits + report

    /// Groups and settings that nothing uses yet. Whoever puts one to use removes it here.
    static let groupsNotInForce = [
        "apps[].binary", "report.healthcheck-url",
    ]

    /// The row of a key, with `[]` or the name of an app in brackets; nil where the table has no such key.
    package static func rule(_ key: String) -> SettingRule? {
        guard let open = key.firstIndex(of: "["), let end = key.lastIndex(of: "]"), open < end
        else { return byKey[key] }
        return byKey[String(key[...open] + key[end...])]
    }

    private static let byKey = Dictionary(
        rules.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })

    /// For settings that belong to no app.
    static let setting = SettingPlace<Settings> { settings, _, change in change(&settings) }

    /// A limit for an answer of the network.
    static let waiting = SettingType<Duration>.duration(100...3_600_000)

    @SettingRows private static var general: [SettingRule] {
        setting(
            "state", .path,
            .computed("`/var/lib/pushsweep`; without root the user's state folder") {
                .text($0.usualState)
            }, \.state, sample: .written("/var/lib/pushsweep"),
            "Folder of the journal, of held removals and of the lock; made with mode 0700.")
    }

    @SettingRows private static var policy: [SettingRule] {
        setting(
            "policy.action", .choice, .text("mark"), \.policy.action,
            "What happens to a stale row: mark sets a mark that can be taken back, delete removes it."
        )
        setting(
            "policy.delete-without-registration-time", .boolean, .text("false"),
            \.policy.deleteWithoutRegistrationTime,
            "Whether delete also removes rows whose registration time is unknown.")
        setting(
            "policy.clock-skew", .duration(0...3_600_000), .text("2s"), \.policy.clockSkew,
            "How far the clocks that wrote registrations and signals may be apart.")
        setting(
            "policy.delete-after", .duration(86_400_000...31_536_000_000),
            .absent("rows are removed at once"), \.policy.deleteAfter, sample: .comment("7d"),
            "With action delete: signals mark rows, and a row is removed when it has stayed marked for so long."
        )
        setting(
            "policy.keep-ledger", .duration(86_400_000...315_360_000_000), .text("30d"),
            \.policy.keepLedger,
            "How long changes can be undone: pushsweep purge drops what is older.")
    }

    @SettingRows private static var throttle: [SettingRule] {
        setting(
            "throttle.max-lag", .duration(0...86_400_000), .absent("no look at replicas"),
            \.throttle.maxLag, sample: .comment("10s"),
            "How far a replica may lag before runs pause between chunks.")
        setting(
            "throttle.replicas", .servers, .absent("the database's own replication"),
            \.throttle.replicas,
            sample: .comment("[mysql://monitor@replica.example.net:3306/push]"),
            "Replicas whose lag counts, reached with the password and authorities of the store.")
        setting(
            "throttle.max-load", .load, .absent("no look at the load"), \.throttle.maxLoad,
            sample: .comment("Threads_running=25"),
            "Load of the database beyond which runs pause between chunks.")
        setting(
            "throttle.critical-load", .load, .absent("no look at the load"),
            \.throttle.criticalLoad, sample: .comment("Threads_running=100"),
            "Load of the database beyond which they end with 75; the next run goes on.")
        setting(
            "throttle.time-budget", .duration(1_000...604_800_000), .absent("no limit"),
            \.throttle.timeBudget, sample: .comment("45m"),
            "Time after which they end with 75, before the next chunk or the next feed.")
        setting(
            "throttle.stop-file", .path,
            .computed("`stop` in the state folder") { $0.inState("stop").map { .text($0) } },
            \.throttle.stopFile, sample: .comment("/var/lib/pushsweep/stop"),
            "File whose presence ends them with 75; it stays until somebody removes it.")
    }

    @SettingRows private static var sending: [SettingRule] {
        setting(
            "send.resend-unknown", .boolean, .text("false"), \.send.resendUnknown,
            "Whether a notification without an answer is sent again, under its old apns-id; it may then arrive twice."
        )
        setting(
            "send.request-timeout", .duration(1_000...600_000), .text("30s"), \.send.requestTimeout,
            "How long to wait for the answer to one notification.")
        setting(
            "send.lease", .duration(10_000...3_600_000), .text("2m"), \.send.lease,
            "How long rows of a sender that fell silent stay with it before others take them over.")
    }

    @SettingRows private static var limits: [SettingRule] {
        setting(
            "guard.floor", .integer(0...1_000_000_000), .text("100"), \.guardLimits.floor,
            "Rows that may become invalid within an hour, and within a day, whatever their share. A feed of "
                + "fewer tuples is not held for naming hardly a token of the table.")
        setting(
            "guard.partition-percent", .percent, .text("5"), \.guardLimits.partitionPercent,
            "Share of an app's living rows that may become invalid within an hour; more is held for a person."
        )
        setting(
            "guard.day-percent", .percent, .text("10"), \.guardLimits.dayPercent,
            "The same within 24 hours.")
    }

    @SettingRows private static var report: [SettingRule] {
        setting(
            "report.metrics-file", .path, .absent("no metrics"), \.report.metricsFile,
            sample: .comment("pushsweep.prom"),
            "Metrics of the last runs for the node exporter's text file collector; replaced whole by each run."
        )
        setting(
            "report.healthcheck-url", .webAddress, .absent("no ping"), \.report.healthcheckURL,
            sample: .comment("https://ping.example.net/pushsweep"),
            "Address to ping at the start and the end of each run; its path counts as secret.")
    }
}

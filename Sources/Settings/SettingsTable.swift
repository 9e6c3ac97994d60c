// The one table of settings. Its order is the order of all output. A default that follows from
// another setting comes after that setting.
//
// To add a setting, edit two places:
//
// 1. Settings.swift: the field that holds the value.
// 2. Here, or in SettingsTable+Store.swift or SettingsTable+Apps.swift: the row with the key, the
//    type and range, the default, the field, and a help sentence. A row without an example shows its
//    default in the sample file as a comment.
//
// From the row the file and the environment accept the setting, its value is checked and stored in
// the field, and `pushsweep check`, the sample file and docs/settings.md show it. The test of the
// documentation writes that page anew when PUSHSWEEP_TEST_WRITE_DOCS is 1.
//
// Other files change only for more than a key: SettingsRules.swift has the rules about two
// settings, SettingsPages.swift the titles of groups, and CommonOptions.swift the options of the
// command line, each with the key that it sets.

/// One row per setting: its key, kind, bounds, default and the field that it fills.
package enum SettingsTable {
    /// All rows in the order of all output.
    static let rules: [SettingRule] =
        general + store + apps + policy + throttle + evidence + sending + limits + report + hooks

    /// The words that a file may have in a group, by the group's key; those of the whole file by "".
    static let words: [String: [String]] = rules.reduce(into: [:]) { words, rule in
        for place in rule.path.indices where !rule.isEnvironmentOnly {
            let group = rule.path[..<place].joined(separator: ".")
            let word = rule.path[place].replacing("[]", with: "")
            if words[group]?.contains(word) != true { words[group, default: []].append(word) }
        }
    }

    /// The row of a key; nil where the table has no such key.
    static func rule(_ key: String) -> SettingRule? { byKey[key] }

    private static let byKey = Dictionary(
        rules.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })

    /// For settings that belong to no app.
    static let setting = SettingPlace<Settings> { settings, _, change in change(&settings) }

    /// Milliseconds of a limit for an answer of the network.
    static let waiting = 100...3_600_000

    @SettingRows private static var general: [SettingRule] {
        setting(
            "state", .path,
            .computed("`/var/lib/pushsweep`; without root the user's state folder") {
                $0.usualState
            }, \.state, written: "/var/lib/pushsweep",
            "Folder of the journal and the lock; created with mode 0700.")
    }

    @SettingRows private static var policy: [SettingRule] {
        setting(
            "policy.action", .choice, "mark", \.policy.action,
            "Action for a stale row: mark sets a mark that can be undone, delete removes the row.")
        setting(
            "policy.delete-without-registration-time", .boolean, "false",
            \.policy.deletesWithoutRegistrationTime,
            "With true, delete also removes rows without a registration time.")
        setting(
            "policy.clock-skew", .milliseconds(0...3_600_000), "2s", \.policy.skew,
            "Largest difference between the clocks that wrote registrations and evidence.")
        setting(
            "policy.delete-after", .milliseconds(86_400_000...31_536_000_000),
            .absent("rows are removed at once"), \.policy.deletesAfter, example: "7d",
            "With action delete: evidence marks rows, and a row is removed when it has stayed marked for this time."
        )
        setting(
            "policy.keep-ledger", .milliseconds(86_400_000...315_360_000_000), "30d", \.keepLedger,
            "Time for which changes can be undone: pushsweep purge drops older ledger entries.")
    }

    @SettingRows private static var throttle: [SettingRule] {
        setting(
            "throttle.max-lag", .seconds(0...86_400_000), .absent("replicas are not watched"),
            \.throttle.maxLag, example: "10s",
            "Lag of a replica above which runs pause between chunks.")
        setting(
            "throttle.replicas", .servers, .absent("the database's own replication"), \.replicas,
            example: "[mysql://monitor@replica.example.net:3306/push]",
            "Replicas whose lag counts, reached with the password and authorities of the store.")
        setting(
            "throttle.max-load", .load, .absent("the load is not watched"), \.throttle.maxLoad,
            example: "Threads_running=25",
            "Load of the database above which runs pause between chunks.")
        setting(
            "throttle.critical-load", .load, .absent("the load is not watched"),
            \.throttle.criticalLoad, example: "Threads_running=100",
            "Load of the database above which runs end with 75; the next run continues.")
        setting(
            "throttle.time-budget", .milliseconds(1_000...604_800_000), .absent("no limit"),
            \.throttle.timeBudget, example: "45m",
            "Time after which runs end with 75, before the next chunk or the next batch.")
        setting(
            "throttle.stop-file", .path,
            .computed("`stop` in the state folder") { $0.inState("stop") }, \.throttle.stopFile,
            example: "/var/lib/pushsweep/stop",
            "File whose presence ends runs with 75; pushsweep does not remove it.")
    }

    @SettingRows private static var evidence: [SettingRule] {
        setting(
            "evidence.missing-time", .either("refuse", "received"), "refuse", \.mayUseArrival,
            "A 410 that another sender reports without a time goes to quarantine (refuse), or counts from its arrival (received)."
        )
    }

    @SettingRows private static var sending: [SettingRule] {
        setting(
            "send.resend-unknown", .boolean, "false", \.send.resendUnknown,
            "With true, a notification without an answer is sent again under the same apns-id; it may arrive twice."
        )
        setting(
            "send.request-timeout", .duration(1_000...600_000), "30s", \.send.requestTimeout,
            "Longest wait for the answer to one notification.")
        setting(
            "send.lease", .duration(10_000...3_600_000), "2m", \.send.lease,
            "Time for which a silent sender keeps its rows before others take them over.")
    }

    @SettingRows private static var limits: [SettingRule] {
        setting(
            "guard.floor", .integer(0...1_000_000_000), "100", \.guardLimits.floor,
            "Rows that may become invalid within an hour, and within a day, whatever their share. A batch of "
                + "fewer tuples is not held because its tokens are unknown.")
        setting(
            "guard.partition-percent", .percent, "5", \.guardLimits.partitionPercent,
            "Share of an app's living rows that may become invalid within an hour; more is held for a decision."
        )
        setting(
            "guard.day-percent", .percent, "10", \.guardLimits.dayPercent,
            "The same share within 24 hours.")
    }

    @SettingRows private static var report: [SettingRule] {
        setting(
            "report.metrics-file", .path, .absent("no metrics"), \.metricsFile,
            example: "pushsweep.prom",
            "Metrics of the last runs for the node exporter's text file collector; replaced whole by each run."
        )
    }

    @SettingRows private static var hooks: [SettingRule] {
        setting(
            "hooks.after-run", .command, .absent("nothing is run"), \.hooks.afterRun,
            example: "curl -fsS -m 5 https://ping.example.net/$PUSHSWEEP_EXIT",
            "Command for /bin/sh after each run, with the run's JSON report on standard input; never shown."
        )
        setting(
            "hooks.timeout", .duration(100...3_600_000), "10s", \.hooks.timeout,
            "Time after which the command is killed with all that it started.")
    }
}

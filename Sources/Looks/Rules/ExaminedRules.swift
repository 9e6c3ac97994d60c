import Findings
import Operations

// Most of what is wrong with files, a server or a table an examination finds by itself, before a run begins. What
// forbids a run is a failure of `check`, and the run's own refusal.

extension RuleBook {
    /// The settings and the files that they name.
    static let settings: [Rule] = [
        .examined("no-app", .settings, in: [.check]),
        .examined("setting-without-effect", .settings, in: [.check]),
        .examined("missing-file", .settings, in: [.check]),
        .examined("state-unusable", .settings, in: [.check]),
        .examined("metrics-file", .settings, in: [.check]),
    ]

    /// The database server and its clock.
    static let server: [Rule] = [
        .one(
            "clock-difference", .server, in: [.check, .preflight],
            needs: \.clock, judge: clockDifference),
        .one(
            "old-rows", .server, in: [.preflight], needs: \.replica, judge: oldRows),
        .examined("database-unreachable", .server, in: [.check]),
        .examined("database-untrusted", .server, in: [.check]),
        .examined("database-busy", .server, in: [.check]),
        .examined("database-read-only", .server, in: [.check]),
        .examined("database-failure", .server, in: [.check]),
        .examined("missing-right", .server, in: [.check]),
        .examined("clocks-of-hosts", .server, in: [.check]),
        .examined("small-packets", .server, in: [.check]),
        .examined("old-server", .server, in: [.check]),
        .examined("server-in-doubt", .server, in: [.check]),
        .examined("host-unusable", .server, in: [.check]),
        .examined("replica-unusable", .server, in: [.check]),
    ]

    /// The form of the tables.
    static let table: [Rule] = [
        .examined("unfit-table", .table, in: [.check]),
        .examined("table-has-triggers", .table, in: [.check]),
        .examined("referenced-rows", .table, in: [.check]),
        .examined("no-registration-time", .table, in: [.check]),
        .examined("registration-stands-still", .table, in: [.check]),
        .examined("registration-moves-too-often", .table, in: [.check]),
        .examined("unreadable-values", .table, in: [.check]),
        .examined("all-marked", .table, in: [.check]),
        .examined("unfindable-tokens", .table, in: [.check]),
        .examined("zone-in-doubt", .table, in: [.check]),
        .examined("mark-column-in-doubt", .table, in: [.check]),
        .examined("mark-reason-not-stored", .table, in: [.check]),
        .examined("environment-values-in-doubt", .table, in: [.check]),
        .examined("no-index", .table, in: [.check]),
        .examined("narrow-column", .table, in: [.check]),
        .examined("value-in-no-row", .table, in: [.check]),
        .examined("refused-changes", .table, in: [.check]),
        .examined("mark-in-future", .table, in: [.check]),
        .examined("intake-not-seen", .table, in: [.check]),
        .examined("column-question", .table, in: [.check]),
        .examined("whole-rows-removed", .table, in: [.check]),
        .examined("intake-exhausted", .table, in: [.check]),
    ]

    private static func clockDifference(_ clock: ClockDifference, _ facts: Facts) -> Finding? {
        clock.finding(about: facts.location)
    }

    private static func oldRows(_ replica: String, _: Facts) -> Finding? {
        Finding(
            .medium, replica,
            "a replica answers, so tokens are judged by rows that may lack the latest marks "
                + "and registrations",
            cure: "write the primary's address into store.url, or look at the replica's lag first")
    }
}

extension Facts {
    /// Where the database is, if a replica answers there.
    fileprivate var replica: String? { isReplica ? location : nil }
}

// Periods are counted by the database's clock, because the clocks of hosts differ. The spelling of
// the clock depends on the engine and is defined only here.

extension SQLDialect {
    /// An SQL expression for the present in UTC by the database's clock, in milliseconds.
    package var now: String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3)"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now')"
        }
    }

    /// An SQL expression for the present plus a number of seconds.
    package func now(adding seconds: Int) -> String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3) + INTERVAL \(seconds) SECOND"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '+\(seconds) seconds')"
        }
    }

    /// An SQL expression for the moment a number of hours ago.
    package func past(hours: Int) -> String {
        switch engine {
        case .mariaDB: "\(now) - INTERVAL \(hours) HOUR"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '-\(hours) hours')"
        }
    }
}

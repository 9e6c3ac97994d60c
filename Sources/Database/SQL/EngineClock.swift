// Periods are counted by the database's clock, since hosts disagree. Each engine spells its clock in its own way,
// and nowhere but here.

extension SQLDialect {
    /// The present in UTC by the database's clock, in milliseconds.
    package var now: String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3)"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now')"
        }
    }

    /// The present and so many seconds.
    package func now(adding seconds: Int) -> String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3) + INTERVAL \(seconds) SECOND"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '+\(seconds) seconds')"
        }
    }

    /// The moment so many hours ago.
    package func past(hours: Int) -> String {
        switch engine {
        case .mariaDB: "\(now) - INTERVAL \(hours) HOUR"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '-\(hours) hours')"
        }
    }
}

import APNsProtocol

// The storage of times in the side tables, and the reading of the database's clock.

extension SQLDialect {
    /// A time column of the side tables.
    package func ownTime(_ name: String) -> TimeColumn {
        switch engine {
        case .mariaDB: TimeColumn(name: name, storage: .wallClock(fraction: 3, offset: 0))
        case .sqlite: TimeColumn(name: name, storage: .text(offset: 0))
        }
    }

    /// The instant in an answer to `now`.
    ///
    /// - Throws: `other` where the answer is not a time.
    package func instant(_ value: SQLValue) throws(SQLFailure) -> EpochMilliseconds {
        guard let instant = ownTime("now").mark(value) else {
            throw SQLFailure(
                kind: .other, code: 0, message: "the database did not tell the time")
        }
        return instant
    }
}

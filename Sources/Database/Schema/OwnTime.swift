import APNsProtocol

// How our own tables keep times, and how an answer of the database's clock is read.

extension SQLDialect {
    /// A time column of our own tables.
    package func ownTime(_ name: String) -> TimeColumn {
        switch engine {
        case .mariaDB: TimeColumn(name: name, storage: .wallClock(fraction: 3, offset: 0))
        case .sqlite: TimeColumn(name: name, storage: .text(offset: 0))
        }
    }

    /// The instant that `now` answered.
    ///
    /// - Throws: `other` where the answer is no time.
    package func instant(_ value: SQLValue) throws(SQLFailure) -> EpochMilliseconds {
        guard let instant = ownTime("now").mark(value) else {
            throw SQLFailure(
                kind: .other, code: 0, message: "the database did not tell the time")
        }
        return instant
    }
}

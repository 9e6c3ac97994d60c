import APNsProtocol

extension DatabaseSession {
    /// The present by the database's clock. Periods that concern several hosts are counted by it,
    /// because the clocks of hosts differ.
    ///
    /// - Throws: any failure of reading.
    package func databaseTime() throws(StoreFailure) -> EpochMilliseconds {
        let dialect = connection.dialect
        return try retries.retrying("asking the database for the time") {
            () throws(SQLFailure) in
            try dialect.instant(connection.query("SELECT \(dialect.now)").scalar ?? .null)
        }
    }
}

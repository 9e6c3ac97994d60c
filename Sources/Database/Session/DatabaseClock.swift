import APNsProtocol

extension DatabaseSession {
    /// The present by the database's clock. Periods over what several hosts did are counted by it, since
    /// hosts disagree.
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

import Database

// Hosts that share a table share its lease.

extension TokenTable {
    /// The lease's name: one per token table, for every spelling in the settings. Tables of several
    /// products in one database have one each.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func leaseName() throws(StoreFailure) -> String {
        String(try layout().table.name.lowercased().prefix(64))
    }

    /// Takes the table's lease; see `DatabaseSession.takeLease`.
    ///
    /// - Throws: any failure of the database; the lease may then have been taken, and ends by
    ///   itself.
    package func takeLease(_ applicant: LeaseApplicant) throws(StoreFailure) -> LeaseAnswer {
        try session.takeLease(applicant, on: leaseName())
    }

    /// The present holder of the table's lease; see `DatabaseSession.leaseHolder`.
    ///
    /// - Throws: any failure of the database.
    package func leaseHolder() throws(StoreFailure) -> LeaseHolder? {
        try session.leaseHolder(of: leaseName())
    }
}

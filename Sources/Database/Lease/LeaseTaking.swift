import APNsProtocol

/// What came of asking for the lease.
package enum LeaseAnswer: Hashable, Sendable {
    /// The applicant has it.
    case taken(Lease)
    /// Another run has it.
    case held(LeaseHolder)
}

extension DatabaseSession {
    /// Takes the lease, where it is free, has ended, or was left by a run of the same state folder.
    ///
    /// - Throws: any failure of the database; the lease may then have been taken, and ends by itself.
    package func takeLease(
        _ applicant: LeaseApplicant, on name: String
    ) throws(StoreFailure) -> LeaseAnswer {
        try retries.retrying("taking the lease on \(name)") { () throws(SQLFailure) in
            guard let row = try LeaseRow.read(name, connection) else {
                try insertLease(name)
                throw SQLFailure(kind: .conflict, code: 0, message: "the lease is new")
            }
            if let holder = row.holder {
                // Ours, by an answer that was lost.
                if holder.run == applicant.run { return .taken(lease(row, applicant, name)) }
                guard holder.isExpired || holder.home == applicant.home else {
                    return .held(holder)
                }
            }
            try replace(row, applicant, name)
            let now = try LeaseRow.read(name, connection)
            if let now, now.holder?.run == applicant.run {
                return .taken(lease(now, applicant, name))
            }
            if let holder = now?.holder, !holder.isExpired { return .held(holder) }
            throw SQLFailure(kind: .conflict, code: 0, message: "the lease changed hands")
        }
    }

    private func lease(_ row: LeaseRow, _ applicant: LeaseApplicant, _ name: String) -> Lease {
        Lease(
            name: name, fence: row.fence, owner: row.owner ?? "", seconds: applicant.seconds)
    }

    /// Makes the row, free, so that taking has one form only.
    private func insertLease(_ name: String) throws(SQLFailure) {
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_lease (name, fence) VALUES (?, 0)", [.text(name)])
        } catch {
            guard error.isDuplicate else { throw error }
        }
    }

    /// Takes the place of what was read, if it still stands there. Taking always raises the fence, and
    /// giving back leaves it, so the fence alone tells whether another was faster; only an ended lease
    /// may have been renewed in the meantime.
    private func replace(
        _ row: LeaseRow, _ applicant: LeaseApplicant, _ name: String
    ) throws(SQLFailure) {
        let dialect = connection.dialect
        var sql =
            "UPDATE pushsweep_lease SET owner = ?, fence = ?, "
            + "expires_at = \(dialect.now(adding: applicant.seconds)) "
            + "WHERE name = ? AND fence = ?"
        var values: [SQLValue] = [
            .text(applicant.owner(since: row.now.clockText)), .integer(row.fence + 1),
            .text(name), .integer(row.fence),
        ]
        if let holder = row.holder, holder.home != applicant.home {
            sql += " AND (expires_at IS NULL OR expires_at <= ?)"
            values.append(dialect.ownTime("expires_at").value(row.now))
        }
        _ = try connection.execute(sql, values)
    }

    /// Renews a lease, and makes sure that it is still ours.
    ///
    /// - Throws: `stopped` where another run has it; any failure of the database.
    package func renew(_ lease: Lease) throws(StoreFailure) {
        try retries.retrying("renewing the lease on \(lease.name)") { () throws(SQLFailure) in
            try lease.hold(connection)
        }
    }

    /// Gives a lease back. What cannot be given back ends by itself, so this asks twice at the most.
    ///
    /// - Throws: any failure of the database.
    package func giveBack(_ lease: Lease) throws(StoreFailure) {
        var pacing = pacing
        pacing.tries = 2
        try RetryPolicy(connection: connection, pacing: pacing).retrying(
            "giving back the lease on \(lease.name)"
        ) { () throws(SQLFailure) in
            _ = try connection.execute(
                "UPDATE pushsweep_lease SET owner = NULL, expires_at = NULL "
                    + "WHERE name = ? AND fence = ? AND owner = ?", lease.key)
        }
    }

    /// Who holds the lease now; nil where nobody does, and where the account may not see it, as that
    /// of a dry run need not.
    package func leaseHolder(of name: String) throws(StoreFailure) -> LeaseHolder? {
        guard try canRead("pushsweep_lease", "owner, fence, expires_at") else { return nil }
        let holder = try retries.retrying("looking at the lease on \(name)") {
            () throws(SQLFailure) in
            try LeaseRow.read(name, connection)?.holder
        }
        guard let holder, !holder.isExpired else { return nil }
        return holder
    }
}

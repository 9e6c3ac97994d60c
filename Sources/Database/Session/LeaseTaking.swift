import APNsProtocol
import Findings
import Dispatch

/// The answer to a request for the lease.
package enum LeaseAnswer: Hashable, Sendable {
    /// The applicant has the lease.
    case taken(Lease)
    /// Another run has the lease.
    case held(LeaseHolder)
}

extension DatabaseSession {
    /// Takes the lease if it is free, has ended, or was left by a run of the same state folder.
    ///
    /// - Throws: any failure of the database; the lease may then have been taken, and ends by
    ///   itself.
    package func takeLease(
        _ applicant: LeaseApplicant, on name: String
    ) throws(StoreFailure) -> LeaseAnswer {
        try retries.retrying("taking the lease on \(name)") { () throws(SQLFailure) in
            // In one transaction, whose reads no proxy sends to another server.
            try connection.begin()
            let answer = try askLease(applicant, name)
            try connection.commit()
            return answer
        }
    }

    private func askLease(
        _ applicant: LeaseApplicant, _ name: String
    ) throws(SQLFailure) -> LeaseAnswer {
        guard let row = try LeaseRow.read(name, connection) else {
            try insertLease(name)
            try connection.commit()
            throw SQLFailure(kind: .conflict, code: 0, message: "the lease is new")
        }
        if let holder = row.holder {
            // Taken by this run, with an answer that was lost.
            if holder.run == applicant.run { return .taken(lease(row, applicant, name)) }
            guard holder.isExpired || holder.home == applicant.home else { return .held(holder) }
        }
        try replace(row, applicant, name)
        let now = try LeaseRow.read(name, connection)
        if let now, now.holder?.run == applicant.run {
            return .taken(lease(now, applicant, name))
        }
        if let holder = now?.holder, !holder.isExpired { return .held(holder) }
        throw SQLFailure(kind: .conflict, code: 0, message: "the lease changed hands")
    }

    private func lease(_ row: LeaseRow, _ applicant: LeaseApplicant, _ name: String) -> Lease {
        Lease(
            name: name, fence: row.fence, owner: row.owner ?? "", seconds: applicant.seconds)
    }

    /// Inserts the row of a free lease, so that taking has one form only.
    private func insertLease(_ name: String) throws(SQLFailure) {
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_lease (name, fence) VALUES (?, 0)", [.text(name)])
        } catch {
            guard error.isDuplicate else { throw error }
        }
    }

    /// Replaces the holder that was read, if the row has not changed. Taking always raises the
    /// fence, and giving back keeps it, so the fence alone shows whether another run was faster.
    /// Only an ended lease may have been renewed since.
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

    /// Renews a lease, and checks that it still belongs to this run.
    ///
    /// - Throws: `stopped` where another run has it; any failure of the database.
    package func renew(_ lease: Lease) throws(StoreFailure) {
        try retries.retrying("renewing the lease on \(lease.name)", do: lease.renew(connection))
    }

    /// Gives a lease back, with short patience, because a lease that is not given back ends by
    /// itself.
    ///
    /// - Throws: any failure of the database.
    package func giveBack(_ lease: Lease) throws(StoreFailure) {
        let brief = pacing.with(patience: Pacing.shortPatience)
        try RetryPolicy(connection: connection, pacing: brief).retrying(
            "giving back the lease on \(lease.name)"
        ) { () throws(SQLFailure) in
            _ = try connection.execute(
                "UPDATE pushsweep_lease SET owner = NULL, expires_at = NULL "
                    + "WHERE name = ? AND fence = ? AND owner = ?", lease.key)
        }
    }

    /// The present holder of the lease; nil for a free lease, and where the account may not read
    /// the row, as in a dry run.
    package func leaseHolder(of name: String) throws(StoreFailure) -> LeaseHolder? {
        guard try canRead("pushsweep_lease", "owner, fence, expires_at") else { return nil }
        let holder = try retries.retrying(
            "reading the lease on \(name)", do: LeaseRow.read(name, connection)?.holder)
        guard let holder, !holder.isExpired else { return nil }
        return holder
    }
}

// A run may wait for a silent gateway, sort a large list or pause for a busy server for longer than
// its lease lasts. So a thread renews the lease, over its own connection, which is opened at the
// first renewal: most runs have ended by then. The thread decides nothing. If it cannot reach the
// database, or finds the lease lost, the next transaction of the run detects that by itself.

/// Renews a lease until `stop`.
package final class LeaseKeeper: Sendable {
    private let stopped = DispatchSemaphore(value: 0)

    /// Starts the thread. It renews after each third of the lease's time.
    package init(_ lease: Lease, _ settings: StoreSettings, pacing: Pacing = Pacing()) {
        let pause = lease.seconds * 1_000 / 3
        let stopped = stopped
        DispatchQueue(label: "pushsweep.lease").async {
            Self.keep(lease, settings, pacing) {
                stopped.wait(timeout: .now() + .milliseconds(pause)) == .timedOut
            }
        }
    }

    /// Renews whenever `isDue` returns true; ends when it returns false, or when the lease is lost.
    static func keep(
        _ lease: Lease, _ settings: StoreSettings, _ pacing: Pacing, isDue: () -> Bool
    ) {
        var store: DatabaseSession?
        while isDue() {
            do throws(StoreFailure) {
                if store == nil { store = try DatabaseSession(settings, pacing: pacing) }
                try store?.renew(lease)
            } catch {
                if error.reason == .lease { return }
                store = nil
            }
        }
    }

    /// Ends the renewing. Does not wait for a renewal in progress, which finds no row after the
    /// lease is given back.
    package func stop() { stopped.signal() }
}

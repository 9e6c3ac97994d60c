import Database
import EvidenceJournal
import TokenHygiene
import TokenTable

// The lease on the token table for every run that reads gateways or changes rows by plan: sweep,
// replay, release, undo. Senders do not take it. Several senders and a sweep work at the same time by
// design: each applies only its own journal's feeds, and application is idempotent under row locks.
// See docs/decisions.md.

extension TokenTable {
    /// Runs a body under the lease on the token table. The lease is renewed meanwhile and given back
    /// at the end, however the body ends. This run must hold the lock of the state folder. Passing
    /// the lease to the store fences the body's writes.
    ///
    /// - Throws: exit 4 when another run holds the lease, any failure of the database while the lease
    ///   is taken, and the errors of the body.
    func underLease<Value>(
        run: String, kind: String, in folder: StateFolder, _ context: RunContext,
        _ body: (Lease) throws -> Value
    ) throws -> Value {
        let applicant = LeaseApplicant(
            kind: kind, run: run, home: try folder.identity(), host: context.host)
        let lease: Lease
        do {
            switch try takeLease(applicant) {
            case .taken(let taken): lease = taken
            case .held(let holder): throw RunFailure(heldBy: holder)
            }
        } catch {
            throw RunFailure.wrapping(error, at: .store)
        }
        let keeper = LeaseKeeper(lease, settings)
        defer {
            keeper.stop()
            do {
                try session.giveBack(lease)
            } catch {
                context.log.notice("\(error); it ends by itself in \(lease.seconds) s")
            }
        }
        return try body(lease)
    }

    /// Throws when a run of another host is at work. It is for runs that change nothing, whose
    /// account may not take a lease and perhaps may not read it.
    ///
    /// - Throws: exit 4 when another run holds the lease; any failure of reading.
    func respectLease(in folder: StateFolder) throws {
        guard let holder = try leaseHolder(), holder.home != (try folder.identity()) else { return }
        throw RunFailure(heldBy: holder)
    }
}

extension RunFailure {
    /// The failure for a lease that another run holds.
    fileprivate init(heldBy holder: LeaseHolder) {
        self.init(
            .locked, .store,
            "taking the lease on the token table: held by \(holder); wait for it; where that run is "
                + "dead, the lease ends by itself")
    }
}

import APNsProtocol

// Two hosts with the same settings must not read the same gateways at once: each would get half of
// the list. A kernel lock keeps runs of one host apart, this lease those of several. It is one row of
// `pushsweep_lease` per token table:
//
//   free --take: fence + 1--> held --renew--> held --give back--> free
//                             held, and not renewed for its time --take: fence + 1--> held by another
//
// All times are the database's. Taking is one guarded UPDATE that names the fence it has read, and a
// second look decides who has it; so it asks nothing of an engine but that an UPDATE of one row is
// atomic, and a commit whose answer was lost is found out by reading.
//
// Time only decides who may take. Who may commit is decided by the fence: a run that was suspended
// for an hour believes in its lease. So every transaction of a run renews the lease as its last
// statement, and finds no row when the fence has moved on. It is an UPDATE and not a locking read,
// because a multi-primary cluster sees only writes of others' transactions, and it comes last,
// because two connections of one run would wait for each other from there to the COMMIT.
//
// A killed run leaves its lease behind. Its own host need not wait for the end: who holds the lock of
// the same state folder knows that no other run of that folder lives.

/// Who asks for the lease.
package struct LeaseApplicant: Hashable, Sendable {
    /// What it will do: `sweep`, `replay`, `undo` and so on; one word.
    package let kind: String
    /// The run, as a UUID in text.
    package let run: String
    /// The state folder whose lock it holds, as a UUID in text. Its holder may take over at once what
    /// another run of the same folder left.
    package let home: String
    /// The machine.
    package let host: String
    /// Seconds until others may take the lease, unless it is renewed.
    package let seconds: Int

    /// States an applicant. A minute is short enough to wait for and long enough for a busy server.
    package init(kind: String, run: String, home: String, host: String, seconds: Int = 60) {
        self.kind = kind
        self.run = run
        self.home = home
        self.host = host
        self.seconds = max(1, seconds)
    }

    /// What the row says about the holder: `sweep@host run=… home=… since=…`.
    func owner(since: String) -> String {
        // The column has 255 characters, of which 150 are left for the host.
        let host = host.prefix(150).map { $0 == " " ? "_" : $0 }
        return "\(kind)@\(String(host)) run=\(run) home=\(home) since=\(since)"
    }
}

/// The lease as a run holds it: what its transactions have to find unchanged.
package struct Lease: Hashable, Sendable {
    /// The row's name.
    let name: String
    /// The number of this holding; the next one has a higher number.
    package let fence: Int64
    /// What the row says about the holder.
    let owner: String
    /// Seconds that a renewal lasts.
    package let seconds: Int

    /// Renews the lease and makes sure that it is still ours; inside a transaction it stays so until
    /// the COMMIT.
    ///
    /// - Throws: `leaseLost` where another run has taken it or somebody has given it away.
    package func hold(_ connection: any SQLConnection) throws(SQLFailure) {
        let dialect = connection.dialect
        let found = try connection.execute(
            "UPDATE pushsweep_lease SET expires_at = \(dialect.now(adding: seconds)) "
                + "WHERE name = ? AND fence = ? AND owner = ?", key)
        // Spider answers 0 for statements it hands on, so 0 says nothing: look.
        if found > 0 { return }
        let row = try LeaseRow.read(name, connection)
        if row?.fence == fence && row?.owner == owner { return }
        throw SQLFailure(
            kind: .leaseLost, code: 0,
            message: "this run no longer holds the lease"
                + (row?.holder.map { ", \($0) does" } ?? ""))
    }

    /// Values for name, fence and owner.
    var key: [SQLValue] { [.text(name), .integer(fence), .text(owner)] }
}

/// Who holds the lease, as the database tells.
package struct LeaseHolder: Hashable, Sendable, CustomStringConvertible {
    /// Kind of run, host and name of the run, as far as the row can be read.
    let owner: String
    /// When others may take it.
    let until: EpochMilliseconds?
    /// Whether that has passed.
    let isExpired: Bool

    /// A part of what the row says about the owner.
    private func part(_ name: String) -> Substring? {
        owner.split(separator: " ").compactMap { $0.droppingPrefix("\(name)=") }.first
    }

    /// The run.
    package var run: String? { part("run").map(String.init) }
    /// The state folder of the run.
    package var home: String? { part("home").map(String.init) }

    /// `sweep on host-a (run …) since … until … unless renewed`.
    package var description: String {
        let words = owner.prefix { $0 != " " }.split(separator: "@", maxSplits: 1)
        let who =
            words.count == 2 ? "\(words[0]) on \(words[1])" : "somebody who is not named"
        let run = part("run").map { " (run \($0))" } ?? ""
        let since = part("since").map { " since \($0)" } ?? ""
        let end = until.map { " until \($0.clockText) unless renewed" } ?? ""
        return who + run + since + end
    }
}

/// The row of the lease.
struct LeaseRow {
    let owner: String?
    let fence: Int64
    let expires: EpochMilliseconds?
    /// The database's time.
    let now: EpochMilliseconds

    /// Reads the row; nil where there is none.
    static func read(_ name: String, _ connection: any SQLConnection) throws(SQLFailure)
        -> LeaseRow?
    {
        let dialect = connection.dialect
        let rows = try connection.query(
            "SELECT owner, fence, expires_at, \(dialect.now) FROM pushsweep_lease WHERE name = ?",
            [.text(name)])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 4)
        return LeaseRow(
            owner: rows[0, 0].text, fence: rows[0, 1].integer ?? 0,
            expires: dialect.ownTime("expires_at").mark(rows[0, 2]),
            now: try dialect.instant(rows[0, 3]))
    }

    /// Who holds it, whether or not the time is over; nil where nobody does.
    var holder: LeaseHolder? {
        owner.map {
            LeaseHolder(owner: $0, until: expires, isExpired: expires.map { $0 <= now } ?? true)
        }
    }
}

extension EpochMilliseconds {
    /// The instant in UTC, as messages print it.
    var clockText: String {
        WallClock(milliseconds: rawValue).text(fraction: 0)
            .replacingSpace(with: "T") + "Z"
    }
}

extension String {
    fileprivate func replacingSpace(with mark: Character) -> String {
        String(map { $0 == " " ? mark : $0 })
    }
}

import APNsProtocol

// Two hosts with the same settings must not read the same gateways at the same time: each would get half
// of the list. A kernel lock separates runs of one host, and this lease separates those of several. It is
// one row of `pushsweep_lease` per token table:
//
//   free --take: fence + 1--> held --renew--> held --give back--> free
//                             held, and not renewed for its time --take: fence + 1--> held by another
//
// All times are the database's. Taking is one guarded UPDATE that names the fence read before, and a
// second read shows which run has the lease. So an engine only has to make an UPDATE of one row atomic,
// and reading detects a commit whose answer was lost.
//
// Time only decides which run may take the lease. The fence decides which run may commit, because a run
// that was suspended for an hour still assumes that it has the lease. So every transaction of a run renews
// the lease as its last statement, and finds no row when the fence has changed. It is an UPDATE and not a
// locking read, because a multi-primary cluster detects only writes of other transactions. It comes last,
// because from there to the COMMIT two connections of one run would wait for each other.
//
// A killed run leaves its lease behind. Its own host need not wait for the end: a run that holds the lock
// of the same state folder proves that no other run of that folder is alive.

/// The run that requests the lease.
package struct LeaseApplicant: Hashable, Sendable {
    /// The kind of run in one word: `sweep`, `replay`, `undo` and so on.
    package let kind: String
    /// The run, as a UUID in text.
    package let run: String
    /// The state folder whose lock the run holds, as a UUID in text. Another run of the same folder
    /// may take over its lease at once after it was killed.
    package let home: String
    /// The name of the host.
    package let host: String
    /// Seconds until other runs may take the lease, unless it is renewed.
    package let seconds: Int

    /// Makes an applicant. The default of a minute is short enough to wait for and long enough for
    /// a busy server.
    package init(kind: String, run: String, home: String, host: String, seconds: Int = 60) {
        self.kind = kind
        self.run = run
        self.home = home
        self.host = host
        self.seconds = max(1, seconds)
    }

    /// The text for the row's `owner`: `sweep@host run=… home=… since=…`.
    func owner(since: String) -> String {
        // The column has 255 characters, of which 150 are reserved for the host.
        let host = host.prefix(150).map { $0 == " " ? "_" : $0 }
        return "\(kind)@\(String(host)) run=\(run) home=\(home) since=\(since)"
    }
}

/// The lease as held by a run; its transactions require that the row has not changed.
package struct Lease: Hashable, Sendable {
    /// The name of the lease, the key of its row.
    let name: String
    /// The number of this holding; the next one has a higher number.
    package let fence: Int64
    /// The `owner` text in the row.
    let owner: String
    /// The seconds from a renewal to the end of the lease.
    package let seconds: Int

    /// Renews the lease and checks that it still belongs to this run; inside a transaction it
    /// remains so until the COMMIT.
    ///
    /// - Throws: `leaseLost` where another run has taken the lease or it was given back.
    package func renew(_ connection: any SQLConnection) throws(SQLFailure) {
        let dialect = connection.dialect
        var row: LeaseRow?
        let isRenewed = try connection.changesRow(
            "UPDATE pushsweep_lease SET expires_at = \(dialect.now(adding: seconds)) "
                + "WHERE name = ? AND fence = ? AND owner = ?", key
        ) { () throws(SQLFailure) in
            row = try LeaseRow.read(name, connection)
            return row?.fence == fence && row?.owner == owner
        }
        if isRenewed { return }
        throw SQLFailure(
            kind: .leaseLost, code: 0,
            message: "this run no longer holds the lease"
                + (row?.holder.map { ", \($0) does" } ?? ""))
    }

    /// The values for name, fence and owner.
    var key: [SQLValue] { [.text(name), .integer(fence), .text(owner)] }
}

/// The holder of the lease, as stored in the database.
package struct LeaseHolder: Hashable, Sendable, CustomStringConvertible {
    /// Kind of run, host and id of the run, as far as the row can be read.
    let owner: String
    /// The time from which on other runs may take it.
    let until: EpochMilliseconds?
    /// Whether that time has passed.
    let isExpired: Bool

    /// One part of the owner text.
    private func part(_ name: String) -> Substring? {
        owner.split(separator: " ").compactMap { $0.droppingPrefix("\(name)=") }.first
    }

    /// The id of the run, a UUID in text; nil where the row cannot be read.
    package var run: String? { part("run").map(String.init) }
    /// The state folder of the run, a UUID in text; nil where the row cannot be read.
    package var home: String? { part("home").map(String.init) }

    /// `sweep on host-a (run …) since … until … unless renewed`.
    package var description: String {
        let words = owner.prefix { $0 != " " }.split(separator: "@", maxSplits: 1)
        let who =
            words.count == 2 ? "\(words[0]) on \(words[1])" : "an unnamed run"
        let run = part("run").map { " (run \($0))" } ?? ""
        let since = part("since").map { " since \($0)" } ?? ""
        let end = until.map { " until \($0.clockText) unless renewed" } ?? ""
        return who + run + since + end
    }
}

/// The row of the lease with its database time.
struct LeaseRow {
    let owner: String?
    let fence: Int64
    let expires: EpochMilliseconds?
    /// The database's time of the read.
    let now: EpochMilliseconds

    /// Reads the row; nil where it does not exist.
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

    /// The holder, whether or not its time has passed; nil for a free lease.
    var holder: LeaseHolder? {
        owner.map {
            LeaseHolder(owner: $0, until: expires, isExpired: expires.map { $0 <= now } ?? true)
        }
    }
}

extension EpochMilliseconds {
    /// The instant in UTC, as messages print it.
    var clockText: String {
        WallClock(milliseconds: rawValue).text(fraction: 0).replacing(" ", with: "T") + "Z"
    }
}

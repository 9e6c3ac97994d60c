import APNsProtocol
import Database

/// Finds where followers begin: the number of a run, of a time, and the last one.
struct ChangeStarts {
    let session: DatabaseSession

    private var connection: any SQLConnection { session.connection }

    /// The last number taken; 0 before the first.
    func lastNumber() throws(StoreFailure) -> Int64 {
        try reading { () throws(SQLFailure) in
            try connection.query("SELECT last_seq FROM pushsweep_commit WHERE number = 0")
                .scalar?.integer ?? 0
        }
    }

    /// The first number of a run, given by its name or the beginning of it.
    ///
    /// - Throws: `ChangeObstacle` where no run, or several, begin so.
    func number(ofRun name: String) throws -> Int64 {
        let (first, after) = (name, name + "\u{7F}")
        let runs = try reading { () throws(SQLFailure) in
            try connection.query(
                "SELECT run, MIN(number) FROM pushsweep_commit WHERE number > 0 AND run >= ? "
                    + "AND run < ? GROUP BY run ORDER BY run LIMIT 2", [.text(first), .text(after)])
        }
        if runs.count == 1 || runs[0, 0].text == name { return runs[0, 1].integer ?? 0 }
        guard runs.count == 0 else { throw ChangeObstacle.severalRuns }
        let entries = try reading { () throws(SQLFailure) in
            try connection.query(
                "SELECT 1 FROM pushsweep_change WHERE run >= ? AND run < ? AND seq >= 0 LIMIT 1",
                [.text(first), .text(after)])
        }
        throw entries.count > 0 ? ChangeObstacle.unnumberedRun : .unknownRun
    }

    /// The number of the first transaction that was committed at a time or later; the one after
    /// the last number where there is none yet.
    func number(at time: EpochMilliseconds) throws(StoreFailure) -> Int64 {
        let value = connection.dialect.ownTime("committed_at").value(time)
        // Read before the search, so that a number taken in between is not passed over.
        let last = try lastNumber()
        let found = try reading { () throws(SQLFailure) in
            try connection.query(
                "SELECT number FROM pushsweep_commit WHERE number > 0 AND committed_at >= ? "
                    + "ORDER BY number LIMIT 1", [value])
        }
        return found.scalar?.integer ?? last + 1
    }

    /// The numbers after a number with their ranges of entries, in order. One statement, so one
    /// snapshot.
    func ranges(after number: Int64, limit: Int) throws(StoreFailure) -> [NumberedRange] {
        try session.retries.retrying("reading the order of changes") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT number, run, feed, part, app, environment, source, first_seq, last_seq "
                    + "FROM pushsweep_commit WHERE number > ? ORDER BY number LIMIT \(limit)",
                [.integer(number)])
            try rows.require(width: 9)
            return (0..<rows.count).map { row in
                NumberedRange(
                    number: rows[row, 0].integer ?? 0, run: rows[row, 1].text ?? "",
                    feed: rows[row, 2].text ?? "", part: rows[row, 3].integer ?? 0,
                    app: rows[row, 4].text ?? "", environment: rows[row, 5].text ?? "",
                    source: rows[row, 6].text ?? "", first: rows[row, 7].integer ?? 0,
                    last: rows[row, 8].integer ?? 0)
            }
        }
    }

    private func reading<R>(_ body: () throws(SQLFailure) -> R) throws(StoreFailure) -> R {
        try session.retries.retrying("looking for the first change to list", body)
    }
}

extension TokenTable {
    /// Requires that the account can read the tables that a follower reads. The token table is not
    /// one of them.
    ///
    /// - Throws: `configuration` where one is missing or lacks a column, `permission` with the GRANT
    ///   where the account may not read it; any failure of a query.
    package func preflightFollowing() throws(StoreFailure) {
        let tables = [PushsweepTable.change, .commit]
        var findings = try missingTables(tables)
        if findings.isEmpty, case .server(let server) = settings.location {
            let maker = PrivilegeMaker(server.database, connection.dialect)
            findings = try rightsFindings(
                RequiredPrivileges(rights: tables.map { maker.sideTable($0, .read) }),
                try session.describe().account ?? server.user)
        }
        if let failure = findings.lazy.compactMap(\.failure).first { throw failure }
    }
}

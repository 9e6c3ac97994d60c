import APNsProtocol
import Database
import Findings
import TokenHygiene

// Reads the ledger in the order of commits, page by page, in memory that does not grow. It reads
// two tables, locks nothing, and needs neither the token table nor a lock of this host: any number
// of followers may read while runs write. `ChangeOrder` says why nothing is missed.
//
// Only a purge can take entries away from a follower. The numbers have no gaps and each says how
// many entries it has, so a follower that continues from its cursor notices every missing entry.
// One that begins at a run, at a time or at a cursor that a person wrote has no such claim: it gets
// what the ledger still has.

/// The place where a follower begins.
package enum ChangeStart: Hashable, Sendable {
    /// After the entries that were seen before.
    case cursor(ChangeCursor)
    /// At the first entry of a run, by its name or the beginning of it.
    case run(String)
    /// At the first transaction that was committed at this time or later, by the database's clock.
    case time(EpochMilliseconds)
}

/// Why a follower cannot begin where it wants, or cannot continue.
package enum ChangeObstacle: Error, Hashable, Sendable {
    /// No run with changes begins like this.
    case unknownRun
    /// Several runs begin like this.
    case severalRuns
    /// The cursor is beyond the last number, which is given.
    case beyond(Int64)
    /// The cursor's number belongs to another transaction here.
    case otherTransaction
    /// Entries after the cursor were purged; the follower can continue after the second cursor.
    case purged(after: ChangeCursor, next: ChangeCursor)
}

/// An entry of the ledger with the place after it.
package typealias FollowedChange = (cursor: ChangeCursor, entry: LedgerEntry)

/// Reads changes in the order of their commits.
package struct ChangeFollower {
    /// The most entries of one page.
    private static let page = 500
    /// The numbers that are read at once.
    private static let numbersPerPage = 256

    private let session: DatabaseSession
    /// The place after the last entry returned.
    package private(set) var cursor: ChangeCursor
    /// Whether a missing entry is an obstacle.
    private let isExact: Bool
    /// Numbers that were read and are not finished.
    private var waiting: ArraySlice<LedgerRange> = []
    /// The sequence number after which entries of the first waiting number follow.
    private var seen: Int64?

    private var ledger: LedgerReader { LedgerReader(connection: session.connection) }

    /// Finds the place to begin.
    ///
    /// - Throws: `ChangeObstacle` for a place that is not there, any `StoreFailure` of reading.
    package init(_ session: DatabaseSession, from start: ChangeStart) throws {
        self.session = session
        switch start {
        case .cursor(let cursor):
            self.cursor = cursor
            isExact = cursor.check != nil
            try begin(at: cursor)
        case .run(let name):
            isExact = false
            cursor = .before(0)
            cursor = .before(try number(ofRun: name))
        case .time(let time):
            isExact = false
            cursor = .before(0)
            cursor = .before(
                try session.retries.retrying(
                    "looking for the first change to list", do: ledger.number(at: time)))
        }
    }

    /// The next entries in order, at most a page of them; empty at the end.
    ///
    /// - Throws: `ChangeObstacle.purged` where entries are missing, any `StoreFailure` of reading.
    package mutating func next() throws -> [FollowedChange] {
        while true {
            if waiting.isEmpty { waiting = try numbers(after: cursor)[...] }
            guard let range = waiting.first else { return [] }
            if isExact, range.number > cursor.number + 1 {
                throw ChangeObstacle.purged(after: cursor, next: .before(range.number))
            }
            let found = try entries(of: range, after: seen ?? range.first - 1)
            let page = try advance(over: found, of: range)
            if !page.isEmpty { return page }
        }
    }

    /// Moves the cursor over the entries found of a number, and returns them. Entries before a
    /// missing one are returned first. Entries without a state only accompany others: they keep the
    /// time of a mark in a column of two values.
    private mutating func advance(
        over found: [LedgerEntry], of range: LedgerRange
    ) throws -> [FollowedChange] {
        let first = (seen ?? range.first - 1) + 1
        var expected = first
        var page: [FollowedChange] = []
        for var entry in found {
            if isExact && entry.sequence != expected { break }
            expected = entry.sequence + 1
            guard entry.state != nil else { continue }
            entry.origin = range.origin
            page.append((range.cursor(after: entry.sequence), entry))
        }
        if expected > range.last || !isExact && found.count < Self.page {
            cursor = range.cursor(after: range.last)
            waiting.removeFirst()
            seen = nil
        } else if expected == first {
            let next = found.first.map { $0.sequence - 1 } ?? range.last
            throw ChangeObstacle.purged(after: cursor, next: range.cursor(after: next))
        } else {
            seen = expected - 1
            cursor = range.cursor(after: expected - 1)
        }
        return page
    }

    // MARK: Beginning

    /// Checks a cursor, and finds the number in which it is.
    private mutating func begin(at cursor: ChangeCursor) throws {
        let last = try lastNumber()
        guard cursor.number <= last else { throw ChangeObstacle.beyond(last) }
        guard let check = cursor.check else { return }
        let known = try numbers(after: .before(cursor.number), limit: 1).first
        guard let known, known.number == cursor.number else {
            // The number was purged. Whether all of it was seen, the cursor itself says.
            guard cursor.entries == nil else {
                throw ChangeObstacle.purged(
                    after: cursor, next: ChangeCursor(number: cursor.number))
            }
            return
        }
        guard known.check == check else { throw ChangeObstacle.otherTransaction }
        guard let entries = cursor.entries else { return }
        guard entries < known.count else { throw ChangeObstacle.otherTransaction }
        waiting = [known]
        seen = known.first + entries - 1
    }

    // MARK: Reading

    /// The numbers after a cursor, in order.
    private func numbers(
        after cursor: ChangeCursor, limit: Int = numbersPerPage
    ) throws(StoreFailure) -> [LedgerRange] {
        try session.retries.retrying(
            "reading the order of changes", do: ledger.ranges(after: cursor.number, limit: limit))
    }

    private func lastNumber() throws(StoreFailure) -> Int64 {
        try session.retries.retrying("reading the order of changes", do: ledger.lastNumber())
    }

    /// The first number of a run, given by its name or the beginning of it.
    ///
    /// - Throws: `ChangeObstacle` where no run, or several, begin so.
    private func number(ofRun name: String) throws -> Int64 {
        let runs = try session.retries.retrying(
            "looking for the first change to list", do: ledger.runs(beginning: name))
        guard let first = runs.first else { throw ChangeObstacle.unknownRun }
        guard runs.count == 1 || first.run == name else { throw ChangeObstacle.severalRuns }
        return first.number
    }

    /// The next entries of a number, at most a page.
    private func entries(
        of range: LedgerRange, after sequence: Int64
    ) throws(StoreFailure) -> [LedgerEntry] {
        try session.retries.retrying(
            "reading the change ledger",
            do: ledger.entries(
                of: range.part, after: sequence, through: range.last, limit: Self.page))
    }
}

extension TokenTable {
    /// Requires that the account can read the tables that a follower reads. The token table is not
    /// one of them.
    ///
    /// - Throws: as `require`.
    package func requireFollowing() throws(StoreFailure) {
        try require(.read, on: [.change, .commit])
    }

    /// Requires rights on some of our tables, before anything is done with the first of them.
    ///
    /// - Throws: `configuration` where one is missing or lacks a column, `permission` with the GRANT
    ///   where the account lacks a right; any failure of a query.
    package func require(
        _ access: SideTableAccess, on tables: [PushsweepTable],
        deletingFrom emptied: [PushsweepTable] = []
    ) throws(StoreFailure) {
        var findings = try missingTables(tables)
        if findings.isEmpty, case .server(let server) = settings.location {
            let maker = PrivilegeMaker(server.database, connection.dialect)
            findings = try rightsFindings(
                RequiredPrivileges(
                    rights: tables.map { maker.sideTable($0, access) }
                        + emptied.map { maker.deleting(from: $0) }),
                try session.describe().account ?? server.user)
        }
        if let failure = findings.refusal { throw failure }
    }
}

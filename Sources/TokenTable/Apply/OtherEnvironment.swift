// A token belongs to one environment of APNs, for ever. Where a row names the other one, each notification is refused
// (400 BadDeviceToken), and the device is never reached. Such a row moves: its column of the environment gets the
// other value, and nothing else of it changes.
//
//   row of production, no mark --APNs knows the token in the sandbox--> the same row, of the sandbox
//
// The proof has to hold when the row moves, which may be long after somebody asked for it: APNs may have accepted the token
// where it is meanwhile. What else may stand against a move is in the other environment: a row that has the token there already, whether a unique
// key says so or not, or a mark in `pushsweep_invalid` by which the moved row would be dead at once. Such a row stays, and
// the ledger names the other one.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// What a token has in the other environment already.
struct Occupant {
    /// The row that has the token there, as the ledger spells its key.
    var row: ExactText?
    /// The time of its mark in `pushsweep_invalid`.
    var mark: EpochMilliseconds?
    /// Whether nothing proves any more that it is of the other environment.
    var isUnproven = false

    /// The refusal to move a row there; nil where nothing stands against it.
    func refusal(of moved: MatchedRow, at time: EpochMilliseconds) -> RefusedRow? {
        if let row {
            return RefusedRow(row: moved, reason: .taken, time: time, other: row)
        }
        if isUnproven { return RefusedRow(row: moved, reason: .unproven, time: time) }
        guard let mark, moved.judged(markedAt: mark).isStale else { return nil }
        return RefusedRow(row: moved, reason: .markedThere, time: time)
    }
}

/// The other environment of a partition, into which rows move.
struct OtherEnvironment {
    /// The partition with the names that the table uses.
    let partition: Partition
    /// The column of the environment and its value there.
    let content: RowContent
    /// The partition of the rows.
    private let home: Partition
    private let lookup: RowLookup
    private let marks: InvalidTokenTable?

    /// - Throws: `configuration` where no column says of which environment a row is, or where it is a part of the key by
    ///   which the ledger names rows.
    init(
        _ layout: TableLayout, _ connection: any SQLConnection, of partition: Partition
    ) throws(StoreFailure) {
        let column = try layout.movableEnvironment()
        guard let other = partition.elsewhere else {
            throw StoreFailure(
                .configuration, "moving rows of \(partition): it has no other environment")
        }
        (self.partition, home) = (other, partition)
        content = RowContent([column.name], [try column.value(for: other.environment)])
        lookup = try RowLookup(layout, connection, other, wholeRows: false, looksAlike: true)
        marks =
            layout.mark == nil ? InvalidTokenTable(partition: other, connection: connection) : nil
    }

    /// What the tokens of evidence have there. Without `readsMarks` the marks beside the table are left out.
    func occupants(
        of evidence: ArraySlice<TokenEvidence>, readsMarks: Bool = true
    ) throws(SQLFailure) -> [DeviceToken: Occupant] {
        var found: [DeviceToken: Occupant] = [:]
        let tokens = evidence.map(\.token)
        let proven = try Suspects.proven(among: tokens, in: home, on: lookup.connection)
        for token in tokens where !proven.contains(token) {
            found[token, default: Occupant()].isUnproven = true
        }
        for row in try lookup.rows(for: evidence, locking: false).rows {
            found[evidence[row.evidence].token, default: Occupant()].row = lookup.name(of: row)
        }
        guard readsMarks, let marks else { return found }
        for (token, mark) in try marks.marks(on: tokens, locking: false) {
            found[token, default: Occupant()].mark = mark.time
        }
        return found
    }
}

extension TableLayout {
    /// The column that says of which environment a row is, where a row can move by it alone.
    ///
    /// - Throws: `configuration` where it cannot.
    package func movableEnvironment() throws(StoreFailure) -> PartitionColumn {
        guard let environment else {
            throw StoreFailure(
                .configuration,
                "moving rows of \(table): no column says of which environment a row is, so the application has to move "
                    + "them; pushsweep environments --list FILE lists them")
        }
        guard !key.contains(where: { $0.name.lowercased() == environment.name.lowercased() })
        else {
            throw StoreFailure(
                .configuration,
                "moving rows of \(table): \(environment.name) is a part of the key by which the ledger names rows, so an "
                    + "undo would not find them; name columns of another unique key under store.active-users.key"
            )
        }
        guard !generated.contains(where: { $0.lowercased() == environment.name.lowercased() })
        else {
            throw StoreFailure(
                .configuration,
                "moving rows of \(table): \(environment.name) is computed from other columns, so the application has to "
                    + "move them; pushsweep environments --list FILE lists them")
        }
        return environment
    }
}

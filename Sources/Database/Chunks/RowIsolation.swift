// One statement changes hundreds of rows, and one row that cannot be changed makes it fail: a trigger
// signals an error, a foreign key protects the row, a value does not fit. The chunk is then rolled back and
// redone row by row, and refused rows are left out and named. The next chunk is done together again.
//
//   together --refused, or twice not found--> row by row --commit--> together
//
// Two refusals are worse than a failed statement. A trigger of SQLite may end the whole transaction
// (RAISE(ROLLBACK)): the row is remembered and skipped in the next try. A foreign key of SQLite may be
// checked at COMMIT only, which names no row: row by row it is checked after each. If a commit is refused
// all the same, the chunk shrinks until one entry is left, and its rows are refused.
//
// A trigger may also give its SIGNAL the number of a deadlock. A deadlock ends the transaction, a SIGNAL
// does not. So the second try sets a savepoint first. Where the rollback to it succeeds, the row refused.
//
// A statement may also succeed and do something else than was meant: a trigger changes what is inserted. What the
// rows hold afterwards shows it, for all rows of the statement at once. They are remembered, and the next try leaves
// them out. Where every row of a run is one of them, the cause is the
// table and no row: the run ends, and its evidence waits.

import Encodings

/// The refused rows of a chunk, over all tries of the chunk. Confined to the store's thread.
package final class RowIsolation {
    /// Whether no row of the chunk was refused or not found so far.
    package var isUntroubled: Bool {
        let isUseful = staleInTurn < Self.mostStale || connection.certifiesCommits
        return !isOn && !isStale && isUseful && misses == 0 && remembered.isEmpty
    }

    /// Whether rows are changed one by one.
    package private(set) var isOn = false
    private var misses = 0
    /// Whether something of the chunk changed after it was read without a lock.
    private var isStale = false
    /// Chunks in turn of which something had changed. Values that equal nothing, themselves included, look so each time.
    private var staleInTurn = 0
    private static let mostStale = 5
    private var remembered: [ExactText: RowRefusal] = [:]
    /// Rows of the whole run that a change left otherwise than it was meant to.
    private var spoiled = 0
    /// Whether a row of the run was read again after its change, and was as it was meant to be.
    private var hasSound = false
    private var most: Int?
    private var wantsRetry = false
    /// The chunks of the run that were changed row by row.
    private var chunksAlone = 0
    /// The last failure of a statement about many rows; nil where one did not find all of its rows.
    private var cause: SQLFailure?
    /// Whether a statement of the chunk failed with a deadlock.
    private var hadDeadlock = false

    private let connection: any SQLConnection

    /// Starts without refused rows, with whole chunks.
    package init(_ connection: any SQLConnection) { self.connection = connection }

    /// The number of entries that the next try may take, at most `entries`.
    func limited(_ entries: Int) -> Int { min(entries, most ?? entries) }

    /// Requests another try, row by row.
    package func isolate() {
        isOn = true
        wantsRetry = true
    }

    /// Records that a statement failed; a failure about a row requests another try, row by row.
    package func note(_ failure: SQLFailure, isAboutRow: Bool = false) {
        guard RowRefusal(failure) != nil || isAboutRow && failure.mayBeAboutRow else { return }
        if !isOn { cause = failure }
        isolate()
    }

    /// Runs a statement that changes many rows. A deadlock that did not end the transaction
    /// requests another try, row by row.
    package func watching<R>(
        _ statement: () throws(SQLFailure) -> R
    ) throws(SQLFailure) -> R {
        let isAgain = hadDeadlock
        if isAgain { try connection.run("SAVEPOINT pushsweep_row") }
        do {
            return try statement()
        } catch {
            guard error.isDeadlock else { throw error }
            if isAgain && isSignal(error) { isolate() }
            hadDeadlock = true
            throw error
        }
    }

    /// Whether a deadlock is the SIGNAL of a trigger, because the transaction is still open. Called
    /// after `SAVEPOINT pushsweep_row`, to which it rolls back.
    package func isSignal(_ failure: SQLFailure) -> Bool {
        guard failure.isDeadlock else { return false }
        return (try? connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")) != nil
    }

    /// Records that a statement did not find all of its rows. At the first miss another transaction
    /// may have changed a row.
    package func noteMiss() {
        misses += 1
        if misses > 1 && !isOn { isolate() }
    }

    /// Records that something changed after it was read without a lock, and requests another try, which locks what it
    /// reads.
    package func noteStale() { (isStale, wantsRetry) = (true, true) }

    /// Records that the commit of `entries` entries was refused because of `rows`.
    package func noteCommit(_ failure: SQLFailure, entries: Int, rows: [ExactText]) {
        guard let refusal = RowRefusal(failure) else { return }
        if !isOn {
            isOn = true
        } else if entries > 1 {
            most = entries / 2
        } else {
            for row in rows { remembered[row] = refusal }
        }
        wantsRetry = !rows.isEmpty
    }

    /// Remembers a row whose change ended the transaction.
    package func remember(_ refusal: RowRefusal, of row: ExactText) {
        remembered[row] = refusal
        wantsRetry = true
    }

    /// Rows without a single sound one after which the table is the cause.
    private static let mostSpoiled = 10

    /// Records what rows held that were read again after their change: `spoiled` ones are remembered and
    /// skipped in the next try, beside `sound` others.
    ///
    /// - Returns: whether every row of the run is spoiled, and they are many.
    package func noteReread(
        spoiled rows: some Collection<ExactText>, as refusal: RowRefusal, sound: Int
    ) -> Bool {
        if sound > 0 { hasSound = true }
        guard !rows.isEmpty else { return false }
        for row in rows where remembered.updateValue(refusal, forKey: row) == nil { spoiled += 1 }
        let isEveryRow = !hasSound && spoiled >= Self.mostSpoiled
        // The next try would skip these rows, and the run would go on.
        wantsRetry = !isEveryRow
        return isEveryRow
    }

    /// Whether rows are remembered that the next try skips.
    package var skipsRows: Bool { !remembered.isEmpty }

    /// The reason for skipping a row; nil for one that is to be tried.
    package func refusal(of row: ExactText) -> RowRefusal? { remembered[row] }

    /// Whether to try the chunk again at once, because the next try differs from the last one.
    func takesRetry() -> Bool {
        defer { wantsRetry = false }
        return wantsRetry
    }

    /// The chunks row by row after which a person is told, once: a row here and there takes fewer.
    private static let lasting = 5

    /// Returns to whole chunks. Where chunk after chunk is changed row by row, returns a sentence for
    /// the run's log, once.
    @discardableResult
    func committed() -> String? {
        var notice: String?
        if isOn {
            chunksAlone += 1
            if chunksAlone == Self.lasting {
                // The server's words may hold a token.
                let said = cause.map { "its error \($0.code)" } ?? "it does not find all rows"
                notice =
                    "changes row by row, which is slow, because the server takes none of the last "
                    + "chunks as a whole (\(said)); rows that it refuses are named at the end"
            }
        }
        cause = nil
        isOn = false
        staleInTurn = isStale || staleInTurn == Self.mostStale ? staleInTurn + (isStale ? 1 : 0) : 0
        (misses, isStale) = (0, false)
        remembered = [:]
        most = nil
        wantsRetry = false
        hadDeadlock = false
        return notice
    }
}

/// The reason why one row was not changed although the evidence makes it stale. The row stays
/// unchanged.
package enum RowRefusal: String, Hashable, Sendable, CaseIterable {
    /// A trigger signalled an error.
    case trigger
    /// Rows of another table refer to the row, and their foreign key restricts its removal.
    case referenced
    /// The changed row would refer to a row of another table that does not exist.
    case dangling
    /// A CHECK of the table is violated by the changed row.
    case check
    /// Another row has the new value of a unique key.
    case taken
    /// A value does not fit its column, or a column does not accept NULL.
    case value
    /// The database does not find the row by the key that it returned for it.
    case unmatched
    /// The row's registration cannot be read, so it is unknown whether the device came back.
    case registration
    /// Deleted and inserted again on trial, the row is another one, or is refused.
    case altered
    /// A value of the row cannot be kept byte by byte, the row is too large for one statement, or it
    /// breaks a rule of the table already, so a removed row could not be restored.
    case inexact
    /// The statement fails for this row and for no other, mostly in a trigger.
    case failure
    /// The row's key is longer than the ledger's column for it, or NULL.
    case key

    /// The middle of a sentence about the row.
    package var words: String {
        switch self {
        case .trigger: "a trigger refuses the change"
        case .referenced: "other rows refer to it"
        case .dangling: "it would refer to a row that does not exist"
        case .check: "a check of the table refuses the change"
        case .taken: "a unique key has the new value in another row"
        case .value: "a value does not fit its column"
        case .unmatched: "the database does not find it by its own key"
        case .registration: "its time of registration cannot be read"
        case .altered:
            "inserted again it would be another row or be refused, so it could not be restored"
        case .inexact:
            "it cannot be kept byte by byte, is too large for a statement, or breaks a rule of the table, "
                + "so it could not be restored"
        case .failure: "changing it fails, mostly in a trigger"
        case .key: "its key is NULL, or too long for the ledger"
        }
    }

    /// Classifies the database's error about one changed row; nil for a failure that is not about
    /// the row.
    package init?(_ failure: SQLFailure) {
        switch failure.code {
        case 1_062: self = .taken
        case _ where failure.kind != .refused: return nil
        case 1_217, 1_451: self = .referenced
        case 1_216, 1_452: self = .dangling
        case 3_819, 4_025: self = .check
        case 1_048, 1_264, 1_265, 1_292, 1_300, 1_364, 1_366, 1_406, 1_411, 1_690: self = .value
        case 19: self = Self.sqlite(failure.message)
        // Any other refusal has the number that a trigger gave its SIGNAL.
        default: self = .trigger
        }
    }

    /// Classifies SQLITE_CONSTRAINT of any kind. The texts are those of SQLite's source, and a
    /// trigger's RAISE may have any.
    private static func sqlite(_ message: String) -> RowRefusal {
        if message.hasPrefix("FOREIGN KEY") { return .referenced }
        if message.hasPrefix("CHECK") { return .check }
        if message.hasPrefix("UNIQUE") { return .taken }
        if message.hasPrefix("NOT NULL") || message.contains("cannot store") { return .value }
        return .trigger
    }
}

extension SQLFailure {
    /// Whether the server reports that two transactions waited for each other (ER_LOCK_DEADLOCK),
    /// of which it ends one.
    var isDeadlock: Bool { kind == .conflict && code == 1_213 }

    /// Whether the row may be the cause of a failed change of one row. Temporary failures are not,
    /// nor is a disk or a table that accepts no change at all.
    package var mayBeAboutRow: Bool {
        switch kind {
        case .refused, .configuration, .permission: true
        case .other: ![7, 10, 11, 13, 26].contains(code) && !Self.storageFaults.contains(code)
        case .conflict, .lost, .overloaded, .tooLarge, .unreachable, .untrusted, .readOnly,
            .misplaced,
            .leaseLost, .inconsistent:
            false
        }
    }

    /// Numbers of servers about disks and whole tables: full, crashed, out of memory, read-only.
    private static let storageFaults: Set<Int> = [
        3, 5, 1_021, 1_026, 1_030, 1_034, 1_035, 1_036, 1_037, 1_038, 1_041, 1_105, 1_114, 1_194,
        1_195, 1_665, 1_878, 2_027,
    ]
}

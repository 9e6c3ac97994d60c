// A person who undoes changes, or discards what is held, says no. The no is remembered for each token, so that no
// inlet, file, host or restart brings back what he refused:
//
//   until_at     the latest evidence that he did not want
//   undone_at    when an undo last left the token's row living, or a discard of rows that were due left it there
//   heard_until  when he last discarded a batch about it
//
// What counts against a token is evidence that APNs gave after the no. The time that APNs names does not show that: a
// dead token may be answered with one old time for ever. So what decides is when somebody of ours heard it. Of a line
// in a log that is mostly not known. Then the time decides: a line that says no more than what was refused is spared,
// however often the log is imported.
//
//   heard not after undone_at                                         spared
//   says no later time than until_at, and
//     heard not after heard_until, or nobody knows when               spared
//   a person asked for it (release, replay, import --again)           heard when he asked
//
// Times are those of the database's clock. Values only grow, but for two: an undo that makes a row dead again, as
// that of an undo, clears `undone_at`, and what a person asked for removes the note where it makes a row dead. A note
// of 400 days is purged. A registration that is later than the evidence answers in any case, with or without a note.
//
// The key is the token alone. An undo knows the table's value of an app and a discard its name in the settings; a
// token belongs to one app of one environment anyway. Both stand beside it, for a person who asks.
//
// The notes are read behind the statement that locks the rows of a chunk. An undo writes them while it holds the locks
// of its rows, so a judgement that waited for it sees its no. Where nothing is locked first, they are read again behind
// the change.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// When evidence was heard, by the database's clock.
package enum Hearing: Hashable, Sendable {
    case at(EpochMilliseconds)
    /// Nobody knows.
    case unknown
    /// A person asked for it then.
    case asked(EpochMilliseconds)
}

/// What a person said no to about one token.
package struct SparedToken: Hashable, Sendable {
    package let token: DeviceToken
    /// The app and environment, as the table or the settings name them.
    package let partition: Partition
    /// The latest evidence that a person did not want.
    package let until: EpochMilliseconds
    /// When a person last discarded evidence about it; nil where none was.
    package let heardUntil: EpochMilliseconds?
    /// When an undo last left its row living, or a discard of rows that were due left it there; nil where none did.
    package let undoneAt: EpochMilliseconds?
    /// The run that said the last no.
    package let run: String

    /// Whether a row stays at the end of a grace period whose mark has a time. Nobody heard a mark, so what counts is
    /// that a person left the row there: by an undo, or by the discard of such rows. What he discards of other reports
    /// marked nothing, and says no to no mark that was there. A person may ask for it afterwards.
    package func sparesMark(of time: EpochMilliseconds, heard: Hearing) -> Bool {
        guard let undoneAt, time <= until else { return false }
        if case .asked(let asked) = heard { return asked <= undoneAt }
        return true
    }

    /// Whether evidence with a time, floored as the mark would be, gives way to the no.
    package func spares(_ time: EpochMilliseconds, heard: Hearing) -> Bool {
        switch heard {
        case .unknown: return time <= until
        case .at(let heard), .asked(let heard):
            if let undoneAt, heard <= undoneAt { return true }
            return time <= until && heardUntil.map { heard <= $0 } ?? false
        }
    }
}

/// Reads what persons said no to.
struct SparedTokens {
    let connection: any SQLConnection

    /// The notes about some tokens.
    func notes(
        on tokens: some Collection<DeviceToken>
    ) throws(SQLFailure) -> [DeviceToken: SparedToken] {
        var notes: [DeviceToken: SparedToken] = [:]
        let time = connection.dialect.ownTime("until_at")
        for some in tokens.map({ SQLValue.bytes($0.bytes) }).runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let rows = try connection.query(
                "SELECT token, app, environment, until_at, heard_until, undone_at, by_run FROM "
                    + "pushsweep_spared WHERE token IN (\(placeholders(padded.count)))", padded)
            for row in 0..<rows.count {
                guard let token = rows.token(row, 0), let until = time.mark(rows[row, 3]) else {
                    continue
                }
                notes[token] = SparedToken(
                    token: token, partition: rows.partition(row, 1), until: until,
                    heardUntil: time.mark(rows[row, 4]), undoneAt: time.mark(rows[row, 5]),
                    run: rows.string(row, 6))
            }
        }
        return notes
    }

    /// The notes about those tokens of evidence that rows were found for.
    func notes(
        on evidence: ArraySlice<TokenEvidence>, of places: some Sequence<Int>
    ) throws(SQLFailure) -> [DeviceToken: SparedToken] {
        try notes(on: Set(places).sorted().map { evidence[$0].token })
    }
}

extension TokenTable {
    /// Whether the account sees what persons said no to.
    ///
    /// - Throws: any failure of a query.
    package func seesSpared() throws(StoreFailure) -> Bool {
        try session.canRead(
            PushsweepTable.spared.name,
            PushsweepTable.spared.columns.map(\.name).joined(separator: ", "))
    }

    /// The notes about some tokens.
    ///
    /// - Throws: any failure of a query.
    package func spared(
        among tokens: [DeviceToken]
    ) throws(StoreFailure) -> [DeviceToken: SparedToken] {
        try retries.retrying(
            "looking for what was undone or discarded",
            do: SparedTokens(connection: connection).notes(on: tokens))
    }
}

import APNsProtocol
import Database
import Encodings

/// One entry of the ledger as a follower gets it.
package struct FollowedChange: Sendable {
    /// The place after this entry.
    package let cursor: ChangeCursor
    /// The app as the token table names it.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// The run that made the change.
    package let run: String
    /// What was done, as the ledger names it: `mark`, `advance`, `delete`, `side-mark`, `insert`,
    /// `restore` or `side-restore`.
    package let action: String
    /// The state of the row after the change: `valid`, `invalid` or `deleted`; nil in entries that
    /// only accompany another one.
    package let state: String?
    /// The row's token; nil where the row has none that can be read.
    package let token: DeviceToken?
    /// The time of the evidence.
    package let evidence: EpochMilliseconds?
    /// The source of the feed: `feedback`, a reason of APNs, `delete-after` or `undo`.
    package let source: String
    /// The reason of the mark, as the row's reason column has it; nil for the change of an undo.
    package let reason: String?
    /// The time of the change by the database's clock.
    package let changed: EpochMilliseconds?
    /// The row's key as the ledger spells it. May contain the whole token.
    private let storedKey: String

    /// The columns of an entry, in the order of `init`.
    static let columns =
        "seq, action, row_key, evidence_at, source, changed_at, token, state"

    /// Reads a row of `columns`.
    init(_ row: ArraySlice<SQLValue>, in range: NumberedRange, _ dialect: SQLDialect) {
        func value(_ column: Int) -> SQLValue { row[row.startIndex + column] }
        let time = dialect.ownTime("changed_at")
        cursor = range.cursor(after: value(0).integer ?? range.first)
        app = range.app
        environment = range.environment
        run = range.run
        action = value(1).text ?? ""
        storedKey = value(2).text ?? ""
        evidence = time.mark(value(3))
        source = range.source
        let entrySource = value(4).text
        reason = entrySource == "undo" ? nil : entrySource
        changed = time.mark(value(5))
        token = if case .bytes(let bytes) = value(6) { DeviceToken(bytes) } else { nil }
        state = value(7).text
    }

    /// The row's key as the ledger spells it; see `LedgerKey`.
    package func key(wholeTokens: Bool) -> String {
        LedgerKey(storedKey, of: token).text(wholeTokens: wholeTokens)
    }
}

import APNsProtocol
import Database
import Encodings

/// One entry of the ledger as a follower gets it.
package struct FollowedChange: Sendable {
    /// The place after this entry.
    package let cursor: ChangeCursor
    /// The app's name in the settings.
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

    /// The row's key as the ledger spells it: the bare number, else a JSON array. Without
    /// `wholeTokens` a value that is the row's token is shortened; so is every value of bytes in
    /// an entry without a token.
    package func key(wholeTokens: Bool) -> String {
        if wholeTokens { return storedKey }
        // A key that cannot be read may hold a token too.
        guard let values = RowImageReader.key(storedKey) else { return "" }
        if values.count == 1, case .integer = values[0] { return storedKey }
        return RowImage.key(values.map(shortened))
    }

    private func shortened(_ value: SQLValue) -> SQLValue {
        switch value {
        case .bytes(let bytes), .rawText(let bytes):
            if token.map({ $0.bytes == bytes }) ?? true {
                return .text(DeviceToken(bytes)?.redacted ?? "")
            }
            return shortened(spelled: String(validating: bytes, as: UTF8.self)) ?? value
        case .text(let text): return shortened(spelled: text) ?? value
        default: return value
        }
    }

    /// The shortened token where a text spells it.
    private func shortened(spelled text: String?) -> SQLValue? {
        if let text, let token, token.count > 4, text.lowercased().contains(token.hex) {
            return .text(text.lowercased().replacing(token.hex, with: token.redacted))
        }
        guard let text, let spelled = try? DeviceToken(spelling: text) else { return nil }
        // Without a token to compare with, hex text as long as one is taken for one.
        guard token == spelled || token == nil && spelled.count >= 32 else { return nil }
        return .text(spelled.redacted)
    }
}

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// A part of a run, in which the ledger has its entries: what the run changed by one batch, or, of an undo, in one
/// app and environment. See `pushsweep_part`.
package struct LedgerPart: Hashable, Sendable {
    /// The run that made the changes; empty where its row is gone.
    package let run: String
    /// Its number in the database.
    package let number: Int64

    /// The number as the value of `part = ?`.
    var value: SQLValue { .integer(number) }
}

/// One entry of the ledger: what a transaction did to a row, or to a mark beside the table.
package struct LedgerEntry: Hashable, Sendable {
    /// Names an entry.
    struct ID: Hashable {
        let part: LedgerPart
        let sequence: Int64
    }

    /// What is known of the part that an entry belongs to.
    package struct Origin: Hashable, Sendable {
        /// The app, by the table's value, and the environment.
        package let partition: Partition
        /// The source of the batch: `feedback`, a reason of APNs or `grace`; else `undo`.
        package let source: String
        /// The name of the batch; nil for an undo, where the batch is gone, and where it was not read.
        package var batch: String?
        /// Whether a person released the batch.
        package var isReleased = false
    }

    /// The part of a run that it belongs to.
    package let part: LedgerPart
    /// Its number within the part; below 0 for a row that refused its change.
    let sequence: Int64
    /// `mark`, `advance`, `delete`, `side-mark`, `insert`, `restore`, `side-restore` or `refused`.
    package let action: String
    /// The key as the ledger spells it. May contain the whole token.
    var storedKey: ExactText = ""
    /// The time of the evidence.
    package let evidence: EpochMilliseconds
    /// The source of the evidence, which is the reason of the mark.
    let source: String
    /// When the change was made, by the database's clock.
    package var changed = EpochMilliseconds(0)
    /// The token that the row had.
    package var token: DeviceToken?
    /// `valid`, `invalid` or `deleted` after the change; nil for a refusal, and for an entry that
    /// only accompanies another one.
    package var state: String?
    let hasImage: Bool
    /// Whether its image tells the mark beside its row too, which changed with it.
    package var tellsMarkBeside = false
    /// Whether it accompanies the entry of a row, about the same device.
    var isCompanion = false
    /// What `RowImage` spelled; nil also where it was not read.
    var image: String?
    /// Its part; nil where that is gone or was not read.
    package var origin: Origin?
    /// Whether its part is about another table, token or mark than the settings name; false where
    /// that was not read.
    package var isForeign = false

    var id: ID { ID(part: part, sequence: sequence) }
    /// The change of the mark beside the row that the same entry tells; nil where it tells none.
    var besideRow: LedgerEntry? {
        guard tellsMarkBeside, let token else { return nil }
        return LedgerEntry(
            part: part, sequence: sequence, action: "side-mark",
            storedKey: RowImage.key([.bytes(token.bytes)]), evidence: evidence, source: source,
            changed: changed, token: token, hasImage: true, isCompanion: true)
    }
    /// Whether it is about a mark in `pushsweep_invalid`, and no row.
    package var isBeside: Bool { Self.isBeside(action) }
    /// The reason of the mark; nil for the change of an undo.
    package var reason: String? { source == Self.undoSource ? nil : source }
    /// Whether an undo made the change.
    package var isOfUndo: Bool { source == Self.undoSource }
    /// The row's key.
    package var key: LedgerKey { LedgerKey(storedKey, of: token) }
    /// Why the row refused its change, in one word; nil for a change.
    package var refusal: String? {
        guard action == Self.refused else { return nil }
        return image.flatMap(RowImageReader.content)?[Self.refused]?.text ?? Self.refused
    }

    /// The source of the changes of an undo.
    static let undoSource = "undo"
    /// The action of entries about rows that refused their change.
    static let refused = "refused"
    static func isBeside(_ action: String) -> Bool { action.hasPrefix("side-") }
}

/// The entries of one part that one transaction wrote.
struct LedgerRange {
    let part: LedgerPart
    let partition: Partition
    /// The source, as its part has it.
    let source: String
    /// The number of the first entry within the part.
    let first: Int64
    let count: Int64
    /// The number in the order of commits; 0 before it is given. See `ChangeOrder`.
    var number: Int64 = 0
    /// When the number was given, by the database's clock.
    var committed: EpochMilliseconds?

    var last: Int64 { first &+ count &- 1 }
    var origin: LedgerEntry.Origin { LedgerEntry.Origin(partition: partition, source: source) }
}

extension LedgerRange {
    /// A range that was written and has no number yet.
    init(
        _ part: LedgerPart, partition: Partition, source: String, first: Int, count: Int
    ) {
        self.init(
            part: part, partition: partition, source: source, first: Int64(first),
            count: Int64(count))
    }
}

/// The key of a row as the ledger spells it. It may contain the row's whole token.
package struct LedgerKey: Hashable, Sendable {
    private let stored: ExactText
    private let token: DeviceToken?

    /// A key that the ledger has, or that `RowImage` has spelled, with the row's token.
    init(_ stored: ExactText, of token: DeviceToken?) {
        self.stored = stored
        self.token = token
    }

    /// The key: the bare number, else a JSON array. Without `wholeTokens` a value that is the row's
    /// token is shortened; so is every value of bytes in an entry without a token.
    package func text(wholeTokens: Bool) -> String {
        if wholeTokens { return stored.string }
        // A key that cannot be read may hold a token too.
        guard let values = RowImageReader.key(stored) else { return "" }
        if values.count == 1, case .integer = values[0] { return stored.string }
        return RowImage.key(values.map(shortened)).string
    }

    /// The key for a sentence, which mails and logs carry on: long texts and all bytes are cut, since a
    /// key may have the token in a form of its own.
    var textInWords: String {
        guard let values = RowImageReader.key(stored) else { return "" }
        if values.count == 1, case .integer = values[0] { return stored.string }
        return RowImage.key(
            values.map { value in
                switch shortened(value) {
                case .bytes(let bytes), .rawText(let bytes):
                    .text("\(Hex.text(bytes.prefix(4)))…")
                case .text(let text) where text.utf8.count > 24:
                    .text("\(text.string.prefix(bytes: 8))…")
                case let other: other
                }
            }
        ).string
    }

    private func shortened(_ value: SQLValue) -> SQLValue {
        switch value {
        case .bytes(let bytes), .rawText(let bytes):
            if token.map({ $0.bytes == bytes }) ?? true {
                return .text(DeviceToken(bytes)?.redacted ?? "")
            }
            return shortened(spelled: String(validating: bytes, as: UTF8.self)) ?? value
        case .text(let text): return shortened(spelled: text.string) ?? value
        default: return value
        }
    }

    /// The shortened token where a text spells it.
    private func shortened(spelled text: String?) -> SQLValue? {
        if let text, let token, token.count > 4, text.lowercased().utf8.contains(token.hex.utf8) {
            return .text(
                text.replacing(exactly: token.hex, with: token.redacted, ignoringCase: true))
        }
        guard let text, let spelled = try? DeviceToken(spelling: text) else { return nil }
        // Without a token to compare with, hex text as long as one is taken for one.
        guard token == spelled || token == nil && spelled.count >= 32 else { return nil }
        return .text(spelled.redacted)
    }
}

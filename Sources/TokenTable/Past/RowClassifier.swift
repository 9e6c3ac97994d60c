// Judges one row as the statement of `TableAudit` judges all of them. An audit of the past needs it for
// rows that the table has no longer in that state: their content comes from the ledger. A test
// compares both on every kind of row.

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Says in which group an audit counts a row.
struct RowClassifier {
    let layout: TableLayout
    /// The time at which ages are counted.
    let now: EpochMilliseconds
    private let finder: PartitionFinder

    /// Prepares for rows of a table and the partitions of the settings.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value.
    init(
        _ layout: TableLayout, _ partitions: [Partition], at now: EpochMilliseconds
    ) throws(StoreFailure) {
        self.layout = layout
        self.now = now
        finder = try PartitionFinder(partitions, layout)
    }

    /// The columns that decide, without those of the key.
    var columns: [String] {
        [
            layout.token.name, layout.app?.name, layout.environment?.name,
            layout.platform?.column.name, layout.registration?.name, layout.living?.name,
            layout.mark?.name, layout.reason,
        ].compactMap { $0 }
    }

    /// The partition of the settings to which a row belongs; nil for none of them.
    func partition(of content: RowContent) -> Partition? {
        finder.partition(
            app: layout.app.flatMap { content[$0.name] } ?? .null,
            environment: layout.environment.flatMap { content[$0.name] } ?? .null)
    }

    /// The token of a row; nil where its value is none.
    func token(of content: RowContent) -> DeviceToken? {
        content[layout.token.name].flatMap(layout.token.token)
    }

    /// Whether the row is one of Apple's devices; others are not counted.
    func isCounted(_ content: RowContent) -> Bool {
        guard let platform = layout.platform else { return true }
        return content[platform.column.name] == platform.value
    }

    /// The group in which an audit with overwritten rows counts a row. `beside` is the token's mark in
    /// `pushsweep_invalid`; nil also where these do not count.
    func group(of content: RowContent, beside: TokenMark?) -> TokenGroup {
        let spelling = Spelling(content[layout.token.name] ?? .null, of: layout.token)
        return TokenGroup(
            facts(of: content, spelling, beside: beside), overwritten: true,
            isUpper: spelling.isUpper,
            reason: layout.reason.flatMap { content[$0]?.text } ?? beside?.reason)
    }

    private func facts(
        of content: RowContent, _ spelling: Spelling, beside: TokenMark?
    ) -> RowFacts {
        let own = layout.mark.flatMap { column in
            content[column.name].flatMap { column.mark(column.asRead($0)) }
        }
        let marked = own ?? beside?.time
        var facts = RowFacts(
            form: form(of: content[layout.token.name] ?? .null, spelling),
            mark: AgeRange(of: marked, at: now))
        if let column = layout.registration {
            let value = column.asRead(content[column.name] ?? .null)
            facts.isUnreadable = column.isUnreadable(value)
            let registered = facts.isUnreadable ? nil : column.registration(value)
            facts.registration = AgeRange(of: registered, at: now)
            if let registered, let marked { facts.isLater = registered > marked }
        }
        facts.isDead = layout.living.map { content[$0.name].map($0.isDead) ?? false }
        return facts
    }

    private func form(of value: SQLValue, _ spelling: Spelling) -> RowFacts.Form {
        if spelling.isEmpty { return .empty }
        if spelling.isTruncated { return .truncated }
        let token = layout.token
        guard token.token(value) != nil, !token.isScattered(value), !token.isMisplaced(value) else {
            return .malformed
        }
        return .token(bytes: min(spelling.length, RowFacts.longest + 1))
    }

    /// A stored value as it is spelled.
    private struct Spelling {
        let isEmpty: Bool
        let isTruncated: Bool
        /// Bytes of the token.
        let length: Int
        /// Whether hex has a letter in upper case; nil for bytes.
        let isUpper: Bool?

        init(_ value: SQLValue, of column: TokenColumn) {
            let text: String
            switch value {
            case .text(let value): text = value
            case .bytes(let bytes), .rawText(let bytes):
                guard column.encoding == .hex else {
                    (isEmpty, isTruncated, isUpper) = (bytes.isEmpty, false, nil)
                    length = bytes.count
                    return
                }
                text = String(decoding: bytes, as: UTF8.self)
            case .integer(let number): text = String(number)
            default: text = ""
            }
            let trimmed = text.drop { $0 == " " }.reversed().drop { $0 == " " }
            isEmpty = trimmed.isEmpty || trimmed.elementsEqual("0")
            isTruncated = text.lowercased().hasPrefix("{length")
            length = trimmed.count / 2
            isUpper = column.encoding == .hex ? text != text.lowercased() : nil
        }
    }
}

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
        let value = content[layout.token.name] ?? .null
        let registration = layout.registration.flatMap { content[$0.name] }
        let registered = registration.flatMap { value in
            layout.registration.flatMap { $0.registration($0.asRead(value)) }
        }
        let isUnreadable =
            registration.flatMap { value in
                layout.registration.map { $0.isUnreadable($0.asRead(value)) }
            } ?? false
        let own = layout.mark.flatMap { column in
            content[column.name].flatMap { column.mark(column.asRead($0)) }
        }
        let marked = own ?? beside?.time
        let kind = kind(
            of: value, content, registered: registered, isUnreadable: isUnreadable, marked: marked)
        let hasReason = layout.living != nil || marked != nil
        let spelling = Spelling(value, of: layout.token)
        return TokenGroup(
            app: .null, environment: .null, kind: kind,
            age: AgeRange(of: kind == .stale ? marked : registered, at: now),
            registration: registrationKind(registered, isUnreadable),
            length: spelling.length, isUpper: spelling.isUpper,
            reason: hasReason
                ? layout.reason.flatMap { content[$0]?.text } ?? beside?.reason : nil)
    }

    private func kind(
        of value: SQLValue, _ content: RowContent, registered: EpochMilliseconds?,
        isUnreadable: Bool, marked: EpochMilliseconds?
    ) -> TokenClass {
        if [registered, marked].contains(where: { $0.map { $0 > now } ?? false }) {
            return .overwritten
        }
        let spelling = Spelling(value, of: layout.token)
        if spelling.isEmpty { return .empty }
        if spelling.isTruncated { return .truncated }
        let token = layout.token
        guard token.token(value) != nil, !token.isScattered(value), !token.isMisplaced(value) else {
            return .malformed
        }
        if let living = layout.living {
            return content[living.name].map(living.isDead) == true ? .stale : .living
        }
        guard let marked else { return .living }
        return isUnreadable || registered.map { $0 > marked } ?? false ? .revived : .stale
    }

    private func registrationKind(
        _ registered: EpochMilliseconds?, _ isUnreadable: Bool
    ) -> AgeRange {
        guard layout.registration != nil else { return .over2Years }
        if let registered { return registered > now ? .future : .over2Years }
        return isUnreadable ? .over2Years : .unknown
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
                    length = min(bytes.count, 1_025)
                    return
                }
                text = String(decoding: bytes, as: UTF8.self)
            case .integer(let number): text = String(number)
            default: text = ""
            }
            let trimmed = text.drop { $0 == " " }.reversed().drop { $0 == " " }
            isEmpty = trimmed.isEmpty || trimmed.elementsEqual("0")
            isTruncated = text.lowercased().hasPrefix("{length")
            length = min(trimmed.count / 2, 1_025)
            isUpper = column.encoding == .hex ? text != text.lowercased() : nil
        }
    }
}

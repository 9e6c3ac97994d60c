// The rules by which an audit says what a row is. The statement of `TableAudit` reads these facts for
// groups of rows.

import APNsProtocol
import Database
import TokenHygiene

/// What the columns of a row say, as far as an audit tells rows apart.
struct RowFacts: Hashable, Sendable {
    /// What the value in the column of tokens is.
    enum Form: Hashable, Sendable {
        /// NULL, nothing, spaces or `0`.
        case empty
        /// A shortened description, as iOS 13 and later print it.
        case truncated
        /// Anything else that is no token in a spelling that a search finds.
        case malformed
        /// A token of this many bytes, 1,025 for longer ones.
        case token(bytes: Int)
    }

    /// The longest token that is told apart, in bytes; longer ones count as one more.
    static let longest = 1_024

    /// The value in the column of tokens.
    var form: Form
    /// The age of the registration; nil where the table has no column of it.
    var registration: AgeRange?
    /// Whether the registration is neither empty nor a time. It counts as later than any mark.
    var isUnreadable = false
    /// The age of the mark; `unknown` without one.
    var mark: AgeRange
    /// Whether the registration is later than the mark.
    var isLater = false
    /// Whether the column of two values has the dead one; nil where the table has no such column.
    var isDead: Bool?

    /// What the row is for a sender.
    var kind: TokenClass {
        switch form {
        case .empty: return .empty
        case .truncated: return .truncated
        case .malformed: return .malformed
        case .token: break
        }
        if let isDead { return isDead ? .stale : .living }
        guard mark != .unknown else { return .living }
        return isUnreadable || isLater ? .revived : .stale
    }

    /// Whether a reason in the row is one of a mark.
    fileprivate var hasReason: Bool { isDead != nil || mark != .unknown }

    /// Whether the registration is known. Without a column of it nothing is said.
    fileprivate var registrationKind: AgeRange {
        switch registration {
        case .future: .future
        case .unknown: isUnreadable ? .over2Years : .unknown
        default: .over2Years
        }
    }
}

/// A group of rows that an audit counts together.
package struct TokenGroup: Hashable, Sendable {
    /// What the rows are for a sender.
    package let kind: TokenClass
    /// The age of the mark of a stale row; that of the registration of a living one.
    package let age: AgeRange
    /// Whether the registration is known: a time, none, or one after the present.
    package let registration: AgeRange
    /// The token's number of bytes; 0 of other values.
    package let length: Int
    /// Whether hex is in upper case; nil for bytes.
    package let isUpper: Bool?
    /// The reason of the mark.
    package let reason: String?

    init(_ facts: RowFacts, isUpper: Bool?, reason: String?) {
        kind = facts.kind
        age = (kind == .stale ? facts.mark : facts.registration) ?? .unknown
        registration = facts.registrationKind
        length = if case .token(let bytes) = facts.form { bytes } else { 0 }
        self.isUpper = isUpper
        self.reason = facts.hasReason ? reason : nil
    }
}

import APNsProtocol
import Database
import TokenHygiene

/// The ranges of ages in which rows are counted, youngest first.
package enum AgeRange: Hashable, Sendable, CaseIterable {
    case underADay
    case underAWeek
    case under30Days
    case under90Days
    case underAYear
    case under2Years
    case over2Years
    /// A time after the present.
    case future
    /// No time is known.
    case unknown

    /// The end of the range in days; nil without one.
    package var days: Int64? {
        switch self {
        case .underADay: 1
        case .underAWeek: 7
        case .under30Days: 30
        case .under90Days: 90
        case .underAYear: 365
        case .under2Years: 730
        case .over2Years, .future, .unknown: nil
        }
    }

    /// The ranges of known times, oldest first.
    private static let oldestFirst: [AgeRange] =
        [.over2Years] + allCases.filter { $0.days != nil }.reversed() + [.future]

    /// Where each range of known times but the oldest begins at a moment, oldest first: its first
    /// time in milliseconds since 1970. A time is in the range whose number is that of the beginnings
    /// not after it; see `init(number:)`.
    static func beginnings(at now: EpochMilliseconds) -> [Int64] {
        oldestFirst.dropFirst().map { now.rawValue - ($0.days ?? 0) * 86_400_000 + 1 }
    }

    /// The range with a number, from 0 for the oldest; `unknown` for a negative one.
    init(number: Int) {
        self = Self.oldestFirst.indices.contains(number) ? Self.oldestFirst[number] : .unknown
    }
}

/// What a row is for a sender.
package enum TokenClass: Hashable, Sendable {
    /// NULL, nothing, spaces or `0`.
    case empty
    /// No token in a spelling that a search finds.
    case malformed
    /// A shortened description, as iOS 13 and later print it.
    case truncated
    /// Marked, or set dead by the application.
    case stale
    /// Marked, and registered later: living.
    case revived
    case living
}

/// The rows of one app and environment by what they are.
package struct RowTally: Hashable, Sendable {
    /// The most reasons and forms that are told apart; the others are counted as one.
    static let mostNames = 200

    /// The rows by class.
    package private(set) var classes: [TokenClass: Int] = [:]
    /// The stale rows by the age of their mark.
    package private(set) var staleAges: [AgeRange: Int] = [:]
    /// The living rows by the age of their registration.
    package private(set) var registrationAges: [AgeRange: Int] = [:]
    /// The stale rows by reason; empty: none is known.
    package private(set) var reasons: [String: Int] = [:]
    /// The rows with a token by its form.
    package private(set) var forms: [String: Int] = [:]
    /// Rows without a time of registration.
    package private(set) var neverRegistered = 0
    /// Rows whose registration lies after the present.
    package private(set) var fromTheFuture = 0

    /// Begins with zeros.
    package init() {}

    /// The number of rows of a class.
    package func count(_ kind: TokenClass) -> Int { classes[kind] ?? 0 }

    package var rows: Int { classes.values.reduce(0, +) }

    mutating func add(_ group: RowGroup) {
        classes[group.kind, default: 0] += group.count
        switch group.kind {
        case .stale:
            staleAges[group.age, default: 0] += group.count
            Self.add(group.reason ?? "", group.count, to: &reasons)
        case .living, .revived:
            registrationAges[group.age, default: 0] += group.count
        case .empty, .malformed, .truncated: break
        }
        if case .token(let bytes) = group.form {
            let letters = group.isUpper == true ? ", upper-case hex" : ""
            Self.add("\(bytes) bytes\(letters)", group.count, to: &forms)
        }
        switch group.registrationKind {
        case .unknown: neverRegistered += group.count
        case .future: fromTheFuture += group.count
        default: break
        }
    }

    /// Adds the rows of another tally.
    package mutating func add(_ other: RowTally) {
        func sum<Key>(_ field: WritableKeyPath<RowTally, [Key: Int]>) {
            self[keyPath: field].merge(other[keyPath: field], uniquingKeysWith: +)
        }
        sum(\.classes)
        sum(\.staleAges)
        sum(\.registrationAges)
        sum(\.reasons)
        sum(\.forms)
        neverRegistered += other.neverRegistered
        fromTheFuture += other.fromTheFuture
    }

    private static func add(_ name: String, _ count: Int, to names: inout [String: Int]) {
        let isKnown = names[name] != nil || names.count < mostNames
        names[isKnown ? name : "other", default: 0] += count
    }
}

// The rules by which an audit says what a row is.

/// Rows that the database counted together, and what their columns say.
struct RowGroup: Hashable, Sendable {
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

    /// The value of the app's column, as that of the environment NULL where the table has none.
    let app: SQLValue
    let environment: SQLValue
    let form: Form
    /// The age of the registration; nil where the table has no column of it.
    let registration: AgeRange?
    /// Whether the registration is neither empty nor a time. It counts as later than any mark.
    let isUnreadable: Bool
    /// The age of the mark; `unknown` without one.
    let mark: AgeRange
    /// Whether the registration is later than the mark.
    let isLater: Bool
    /// Whether the column of two values has the dead one; nil where the table has no such column.
    let isDead: Bool?
    /// Whether hex is in upper case; nil for bytes.
    let isUpper: Bool?
    /// What the column of the reason has, or the mark beside the table.
    let storedReason: String?
    let count: Int

    /// What the rows are for a sender.
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

    /// The age of the mark of stale rows; that of the registration of living ones.
    var age: AgeRange { (kind == .stale ? mark : registration) ?? .unknown }

    /// Whether the registration is known. Without a column of it nothing is said.
    var registrationKind: AgeRange {
        switch registration {
        case .future: .future
        case .unknown: isUnreadable ? .over2Years : .unknown
        default: .over2Years
        }
    }

    /// The reason of the mark.
    var reason: String? { isDead != nil || mark != .unknown ? storedReason : nil }
}

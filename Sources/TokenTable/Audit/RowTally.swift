import APNsProtocol
import Database
import TokenHygiene

/// The ranges of ages in which rows are counted, youngest first.
package enum AgeRange: Int, Hashable, Sendable, CaseIterable {
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

    /// The range of a time at a moment.
    init(of time: EpochMilliseconds?, at now: EpochMilliseconds) {
        guard let time else {
            self = .unknown
            return
        }
        if time > now {
            self = .future
            return
        }
        let age = now.rawValue - time.rawValue
        self = Self.allCases.first { $0.days.map { age < $0 * 86_400_000 } ?? false } ?? .over2Years
    }
}

/// What a row is for a sender.
package enum TokenClass: Int, Hashable, Sendable {
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
    /// Registered or marked after the time of the audit, so that its columns do not say what it was
    /// then.
    case overwritten
}

/// A group of rows that an audit counts together.
package struct TokenGroup: Hashable, Sendable {
    /// The value of the app's column, as that of the environment NULL where the table has none.
    package let app: SQLValue
    /// The value of the environment's column.
    package let environment: SQLValue
    /// What the rows are for a sender.
    package let kind: TokenClass
    /// The age of the mark of a stale row; that of the registration of a living one.
    package let age: AgeRange
    /// Whether the registration is known: a time, none, or one after the present.
    package let registration: AgeRange
    /// The token's number of bytes; of other values their length.
    package let length: Int
    /// Whether hex is in upper case; nil for bytes.
    package let isUpper: Bool?
    /// The reason of the mark.
    package let reason: String?
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

    /// All rows but the overwritten ones.
    package var rows: Int {
        classes.reduce(0) { $0 + ($1.key == .overwritten ? 0 : $1.value) }
    }

    /// Counts rows of a group; a negative number takes them back.
    package mutating func add(_ group: TokenGroup, _ count: Int) {
        classes[group.kind, default: 0] += count
        switch group.kind {
        case .overwritten: return
        case .stale:
            staleAges[group.age, default: 0] += count
            Self.add(group.reason ?? "", count, to: &reasons)
        case .living, .revived: registrationAges[group.age, default: 0] += count
        case .empty, .malformed, .truncated: break
        }
        if [.stale, .living, .revived].contains(group.kind) {
            let letters = group.isUpper == true ? ", upper-case hex" : ""
            Self.add("\(group.length) bytes\(letters)", count, to: &forms)
        }
        switch group.registration {
        case .unknown: neverRegistered += count
        case .future: fromTheFuture += count
        default: break
        }
    }

    /// The same counts without zeros. A number below zero comes from rows that changed while they
    /// were counted, and is left out too.
    var settled: RowTally {
        var tally = self
        tally.classes = classes.filter { $0.value > 0 }
        tally.staleAges = staleAges.filter { $0.value > 0 }
        tally.registrationAges = registrationAges.filter { $0.value > 0 }
        tally.reasons = reasons.filter { $0.value > 0 }
        tally.forms = forms.filter { $0.value > 0 }
        tally.neverRegistered = max(0, neverRegistered)
        tally.fromTheFuture = max(0, fromTheFuture)
        return tally
    }

    private static func add(_ name: String, _ count: Int, to names: inout [String: Int]) {
        let isKnown = names[name] != nil || names.count < mostNames
        names[isKnown ? name : "other", default: 0] += count
    }
}

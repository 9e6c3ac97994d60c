import APNsProtocol
import TokenHygiene

/// A row of a random table, as far as the rules ask.
struct ModelRow {
    /// The registration, as the generator made it.
    enum Registration: Hashable {
        case absent
        case at(Int64)
        case unreadable
    }

    /// The row's number in the table, which no statement of ours touches.
    let number: Int
    /// The token; nil where the column holds no token.
    var token: DeviceToken?
    /// Whether the row is of the app, the environment and the platform that the feed is about.
    var isOurs: Bool
    /// Whether the row is of the platform.
    let isApple: Bool
    var registration: Registration
    var mark: Int64?
    /// Whether the table refuses to change the row, or to remove it.
    let refusesMark: Bool
    let refusesRemoval: Bool
    /// Whether a value may keep the row from being removed.
    let isOdd: Bool
    /// Whether the ledger has no room for the row's key.
    let isUnnameable: Bool
    var isThere = true
    /// The sweeps that changed the row.
    var changedBy: Set<Int> = []
}

extension ModelRow {
    /// The same values in a row with another number.
    func numbered(_ number: Int) -> ModelRow {
        ModelRow(
            number: number, token: token, isOurs: isOurs, isApple: isApple,
            registration: registration, mark: mark, refusesMark: refusesMark,
            refusesRemoval: refusesRemoval, isOdd: isOdd, isUnnameable: isUnnameable)
    }
}

/// The rules for evidence about one row: the store's own forty lines, written a second time.
struct TableModel {
    static let policies = [
        RemovalPolicy(), RemovalPolicy(action: .delete),
        RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true),
        RemovalPolicy(action: .delete, deletesAfter: 86_400_000),
        RemovalPolicy(
            action: .delete, deletesWithoutRegistrationTime: true, deletesAfter: 86_400_000),
    ]

    let policy: RemovalPolicy
    /// The unit of marks in milliseconds.
    let unit: Int64

    enum Effect: Hashable {
        case none, newer, already, marked(Int64), advanced(Int64), removed, refused
    }

    /// The action for one row and evidence of a time.
    func effect(of evidence: Int64, on row: ModelRow, marks: Int64?) -> Effect {
        guard row.isThere, row.isOurs, row.token != nil else { return .none }
        let time = evidence - evidence % unit
        if row.isUnnameable { return .refused }
        var registered: Int64?
        switch row.registration {
        case .unreadable: return .refused
        case .at(let moment): registered = moment
        case .absent: break
        }
        if let registered, registered > time { return .newer }
        let isSure = registered.map { $0 < time - 2_000 } ?? policy.deletesWithoutRegistrationTime
        if policy.action == .delete && policy.deletesAfter == nil && isSure {
            return row.refusesRemoval ? .refused : .removed
        }
        let mark = marks ?? row.mark
        let isStale = mark.map { mark in registered.map { $0 <= mark } ?? true } ?? false
        if isStale, let mark, mark >= time { return .already }
        if row.refusesMark { return .refused }
        return isStale ? .advanced(time) : .marked(time)
    }

    /// Whether a row is to be removed after its grace period, all marks being older than that.
    /// `young` are the sweeps of the period.
    func isDue(_ row: ModelRow, marks: Int64?, markedBy: Set<Int>, young: Set<Int>) -> Bool {
        // A report is about a token.
        guard row.isThere, row.isOurs, row.token != nil, let mark = marks ?? row.mark,
            young.isDisjoint(with: row.changedBy), young.isDisjoint(with: markedBy)
        else { return false }
        switch row.registration {
        case .unreadable: return false
        case .absent: return policy.deletesWithoutRegistrationTime
        case .at(let time): return time < mark - 2_000
        }
    }

    /// The count of statements about one token, by the effects on its rows.
    func count(_ effects: [Effect], _ statements: Int) -> Counts {
        func has(_ test: (Effect) -> Bool) -> Bool { effects.contains(where: test) }
        if has({ $0 == .refused }) { return Counts(refused: statements) }
        if has({ if case .marked = $0 { true } else { $0 == .removed } }) {
            return Counts(applied: 1, already: statements - 1)
        }
        if has({ if case .advanced = $0 { true } else { $0 == .already } }) {
            return Counts(already: statements)
        }
        return has { $0 == .newer }
            ? Counts(newer: statements) : Counts(unknown: statements)
    }
}

import Database
import TokenHygiene

/// What the store is about to be used for, so that exactly the rights for it are asked for.
package enum TableUse: Hashable, Sendable {
    /// Reading only: dry runs and audits. SELECT suffices.
    case read
    /// Applying evidence under a policy.
    case apply(RemovalPolicy)
    /// Taking back what a plan has chosen; trying it needs SELECT only.
    case undo(actions: Set<String>, isDry: Bool)
    /// Dropping what is old; counting it needs SELECT only.
    case purge(isDry: Bool)

    /// Whether something will be written.
    var writes: Bool {
        switch self {
        case .read, .undo(_, isDry: true), .purge(isDry: true): false
        case .apply, .undo, .purge: true
        }
    }

    /// Whether rows of the token table may be removed.
    var removesRows: Bool {
        switch self {
        case .apply(let policy): policy.action == .delete
        case .undo(let actions, isDry: false): actions.contains("insert")
        case .read, .undo, .purge: false
        }
    }

    /// The tables of ours that it cannot do without. A table with marks of its own does not need the
    /// side table.
    func ownTables(hasMarks: Bool) -> [PushsweepTable] {
        switch self {
        case .read: []
        case .apply: PushsweepTable.sideTables.filter { $0 != .invalid || !hasMarks }
        case .undo(let actions, _):
            [.run, .feed, .change] + (actions.contains { $0.hasPrefix("side-") } ? [.invalid] : [])
        case .purge: [.run, .feed, .change]
        }
    }
}

/// Everything found out about the database before it is used.
package struct StoreReport: Hashable, Sendable {
    /// What the server says about itself.
    package internal(set) var server: ServerDescription
    /// The findings, in the order of the examination.
    package internal(set) var findings: [StoreFinding] = []
    /// How the sampled rows spell their tokens; nil where none could be read.
    package internal(set) var sample: TokenSample?

    /// The first finding that forbids applying anything.
    package var firstFailure: StoreFailure? {
        findings.lazy.compactMap(\.failure).first
    }
}

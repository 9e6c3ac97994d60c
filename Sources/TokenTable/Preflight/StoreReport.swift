import Database
import TokenHygiene

/// The use of the store, which decides the rights it needs.
package enum TableUse: Hashable, Sendable {
    /// Reading only: dry runs and audits. SELECT is enough.
    case read
    /// Applying evidence under a policy.
    case apply(RemovalPolicy)
    /// Undoing the changes of a plan; a dry run needs SELECT only.
    case undo(actions: Set<String>, isDry: Bool)
    /// Dropping old entries; a dry run needs SELECT only.
    case purge(isDry: Bool)

    /// Whether the use writes to the database.
    var writes: Bool {
        switch self {
        case .read, .undo(_, isDry: true), .purge(isDry: true): false
        case .apply, .undo, .purge: true
        }
    }

    /// Whether the use may remove rows of the token table.
    var removesRows: Bool {
        switch self {
        case .apply(let policy): policy.action == .delete
        case .undo(let actions, isDry: false): actions.contains("insert")
        case .read, .undo, .purge: false
        }
    }

    /// The side tables that the use requires. A token table with a mark column does not need
    /// `pushsweep_invalid`.
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

/// The result of examining the database before its use.
package struct StoreReport: Hashable, Sendable {
    /// The server's description of itself.
    package internal(set) var server: ServerDescription
    /// The findings, in the order of the examination.
    package internal(set) var findings: [StoreFinding] = []
    /// The token spellings in the sampled rows; nil where no row could be read.
    package internal(set) var sample: TokenSample?

    /// The first finding that forbids applying evidence.
    package var firstFailure: StoreFailure? {
        findings.lazy.compactMap(\.failure).first
    }
}

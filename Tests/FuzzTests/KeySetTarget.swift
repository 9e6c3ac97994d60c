@testable import Database
@testable import PushQueue
@testable import TokenTable

extension FuzzTarget {
    /// The set of keys in the row of a claim.
    static let keys = FuzzTarget(name: "keys", mutations: 5_000, longest: 256) { input in
        guard let set = KeySet(encoded: input) else { return }
        try promise(set.count <= 1 << 24, "\(set.count) keys in a claim")
        let sizes = set.runs.reduce(0) { $0 + Int($1.upperBound - $1.lowerBound) + 1 }
        try promise(sizes == set.count, "the runs hold \(sizes) keys, the set says \(set.count)")
        for (run, next) in zip(set.runs, set.runs.dropFirst()) {
            try promise(run.upperBound < next.lowerBound - 1, "two runs are one")
        }
        try promise(KeySet(encoded: set.encoded) == set, "a set is not what its bytes say")
        try promise(
            set.union(set) == set && set.subtracting(set).isEmpty, "a set is not like itself")
        for run in set.runs {
            try promise(
                set.contains(run.lowerBound) && set.contains(run.upperBound), "a key is missing")
        }
        guard set.count <= 1 << 16 else { return }
        let pieces = set.pieces(of: 1_000)
        try promise(
            pieces.reduce(0) { $0 + $1.count } == set.count
                && pieces.allSatisfy { $0.count <= 1_000 }, "the pieces are not the set")
    }
}

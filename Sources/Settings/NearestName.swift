/// Finds what a mistyped name was meant to be.
enum NearestName {
    /// The candidate with the fewest edits, the first of equals; nil when nothing is near: when
    /// more than a third of the longer name would have to change.
    static func find(_ name: String, in candidates: some Sequence<String>) -> String? {
        // Longer than any name there is, and the cost grows with the square.
        guard name.utf8.count <= 200 else { return nil }
        var best: (distance: Int, name: String)?
        for candidate in candidates {
            let distance = edits(Array(name.utf8), Array(candidate.utf8))
            guard distance <= max(1, max(name.utf8.count, candidate.utf8.count) / 3) else {
                continue
            }
            if best.map({ distance < $0.distance }) ?? true { best = (distance, candidate) }
        }
        return best?.name
    }

    /// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
    static func edits(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast = [Int](repeating: 0, count: right.count + 1)
        var last = Array(0...right.count)
        for (row, byte) in left.enumerated() {
            var current = [row + 1]
            current.reserveCapacity(right.count + 1)
            for (column, other) in right.enumerated() {
                var cost = min(
                    last[column + 1] + 1, current[column] + 1,
                    last[column] + (byte == other ? 0 : 1))
                if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            beforeLast = last
            last = current
        }
        return last[right.count]
    }
}

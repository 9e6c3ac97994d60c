import Database
import TokenTable

// Rows are claimed in the order of their key, so the keys of a batch are close together. They
// mostly form one run of consecutive numbers, with gaps for rows of other apps and finished rows.
// Stored as runs, a thousand keys take a few bytes in the claim's row and a few BETWEENs in a
// statement. A list of a thousand keys would cost the server more than the rows themselves.

/// A set of keys of the queue, as runs of consecutive numbers.
struct KeySet: Hashable, Sendable {
    /// The runs in ascending order; no two runs are adjacent.
    private(set) var runs: [ClosedRange<Int64>] = []
    private(set) var count = 0

    init() {}

    /// Makes a set from keys in ascending order. A repeated key counts once.
    init(sorted keys: some Sequence<Int64>) {
        for key in keys { append(key...key) }
    }

    var isEmpty: Bool { runs.isEmpty }

    /// The keys in ascending order.
    var keys: some Sequence<Int64> { runs.lazy.joined() }

    /// Adds a run that begins at the last run's end or after it.
    private mutating func append(_ run: ClosedRange<Int64>) {
        guard let last = runs.last else {
            runs.append(run)
            return count = Self.size(run)
        }
        guard run.upperBound > last.upperBound else { return }
        let lower = last.upperBound == .max ? last.upperBound : last.upperBound + 1
        guard run.lowerBound <= lower else {
            runs.append(run)
            return count += Self.size(run)
        }
        let joined = last.lowerBound...run.upperBound
        count += Self.size(joined) - Self.size(last)
        runs[runs.count - 1] = joined
    }

    private static func size(_ run: ClosedRange<Int64>) -> Int {
        Int(run.upperBound - run.lowerBound) + 1
    }

    func contains(_ key: Int64) -> Bool {
        var low = 0
        var high = runs.count
        while low < high {
            let middle = low + (high - low) / 2
            if runs[middle].upperBound < key { low = middle + 1 } else { high = middle }
        }
        return low < runs.count && runs[low].contains(key)
    }

    /// The keys that are in either set.
    func union(_ other: KeySet) -> KeySet {
        var all = KeySet()
        let runs = (runs + other.runs).sorted { $0.lowerBound < $1.lowerBound }
        for run in runs { all.append(run) }
        return all
    }

    /// The keys that are not in the other set.
    func subtracting(_ other: KeySet) -> KeySet {
        var rest = KeySet()
        var next = other.runs[...]
        for run in runs {
            var lower = run.lowerBound
            var isDone = false
            while let taken = next.first, taken.lowerBound <= run.upperBound {
                if taken.lowerBound > lower { rest.append(lower...(taken.lowerBound - 1)) }
                if taken.upperBound >= run.upperBound {
                    isDone = true
                    break
                }
                lower = max(lower, taken.upperBound + 1)
                next.removeFirst()
            }
            if !isDone { rest.append(lower...run.upperBound) }
        }
        return rest
    }

    /// The keys that are in both.
    func intersection(_ other: KeySet) -> KeySet { subtracting(subtracting(other)) }

    /// The runs of these keys, where a gap that consists of other keys only does not end a run.
    func runs(passing others: KeySet) -> [ClosedRange<Int64>] {
        guard !others.isEmpty, runs.count > 1 else { return runs }
        let all = union(others).runs
        var place = 0
        var joined: [ClosedRange<Int64>] = []
        for run in runs {
            while all[place].upperBound < run.lowerBound { place += 1 }
            if let last = joined.last, last.lowerBound >= all[place].lowerBound {
                joined[joined.count - 1] = last.lowerBound...run.upperBound
            } else {
                joined.append(run)
            }
        }
        return joined
    }

    /// The set cut into sets of at most `limit` keys.
    func pieces(of limit: Int) -> [KeySet] {
        guard count > limit else { return isEmpty ? [] : [self] }
        var pieces: [KeySet] = []
        var piece = KeySet()
        for run in runs {
            var lower = run.lowerBound
            while true {
                let (end, overflows) =
                    lower.addingReportingOverflow(Int64(limit - piece.count - 1))
                let upper = overflows ? run.upperBound : min(end, run.upperBound)
                piece.append(lower...upper)
                if piece.count == limit {
                    pieces.append(piece)
                    piece = KeySet()
                }
                guard upper < run.upperBound else { break }
                lower = upper + 1
            }
        }
        if !piece.isEmpty { pieces.append(piece) }
        return pieces
    }
}

extension KeySet {
    /// The set as bytes for the claim's row. Each run is its distance from the end of the previous
    /// run and its length less one, as numbers of 7 bits per byte, lowest bits first (LEB128).
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(runs.count * 3 + 10)
        var end = UInt64(bitPattern: Int64.min)
        for run in runs {
            let lower = UInt64(bitPattern: run.lowerBound)
            Self.append(lower &- end, to: &bytes)
            Self.append(UInt64(bitPattern: run.upperBound) &- lower, to: &bytes)
            end = UInt64(bitPattern: run.upperBound)
        }
        return bytes
    }

    /// The highest accepted number of keys; a claim has a thousand. Without the limit a damaged
    /// value could keep a sender busy for ever.
    private static let mostKeys = 1 << 24

    /// Decodes the bytes of `encoded`; nil for any other bytes.
    init?(encoded bytes: [UInt8]) {
        var rest = bytes[...]
        var end = Int64.min
        while !rest.isEmpty {
            guard let gap = Self.number(&rest), let length = Self.number(&rest) else { return nil }
            let lower = end &+ Int64(bitPattern: gap)
            let upper = lower &+ Int64(bitPattern: length)
            guard length < Self.mostKeys, upper >= lower, isEmpty ? lower >= end : lower > end
            else { return nil }
            append(lower...upper)
            guard count <= Self.mostKeys else { return nil }
            end = upper
        }
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var rest = number
        while rest > 0x7F {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func number(_ bytes: inout ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while let byte = bytes.popFirst() {
            guard shift < 63 || byte <= 1 else { return nil }
            number |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return number }
            shift += 7
        }
        return nil
    }
}

import APNsProtocol

// A filter passes tens of millions of tokens and has to know which of them may be stale. A set of whole
// tokens would take 100 bytes for each. A fingerprint takes 8: a hash of the token under a key that is
// chosen anew by every run, so that nobody can prepare tokens that collide.
//
// Two tokens can have the same fingerprint. So a hit is a question for the database, never an answer. A
// miss is certain.
//
// The set is a table with open addressing whose size is a power of two. At most three quarters of the
// places are used. While it grows, the old and the new table exist at the same time, and the limit of
// memory counts both.

/// A set of 64-bit fingerprints of tokens, limited in memory.
package struct TokenFingerprints: Sendable {
    /// The number of fingerprints in the set.
    package private(set) var count = 0
    /// Whether a token did not fit, so that a miss proves nothing.
    package private(set) var isIncomplete = false

    private var places: [UInt64] = []
    private var mask = 0
    private let mostPlaces: Int
    private let keys: (UInt64, UInt64)

    /// Places of the first table.
    private static let leastPlaces = 1_024

    /// Makes an empty set. `mostBytes` limits its memory, also while it grows.
    package init(mostBytes: Int) {
        self.init(
            mostBytes: mostBytes, keys: (.random(in: .min ... .max), .random(in: .min ... .max)))
    }

    /// Makes a set with chosen keys, for tests.
    init(mostBytes: Int, keys: (UInt64, UInt64)) {
        self.keys = keys
        var most = Self.leastPlaces
        // 8 bytes for each place of a table, and half as many places in the table before it.
        while most * 2 * 8 + most * 8 <= mostBytes { most *= 2 }
        mostPlaces = most * 8 <= mostBytes ? most : 0
    }

    /// The fingerprint of a token's bytes; never 0, which marks a free place.
    package func fingerprint(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        // As in wyhash: the product of a block's halves under a key each, folded. The length is spread over
        // all bits, so that no bit of the content stands for it.
        var state = keys.0 ^ UInt64(bytes.count) &* 0x9E37_79B9_7F4A_7C15
        var offset = 0
        while offset + 16 <= bytes.count {
            let one = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let two = bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)
            state = Self.mixed(one ^ keys.1, two ^ state)
            offset += 16
        }
        if offset < bytes.count {
            var tail = (UInt64(0), UInt64(0))
            withUnsafeMutableBytes(of: &tail) {
                $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset...]))
            }
            state = Self.mixed(tail.0 ^ keys.1, tail.1 ^ state)
        }
        let result = Self.mixed(state ^ keys.1, keys.0 | 1)
        return result == 0 ? 1 : result
    }

    /// Both halves of the product of 128 bits, folded.
    private static func mixed(_ one: UInt64, _ two: UInt64) -> UInt64 {
        let product = one.multipliedFullWidth(by: two)
        return product.high ^ product.low
    }

    /// Adds a token; false when its fingerprint was in the set before. A token that does not fit any
    /// more makes the set incomplete.
    @discardableResult
    package mutating func insert(_ token: DeviceToken) -> Bool {
        insert(token.bytes.withUnsafeBytes { fingerprint($0) })
    }

    /// Adds a fingerprint; false when it was in the set before, or does not fit.
    @discardableResult
    package mutating func insert(_ fingerprint: UInt64) -> Bool {
        if (count + 1) * 4 > places.count * 3, !grow() {
            if !contains(fingerprint) { isIncomplete = true }
            return false
        }
        var place = Int(truncatingIfNeeded: fingerprint) & mask
        while places[place] != 0 {
            if places[place] == fingerprint { return false }
            place = (place + 1) & mask
        }
        places[place] = fingerprint
        count += 1
        return true
    }

    /// Whether the set has a fingerprint.
    package func contains(_ fingerprint: UInt64) -> Bool {
        guard !places.isEmpty else { return false }
        return places.withUnsafeBufferPointer { places in
            var place = Int(truncatingIfNeeded: fingerprint) & mask
            while places[place] != 0 {
                if places[place] == fingerprint { return true }
                place = (place + 1) & mask
            }
            return false
        }
    }

    /// Moves all fingerprints to a table of twice the size; false when that would need too much memory.
    private mutating func grow() -> Bool {
        let size = max(Self.leastPlaces, places.count * 2)
        guard size <= mostPlaces else { return false }
        let old = places
        places = [UInt64](repeating: 0, count: size)
        mask = size - 1
        for fingerprint in old where fingerprint != 0 {
            var place = Int(truncatingIfNeeded: fingerprint) & mask
            while places[place] != 0 { place = (place + 1) & mask }
            places[place] = fingerprint
        }
        return true
    }
}

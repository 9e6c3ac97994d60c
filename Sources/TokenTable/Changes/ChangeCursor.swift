import Encodings

/// A place in the order of changes: how many numbers, and how many entries of the next, a follower
/// has seen. Followers treat the text as one opaque word; it begins with a letter that no run's
/// name and no time begins with.
///
/// - `n41`: all numbers up to 41; for a person who continues after a purge.
/// - `n41.3fa9c2d1`: the same, and number 41 is the transaction with this check.
/// - `n42.17.3fa9c2d1`: 17 entries of number 42 in addition.
///
/// The check recognizes a cursor of another database, or of one that lost commits when it was
/// restored: there the number belongs to another transaction.
package struct ChangeCursor: Hashable, Sendable {
    /// The last number of which all or some entries were seen; 0 before the first.
    let number: Int64
    /// How many entries of the number were seen; nil: all of them.
    var entries: Int64?
    /// The check of the number's transaction; nil where a person wrote the cursor.
    var check: UInt32?
}

extension ChangeCursor: CustomStringConvertible {
    /// Reads a cursor; nil for any other text.
    package init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard let first = parts.first, first.utf8.first == UInt8(ascii: "n"),
            let number = Self.decimal(first.dropFirst())
        else { return nil }
        switch parts.count {
        case 1: self.init(number: number)
        case 2:
            guard number > 0, let check = Self.check(parts[1]) else { return nil }
            self.init(number: number, check: check)
        case 3:
            guard number > 0, let entries = Self.decimal(parts[1]), entries > 0,
                let check = Self.check(parts[2])
            else { return nil }
            self.init(number: number, entries: entries, check: check)
        default: return nil
        }
    }

    /// The cursor as output lines have it.
    package var description: String {
        var text = "n\(number)"
        if let entries { text += ".\(entries)" }
        if let check {
            let digits = String(check, radix: 16)
            text += "." + String(repeating: "0", count: 8 - digits.count) + digits
        }
        return text
    }

    /// The cursor after all entries of the number before this one's next: where a follower
    /// continues that does without them.
    static func before(_ number: Int64) -> ChangeCursor {
        ChangeCursor(number: max(0, number - 1))
    }

    private static func decimal(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text)
    }

    private static func check(_ text: Substring) -> UInt32? {
        let isHex = text.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x66).contains($0)
        }
        return text.utf8.count == 8 && isHex ? UInt32(text, radix: 16) : nil
    }
}

extension LedgerRange {
    /// The check of cursors in this number: FNV-1a over what names the entries.
    var check: UInt32 {
        FNV1a.hash("\(number) \(part.run) \(part.number) \(first)")
    }

    /// The cursor of a follower that has seen the entries up to one of this range.
    func cursor(after sequence: Int64) -> ChangeCursor {
        ChangeCursor(
            number: number, entries: sequence == last ? nil : sequence - first + 1, check: check)
    }
}

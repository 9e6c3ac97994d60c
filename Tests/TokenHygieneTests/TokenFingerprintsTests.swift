import APNsProtocol
import TestSupport
import Testing

@testable import TokenHygiene

@Suite("Fingerprints of tokens")
struct TokenFingerprintsTests {
    @Test("every token that was added is found, others are not, whatever their lengths")
    func membership() {
        var set = TokenFingerprints(mostBytes: 64 << 20)
        let lengths = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 54, 80, 100, 256]
        var added: Set<DeviceToken> = []
        for number in 0..<50_000 {
            let token = DeviceToken.numbered(number, count: lengths[number % lengths.count])
            let wasAdded = set.insert(token)
            let isNew = added.insert(token).inserted
            #expect(wasAdded == isNew)
        }
        #expect(set.count == added.count)
        #expect(!set.isIncomplete)
        for token in added {
            #expect(set.contains(token.bytes.withUnsafeBytes { set.fingerprint($0) }))
        }
        let strangers = (60_000..<110_000).count { number in
            set.contains(DeviceToken.numbered(number).bytes.withUnsafeBytes { set.fingerprint($0) })
        }
        #expect(strangers == 0)
    }

    @Test("tokens that differ in one bit or in their length have different fingerprints")
    func differences() {
        let set = TokenFingerprints(mostBytes: 1 << 20)
        var seen: Set<UInt64> = []
        var count = 0
        for length in 1...100 {
            for bit in 0..<(length * 8) {
                var bytes = [UInt8](repeating: 0, count: length)
                bytes[bit / 8] ^= 1 << (bit % 8)
                seen.insert(bytes.withUnsafeBytes { set.fingerprint($0) })
                count += 1
            }
            let zeros = [UInt8](repeating: 0, count: length)
            seen.insert(zeros.withUnsafeBytes { set.fingerprint($0) })
            count += 1
        }
        #expect(seen.count == count)
        #expect(!seen.contains(0))
    }

    @Test("a set without room says so, and never holds more than its limit")
    func limit() {
        var set = TokenFingerprints(mostBytes: 64 << 10)
        for number in 0..<10_000 { set.insert(DeviceToken.numbered(number)) }
        #expect(set.isIncomplete)
        #expect(set.count >= 1_024 && set.count * 8 <= 64 << 10)
        // A table of twice the size would stand beside the old one while it is filled.
        var tight = TokenFingerprints(mostBytes: 20 << 10)
        for number in 0..<10_000 { tight.insert(DeviceToken.numbered(number)) }
        #expect(tight.isIncomplete && tight.count <= 1_024)
        var none = TokenFingerprints(mostBytes: 0)
        let wasAdded = none.insert(DeviceToken.numbered(1))
        #expect(!wasAdded)
        #expect(none.isIncomplete && none.count == 0)
        #expect(!none.contains(1))
    }

    @Test("a fingerprint that is there already needs no room")
    func known() {
        var set = TokenFingerprints(mostBytes: 8 << 10)
        var number = 0
        while !set.isIncomplete {
            number += 1
            set.insert(DeviceToken.numbered(number))
            guard number < 100_000 else { break }
        }
        var full = TokenFingerprints(mostBytes: 8 << 10)
        for known in 1..<number { full.insert(DeviceToken.numbered(known)) }
        #expect(!full.isIncomplete)
        let wasAdded = full.insert(DeviceToken.numbered(1))
        #expect(!wasAdded)
        #expect(!full.isIncomplete)
    }
}

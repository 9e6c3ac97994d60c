// The results of a claim as the log of answers has them: one record for each claim and write.
//
//   1 byte   the form, 1
//   8 bytes  the claim, big-endian
//   and for each result
//   8 bytes  the row's key, big-endian
//   1 byte   the outcome
//   4 bytes  the seconds to wait, big-endian; of a retry only
//   1 byte   the length of the reason, and the reason; of those that have one only
//
// A suspect's result waits for the mismatch detector. Its record says what follows if the detector never
// speaks: the row is tried again later. A decision adds another record, and the last one counts.

import EvidenceJournal
import PushQueue

/// Results of rows of one claim.
struct KeptResults: Hashable, Sendable {
    private static let form: UInt8 = 1
    /// The most results of a record.
    static let most = 4_096

    /// The claim's number.
    let claim: Int64
    /// The results, in the order in which they became known.
    let results: [DeliveryResult]

    init(claim: Int64, _ results: [DeliveryResult]) {
        self.claim = claim
        self.results = results
    }

    /// The content of a record.
    var encoded: [UInt8] {
        var bytes = [Self.form]
        bytes.reserveCapacity(9 + results.count * 9)
        Self.append(claim, to: &bytes)
        for result in results {
            Self.append(result.key, to: &bytes)
            switch result.outcome {
            case .sent: bytes.append(0)
            case .returned: bytes.append(1)
            case .gone(let reason): Self.append(2, reason, to: &bytes)
            case .failed(let reason): Self.append(3, reason, to: &bytes)
            case .unknown(let reason): Self.append(4, reason, to: &bytes)
            case .retry(let seconds, let reason):
                bytes.append(5)
                Self.append(UInt32(clamping: seconds), to: &bytes)
                Self.append(reason, to: &bytes)
            case .skipped(let reason): Self.append(6, reason.rawValue, to: &bytes)
            }
        }
        return bytes
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private static func append(_ code: UInt8, _ reason: String, to bytes: inout [UInt8]) {
        bytes.append(code)
        append(reason, to: &bytes)
    }

    private static func append(_ reason: String, to bytes: inout [UInt8]) {
        // The queue keeps 64 bytes of it.
        let text = reason.utf8.prefix(64).map(Self.printable)
        bytes.append(UInt8(text.count))
        bytes += text
    }

    private static func printable(_ byte: UInt8) -> UInt8 {
        (0x20..<0x7F).contains(byte) ? byte : 0x3F
    }

    /// Decodes a record; nil where it has another form.
    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        guard rest.popFirst() == Self.form, let claim = Self.number(&rest, as: Int64.self) else {
            return nil
        }
        var results: [DeliveryResult] = []
        while !rest.isEmpty {
            guard let key = Self.number(&rest, as: Int64.self), let outcome = Self.outcome(&rest)
            else { return nil }
            results.append(DeliveryResult(key: key, outcome))
        }
        self.init(claim: claim, results)
    }

    private static func outcome(_ rest: inout ArraySlice<UInt8>) -> DeliveryResult.Outcome? {
        switch rest.popFirst() {
        case 0: return .sent
        case 1: return .returned
        case 2: return reason(&rest).map { .gone(reason: $0) }
        case 3: return reason(&rest).map { .failed(reason: $0) }
        case 4: return reason(&rest).map { .unknown(reason: $0) }
        case 5:
            guard let seconds = number(&rest, as: UInt32.self) else { return nil }
            return reason(&rest).map { .retry(seconds: Int(seconds), reason: $0) }
        case 6: return reason(&rest).flatMap(SkipReason.init).map { .skipped($0) }
        default: return nil
        }
    }

    private static func number<N: FixedWidthInteger>(
        _ rest: inout ArraySlice<UInt8>, as type: N.Type
    ) -> N? {
        let count = N.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | N(truncatingIfNeeded: $1) }
    }

    private static func reason(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard let count = rest.popFirst(), rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return String(decoding: rest.prefix(min(Int(count), 64)).map(printable), as: UTF8.self)
    }
}

extension AnswerLog {
    /// Keeps results, by one write.
    ///
    /// - Throws: `inputOutput`; then none of them is kept.
    func keep(_ kept: [KeptResults]) throws(JournalFailure) {
        try keep(kept.map { ($0.claim, $0.encoded) })
    }

    /// The results that a sender of this folder has left, by claim in the order of the file, up to a
    /// record that is damaged.
    func leftResults() throws(JournalFailure) -> (results: [KeptResults], isDamaged: Bool) {
        var order: [Int64] = []
        var results: [Int64: [DeliveryResult]] = [:]
        let read = try records()
        var isDamaged = read.isDamaged
        for content in read.records {
            guard let kept = KeptResults(content) else {
                isDamaged = true
                break
            }
            if results[kept.claim] == nil { order.append(kept.claim) }
            results[kept.claim, default: []] += kept.results
        }
        return (order.map { KeptResults(claim: $0, results[$0] ?? []) }, isDamaged)
    }
}

// Answers about rows of a claim as the log has them. One record holds what one write has about one claim:
//
//   1 byte   the form, 4
//   8 bytes  the claim, big-endian
//   text     the app, the environment, and the gateway that answered; each with its length in 2 bytes before it
//   and for each result
//   8 bytes  the row's key, big-endian
//   1 byte   the outcome
//   4 bytes  the seconds to wait, big-endian; of a retry only
//   text     the reason; of those that have one only
//   or for each report against a token
//   8 bytes  the row's key, big-endian
//   1 byte   255
//   text     the source
//   8 bytes  the time, milliseconds since 1970, big-endian
//   8 bytes  when it was heard, by the database's clock, likewise; 0 where that is not known
//   2 bytes  the length of the token, big-endian, and the token
//
// A suspect's result waits for the mismatch detector. Its record says what follows if the detector never
// speaks: the row is tried again later. A decision adds another record, and the last one counts.
//
// A record of form 3 has the claim only: the database has all its answers, and the claim's row may be gone.

import APNsProtocol
import TokenHygiene

/// Answers about rows of one claim.
package struct KeptResults: Hashable, Sendable {
    private static let (form, released): (UInt8, UInt8) = (4, 3)
    private static let report: UInt8 = 255

    /// The claim's number.
    package let claim: Int64
    /// The app and the gateway.
    package let origin: ReportOrigin
    /// The results, in the order in which they became known.
    package private(set) var results: [DeliveryResult]
    /// What the answers say against tokens.
    package private(set) var heard: [HeardReport]
    /// Whether the database has all answers of the claim.
    package private(set) var isReleased = false

    package init(
        claim: Int64, from origin: ReportOrigin, _ results: [DeliveryResult],
        heard: [HeardReport] = []
    ) {
        (self.claim, self.origin) = (claim, origin)
        (self.results, self.heard) = (results, heard)
    }

    /// The states of results by their codes. Those before `gone` have no reason.
    private static let states: [DeliveryState] = [
        .sent, .pending, .gone, .failed, .unknown, .retry, .skipped,
    ]

    /// The content of a record.
    package var encoded: [UInt8] {
        var bytes = [Self.form]
        bytes.reserveCapacity(64 + results.count * 9 + heard.count * 64)
        Self.append(claim, to: &bytes)
        let partition = origin.partition
        for text in [partition.app, partition.environment, origin.gateway] {
            Self.append(text: text, to: &bytes)
        }
        for result in results {
            let (outcome, code) = (
                result.outcome, Self.states.firstIndex(of: result.outcome.state) ?? 1
            )
            Self.append(result.key, to: &bytes)
            bytes.append(UInt8(code))
            if outcome.state == .retry {
                Self.append(UInt32(clamping: outcome.wait ?? 0), to: &bytes)
            }
            if code >= 2 { Self.append(text: outcome.reason ?? "", to: &bytes) }
        }
        for report in heard {
            Self.append(report.row, to: &bytes)
            bytes.append(Self.report)
            Self.append(text: report.source.rawValue, to: &bytes)
            Self.append(report.time.rawValue, to: &bytes)
            Self.append(report.heard?.rawValue ?? 0, to: &bytes)
            Self.append(UInt16(clamping: report.token.count), to: &bytes)
            report.token.append(to: &bytes)
        }
        return bytes
    }

    /// The content of the record that ends a claim.
    static func release(of claim: Int64) -> [UInt8] {
        var bytes = [released]
        append(claim, to: &bytes)
        return bytes
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private static func append(text: String, to bytes: inout [UInt8]) {
        let utf8 = text.utf8.prefix(Int(UInt16.max))
        append(UInt16(utf8.count), to: &bytes)
        bytes += utf8
    }

    /// Decodes a record; nil where it has another form.
    package init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        guard let form = rest.popFirst(), let claim = Self.number(&rest, as: Int64.self) else {
            return nil
        }
        var origin = ReportOrigin(.noApp, gateway: "")
        switch form {
        case Self.form:
            guard let app = Self.text(&rest), let environment = Self.text(&rest),
                let gateway = Self.text(&rest)
            else { return nil }
            origin = ReportOrigin(
                Partition(app: app, environment: environment), gateway: gateway)
        case Self.released where rest.isEmpty: break
        default: return nil
        }
        self.init(claim: claim, from: origin, [])
        isReleased = form == Self.released
        while !rest.isEmpty {
            guard read(&rest) else { return nil }
        }
    }

    /// Reads one result or report; false where there is none.
    private mutating func read(_ rest: inout ArraySlice<UInt8>) -> Bool {
        guard let key = Self.number(&rest, as: Int64.self), let code = rest.popFirst() else {
            return false
        }
        if code == Self.report {
            guard let report = Self.report(&rest, about: key) else { return false }
            heard.append(report)
        } else {
            guard let outcome = Self.outcome(code, &rest) else { return false }
            results.append(DeliveryResult(key: key, outcome))
        }
        return true
    }

    private static func outcome(_ code: UInt8, _ rest: inout ArraySlice<UInt8>) -> Outcome? {
        guard code < states.count else { return nil }
        let state = states[Int(code)]
        var wait: Int?
        if state == .retry {
            guard let seconds = number(&rest, as: UInt32.self) else { return nil }
            wait = Int(seconds)
        }
        guard code >= 2 else { return Outcome(state) }
        guard let reason = text(&rest) else { return nil }
        return Outcome(state, reason: reason, wait: wait)
    }

    private static func report(
        _ rest: inout ArraySlice<UInt8>, about row: Int64
    ) -> HeardReport? {
        guard let source = text(&rest).flatMap(EvidenceSource.init(rawValue:)),
            let time = number(&rest, as: Int64.self), let heard = number(&rest, as: Int64.self),
            let count = number(&rest, as: UInt16.self),
            rest.count >= Int(count)
        else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return DeviceToken(Array(rest.prefix(Int(count)))).map {
            HeardReport(
                row: row, token: $0, source: source, time: EpochMilliseconds(time),
                heard: heard == 0 ? nil : EpochMilliseconds(heard))
        }
    }

    private static func text(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard let count = number(&rest, as: UInt16.self).map(Int.init), rest.count >= count else {
            return nil
        }
        defer { rest = rest.dropFirst(count) }
        return String(decoding: rest.prefix(count), as: UTF8.self)
    }

    private static func number<N: FixedWidthInteger>(
        _ rest: inout ArraySlice<UInt8>, as type: N.Type
    ) -> N? {
        let count = N.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | N(truncatingIfNeeded: $1) }
    }
}

extension AnswerLog {
    /// Adds answers to the file by one write. They outlast this process when this returns.
    ///
    /// - Throws: `inputOutput`; then none of them is in the file.
    package func keep(_ answers: [KeptResults]) throws(JournalFailure) {
        try keep(answers.map { ($0.claim, $0.encoded, !$0.heard.isEmpty) })
    }

    /// The answers that a sender of this folder has left, by claim in the order of the file, without those of
    /// damaged records. Those that the database has are left out.
    ///
    /// - Throws: `inputOutput`.
    package func leftAnswers() throws(JournalFailure) -> (answers: [KeptResults], isDamaged: Bool) {
        Self.leftAnswers(try records())
    }

    /// The answers in the records of a file.
    static func leftAnswers(
        _ read: (records: [[UInt8]], isDamaged: Bool)
    ) -> (answers: [KeptResults], isDamaged: Bool) {
        var order: [Int64] = []
        var answers: [Int64: KeptResults] = [:]
        var isDamaged = read.isDamaged
        for content in read.records {
            guard let kept = KeptResults(content) else {
                isDamaged = true
                continue
            }
            if kept.isReleased {
                answers[kept.claim] = nil
            } else {
                order.append(kept.claim)
                answers[kept.claim] = answers[kept.claim].map { $0.with(kept) } ?? kept
            }
        }
        return (order.compactMap { answers.removeValue(forKey: $0) }, isDamaged)
    }
}

extension KeptResults {
    /// These answers with those of a later record about the same claim.
    fileprivate func with(_ later: KeptResults) -> KeptResults {
        var all = self
        all.results += later.results
        all.heard += later.heard
        return all
    }
}

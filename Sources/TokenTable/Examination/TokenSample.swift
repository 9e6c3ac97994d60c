import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// The spellings of stored tokens, counted over a sample of rows. They show before the first sweep
/// which rows no signal can find.
package struct TokenSample: Hashable, Sendable {
    /// The spellings known from columns of tokens.
    package enum Spelling: String, Hashable, Sendable, CaseIterable {
        /// Raw bytes in a binary column.
        case bytes
        /// Lower-case hex.
        case lowerHex = "lower-case hex"
        /// Upper-case hex.
        case upperHex = "upper-case hex"
        /// Hex of both cases in one value.
        case mixedHex = "mixed-case hex"
        /// Hex in groups or angle brackets.
        case grouped
        /// NULL, nothing or spaces.
        case blank
        /// `0`: a placeholder for "no push yet".
        case placeholder
        /// The shortened text of iOS 13 and later; the token cannot be recovered.
        case truncatedDescription = "truncated description"
        /// An odd number of hex digits.
        case oddLength = "odd length"
        /// Base64 of as many bytes as a token has.
        case base64Like = "base64-like"
        /// Any other value.
        case other
    }

    /// The number of rows by spelling.
    package private(set) var counts: [Spelling: Int] = [:]

    /// Starts without rows.
    package init() {}

    /// The number of rows in the sample.
    package var total: Int { counts.values.reduce(0, +) }

    /// The number of rows with one of some spellings.
    package func count(_ spellings: Spelling...) -> Int {
        spellings.reduce(0) { $0 + (counts[$1] ?? 0) }
    }

    /// Counts the spelling of a stored value.
    package mutating func add(_ value: SQLValue) {
        counts[Self.spelling(of: value), default: 0] += 1
    }

    /// Whether a stored value is a token of Apple; nil where it does not tell, as an empty one.
    static func isApple(_ value: SQLValue) -> Bool? {
        switch spelling(of: value) {
        case .bytes, .lowerHex, .upperHex, .mixedHex, .grouped: true
        case .base64Like, .oddLength, .other: false
        case .blank, .placeholder, .truncatedDescription: nil
        }
    }

    /// Whether at least one in a hundred values is an identifier of another kind than Apple's, and at
    /// least as many are of Apple's.
    var isMixed: Bool {
        let others = count(.base64Like, .oddLength, .other)
        let own = count(.bytes, .lowerHex, .upperHex, .mixedHex, .grouped)
        return min(others, own) * 100 >= max(total, 1)
    }

    private static func spelling(of value: SQLValue) -> Spelling {
        switch value {
        case .text(let text): return spelling(ofText: Array(text.utf8))
        case .bytes(let bytes):
            if bytes.isEmpty { return .blank }
            let isHexText = bytes.count >= 32 && bytes.allSatisfy { Hex.value(of: $0) != nil }
            return isHexText || UnfindableSpelling.isBase64(bytes)
                ? spelling(ofText: bytes) : .bytes
        case .null: return .blank
        default: return .other
        }
    }

    private static func spelling(ofText text: [UInt8]) -> Spelling {
        do {
            _ = try DeviceToken(spelling: text)
        } catch {
            switch error {
            case .blank: return .blank
            case .placeholder: return .placeholder
            case .truncatedDescription: return .truncatedDescription
            case .oddLength: return .oddLength
            case .notHex:
                return UnfindableSpelling.isBase64(text) ? .base64Like : .other
            }
        }
        if text.contains(where: { Hex.value(of: $0) == nil }) { return .grouped }
        let hasUpper = text.contains { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) }
        let hasLower = text.contains { (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
        return hasUpper ? (hasLower ? .mixedHex : .upperHex) : .lowerHex
    }
}

extension TokenTable {
    /// Reads some rows and checks whether their tokens and times have the form that the settings
    /// state.
    func sample(_ layout: TableLayout, into report: inout StoreReport) throws(StoreFailure) {
        let sampling = TokenSampling(
            layout: layout, catalog: try catalogTable(), connection: connection)
        let read = [layout.token.name] + [layout.registration?.name].compactMap { $0 }
        let doing = "sampling rows of \(layout.table)"
        let rows = try retries.retrying(doing, do: sampling.rows(read))
        var sample = TokenSample()
        var misplaced = 0
        var unfindable: [UnfindableSpelling: Int] = [:]
        var unreadable = 0
        var milliseconds = 0
        for row in rows {
            let token = row[row.startIndex]
            sample.add(token)
            if layout.token.isMisplaced(token) { misplaced += 1 }
            if let spelling = layout.token.unfindableSpelling(of: token) {
                unfindable[spelling, default: 0] += 1
            }
            guard let registration = layout.registration else { continue }
            let time = row[row.startIndex + 1]
            if registration.isUnreadable(time) { unreadable += 1 }
            if registration.storage == .epochSeconds,
                let value = time.integer, value >= TimeColumn.leastMilliseconds
            {
                milliseconds += 1
            }
        }
        report.sample = sample
        var advice: String?
        if layout.platform == nil, sample.isMixed {
            advice = try retries.retrying(doing, do: sampling.platformAdvice(TokenSample.isApple))
        }
        report.findings += Self.findings(on: sample, misplaced: misplaced, layout, advice)
        if !unfindable.isEmpty {
            let rewriting = SpellingRewriting(
                layout: layout, table: try catalogTable(), triggers: try triggers(layout),
                dialect: connection.dialect)
            report.findings += rewriting.findings(unfindable, of: rows.count)
        }
        if let registration = layout.registration {
            report.findings += Self.findings(
                unreadable: unreadable, milliseconds: milliseconds, of: rows.count, registration,
                layout)
        }
    }

    private static func findings(
        on sample: TokenSample, misplaced: Int, _ layout: TableLayout, _ advice: String?
    ) -> [Finding] {
        let column = "column \(layout.token.name) of \(layout.table)"
        let spelled = sample.total - sample.count(.blank, .placeholder)
        let hex = sample.count(.lowerHex, .upperHex, .mixedHex)
        let list = TokenSample.Spelling.allCases.compactMap { spelling in
            sample.counts[spelling].map { "\(spelling.rawValue): \($0)" }
        }.joined(separator: ", ")
        guard sample.total > 0 else {
            // A row of the platform is looked for by itself.
            if layout.platform != nil { return [] }
            return [
                .warning(
                    "\(layout.table) has no rows; unless no device has registered yet, correct "
                        + "store.active-users.table or the database in store.url")
            ]
        }
        guard spelled > 0 else {
            return [.ok("\(column): no tokens among \(sample.total) rows sampled")]
        }
        let fitting =
            layout.token.encoding == .binary
            ? sample.count(.bytes) : hex - misplaced + sample.count(.grouped)
        if fitting * 2 < spelled {
            return [
                .failure(
                    .configuration,
                    "\(column): encoding \(layout.token.encoding.rawValue) fits \(fitting) of "
                        + "\(spelled) tokens sampled (\(list)); correct the encoding under "
                        + "store.active-users.token, or convert the column"
                        + (advice.map { "; \($0)" } ?? ""))
            ]
        }
        let unfindable =
            spelled - (layout.token.encoding == .binary ? fitting : hex - misplaced)
            + (layout.token.tellsCaseApart ? sample.count(.mixedHex) : 0)
        let note = unfindable > 0 ? "; no evidence matches \(unfindable) of them" : ""
        let cure = advice.map { "; \($0)" } ?? ""
        let sentence =
            "\(column): of \(sample.total) rows sampled, stored as \(list)\(note)\(cure)"
        return [unfindable > 0 ? .warning(sentence) : .ok(sentence)]
    }

    private static func findings(
        unreadable: Int, milliseconds: Int, of total: Int, _ registration: TimeColumn,
        _ layout: TableLayout
    ) -> [Finding] {
        let column = "column \(registration.name) of \(layout.table)"
        let odd = milliseconds > 0 ? milliseconds : unreadable
        guard odd > 0 else { return [] }
        // A wrong unit affects most values; a few odd values are errors in their rows.
        let isMost = odd * 2 >= total
        let isSeconds = registration.storage == .epochMilliseconds
        let what: String
        let type: String
        if milliseconds > 0 {
            (what, type) = (
                "milliseconds, not the seconds declared", "declare type epoch-milliseconds"
            )
        } else if isSeconds {
            (what, type) = ("seconds, not the milliseconds declared", "declare type epoch-seconds")
        } else {
            (what, type) = ("no times", "declare the column's type")
        }
        let found = "\(column): \(odd) of \(total) values sampled are \(what); "
        return [
            isMost
                ? .failure(.configuration, found + "\(type), or correct the rows")
                : .warning(
                    found + "signals about their rows are counted as refused and change nothing; "
                        + "correct the rows")
        ]
    }
}

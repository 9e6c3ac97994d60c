// What the quarantine of this host has about given tokens. A feed with quarantined places is decoded again, and
// lines that could not be used are searched for the token's digits. Nothing is written.

import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import TokenHygiene

/// A report in quarantine.
struct QuarantinedReport {
    let feed: CapturedFeed
    /// The time that it names; nil for a line.
    let time: EpochMilliseconds?
    let refusal: String
}

/// Searches the quarantine of journals for tokens.
struct QuarantineSearch {
    /// The most finds that are kept for a token.
    static let mostFound = 500

    /// The finds by token.
    private(set) var found: [DeviceToken: [QuarantinedReport]] = [:]
    private let tokens: Set<DeviceToken>

    init(_ tokens: [DeviceToken]) { self.tokens = Set(tokens) }

    /// Searches one journal.
    ///
    /// - Throws: failures to read it. What was found before stays.
    mutating func search(_ facts: HostFacts.Journal) throws {
        for quarantined in facts.quarantined where !quarantined.feed.isPurged {
            let feed = quarantined.feed
            switch feed.kind {
            case .unusable: try searchLines(of: feed, in: facts.journal)
            case .feedback: try searchTuples(of: feed, in: facts.journal)
            case .unregistered, .expiredToken: continue
            }
        }
    }

    private mutating func searchTuples(of feed: CapturedFeed, in journal: EvidenceJournal) throws {
        let bounds = EvidenceBounds(now: feed.read)
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        try journal.forEachChunk(of: feed.id) { chunk in
            tuples.removeAll(keepingCapacity: true)
            decoder.decode(chunk, into: &tuples)
            for tuple in tuples {
                guard let token = tuple.token, tokens.contains(token),
                    let rejection = bounds.rejection(of: tuple)
                else { continue }
                add(token, feed, EpochMilliseconds(tuple.time), "\(rejection)")
            }
        }
    }

    private mutating func add(
        _ token: DeviceToken, _ feed: CapturedFeed, _ time: EpochMilliseconds?, _ refusal: String
    ) {
        guard found[token, default: []].count < Self.mostFound else { return }
        found[token, default: []].append(
            QuarantinedReport(feed: feed, time: time, refusal: refusal))
    }

    /// Reports that could not be used, one a line, in which the token is spelled as hex.
    private mutating func searchLines(
        of feed: CapturedFeed, in journal: EvidenceJournal
    ) throws {
        let words = tokens.map { ($0, Array($0.hex.utf8)) }
        var line: [UInt8] = []
        var (start, place) = (0, 0)
        var hits: [(token: DeviceToken, offset: Int)] = []
        try journal.forEachChunk(of: feed.id) { chunk in
            for byte in chunk {
                place += 1
                guard byte == UInt8(ascii: "\n") else {
                    line.append(byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte)
                    continue
                }
                for (token, word) in words where line.withUnsafeBytes({ $0.hasWord(word) }) {
                    hits.append((token, start))
                }
                line.removeAll(keepingCapacity: true)
                start = place
            }
        }
        guard !hits.isEmpty else { return }
        let reasons = try journal.quarantined(of: feed.id)
        for hit in hits {
            let reason = reasons.first {
                $0.offset <= hit.offset && hit.offset < $0.offset + $0.length
            }?.reason
            add(hit.token, feed, nil, reason ?? "its quarantine was discarded")
        }
    }
}

extension UnsafeRawBufferPointer {
    /// The offset of bytes at or after a place; nil where they are not.
    private func offset(of bytes: [UInt8], from start: Int = 0) -> Int? {
        guard let base = baseAddress, let first = bytes.first else { return nil }
        var start = start
        // The last place at which all the bytes fit.
        let last = count - bytes.count
        while start <= last, let hit = memchr(base + start, Int32(first), last - start + 1) {
            let place = UnsafeRawPointer(hit) - base
            if memcmp(hit, bytes, bytes.count) == 0 { return place }
            start = place + 1
        }
        return nil
    }

    /// Whether these hex digits occur with no hex digit before or after them.
    fileprivate func hasWord(_ digits: [UInt8]) -> Bool {
        var start = 0
        while let hit = offset(of: digits, from: start) {
            let end = hit + digits.count
            let isWhole =
                (hit == 0 || Hex.value(of: self[hit - 1]) == nil)
                && (end == count || Hex.value(of: self[end]) == nil)
            if isWhole { return true }
            start = hit + 1
        }
        return false
    }
}

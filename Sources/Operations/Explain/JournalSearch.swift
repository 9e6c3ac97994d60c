// What the journals of this host have about given tokens. The journal keeps feeds as raw bytes, so a
// token is found by its bytes: each chunk is searched, together with the end of the chunk before it,
// and only a feed with a hit is decoded. So memory is that of a chunk, and a feed without the token
// costs one pass over its bytes. Feeds that wait or are held are always searched. Applied and
// discarded feeds keep their bytes for 30 days; of these the newest are searched, up to a limit that
// the result names. Nothing is written: feeds are read without the quarantine that a sweep notes.

import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import TokenHygiene

/// Evidence about one token in one feed of a journal.
struct JournalEvidence {
    let feed: CapturedFeed
    /// The latest time since which the token is dead; nil for a report that cannot be used.
    var time: EpochMilliseconds?
    /// How often the feed says so, at least 1.
    var statements = 1
    /// Why it is quarantined; nil for usable evidence.
    var refusal: String?
}

/// Searches the journals of a host for tokens.
struct JournalSearch {
    /// The most bytes of applied and discarded feeds that are searched.
    static let mostRetained = 64 << 20
    /// The most applied and discarded feeds that are searched.
    static let mostFeeds = 2_000
    /// The most records of runs that are searched for decisions.
    static let mostRuns = 1_000
    /// The most pieces of evidence that are kept for a token.
    static let mostFound = 500

    /// The evidence by token.
    private(set) var found: [DeviceToken: [JournalEvidence]] = [:]
    /// What became of held feeds, by the feed's name, oldest first.
    private(set) var decisions: [String: [TimedEvent]] = [:]
    /// The names of the holds that wait for a decision.
    private(set) var holds: [Partition: String] = [:]
    /// Whether older feeds were not searched.
    private(set) var isCut = false
    private let patterns: [(token: DeviceToken, bytes: [UInt8])]

    init(_ tokens: [DeviceToken]) {
        patterns = Set(tokens).sorted().map { ($0, $0.bytes) }
    }

    /// Searches one journal.
    ///
    /// - Throws: failures to read it. What was found before stays.
    mutating func search(_ facts: HostFacts.Journal) throws {
        let (journal, hits) = (facts.journal, found.values.joined().count)
        for hold in facts.holds where hold.gate != nil { holds[hold.partition] = hold.id }
        for feed in facts.feeds where feed.bytes > 0 { try search(feed, in: journal) }
        var room = Self.mostRetained
        let retained = try journal.retainedFeeds(limit: Self.mostFeeds)
        if retained.count == Self.mostFeeds { isCut = true }
        for feed in retained {
            room -= feed.bytes
            guard room >= 0 else {
                isCut = true
                break
            }
            try search(feed, in: journal)
        }
        if found.values.joined().count > hits { try readDecisions(in: journal) }
    }

    private mutating func search(_ feed: CapturedFeed, in journal: EvidenceJournal) throws {
        guard feed.kind != .unusable else { return try searchLines(of: feed, in: journal) }
        let longest = patterns.map(\.bytes.count).max() ?? 0
        var hits: Set<Int> = []
        var end: [UInt8] = []
        try journal.forEachChunk(of: feed.id) { chunk in
            let seam = end + chunk.prefix(longest)
            end = Array((end + chunk.suffix(longest)).suffix(max(0, longest - 1)))
            for (place, pattern) in patterns.enumerated() where !hits.contains(place) {
                let isHit =
                    chunk.has(pattern.bytes) || seam.withUnsafeBytes { $0.has(pattern.bytes) }
                if isHit { hits.insert(place) }
            }
        }
        guard !hits.isEmpty else { return }
        let wanted = Set(hits.map { patterns[$0].token })
        let bounds = EvidenceBounds(now: feed.read)
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        try journal.forEachChunk(of: feed.id) { chunk in
            guard feed.kind == .feedback else {
                for record in AnswerRecord.decode(chunk) ?? [] where wanted.contains(record.token) {
                    add(record.token, feed, record.time, bounds.rejection(of: record.time))
                }
                return
            }
            tuples.removeAll(keepingCapacity: true)
            decoder.decode(chunk, into: &tuples)
            for tuple in tuples {
                guard let token = tuple.token, wanted.contains(token) else { continue }
                add(token, feed, EpochMilliseconds(tuple.time), bounds.rejection(of: tuple))
            }
        }
    }

    /// Adds one statement; a feed's usable statements about a token are one piece of evidence, whose
    /// latest time counts.
    private mutating func add(
        _ token: DeviceToken, _ feed: CapturedFeed, _ time: EpochMilliseconds,
        _ rejection: EvidenceRejection?
    ) {
        let refusal = rejection.map { "\($0)" }
        let place = found[token]?.lastIndex { $0.feed.id == feed.id && $0.refusal == refusal }
        if let place, let known = found[token]?[place].time {
            found[token]?[place].statements += 1
            found[token]?[place].time = max(known, time)
            return
        }
        add(token, JournalEvidence(feed: feed, time: time, refusal: refusal))
    }

    private mutating func add(_ token: DeviceToken, _ evidence: JournalEvidence) {
        guard found[token, default: []].count < Self.mostFound else {
            isCut = true
            return
        }
        found[token, default: []].append(evidence)
    }

    /// Reports that could not be used, one a line, in which the token is spelled as hex.
    private mutating func searchLines(
        of feed: CapturedFeed, in journal: EvidenceJournal
    ) throws {
        let words = patterns.map { ($0.token, Array($0.token.hex.utf8)) }
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
            add(
                hit.token,
                JournalEvidence(
                    feed: feed, time: nil, refusal: reason ?? "its quarantine was discarded"))
        }
    }

    // MARK: Decisions

    /// Finds the runs that held, released or discarded the feeds with evidence. Their reports name
    /// the feeds.
    private mutating func readDecisions(in journal: EvidenceJournal) throws {
        let feeds = Dictionary(
            found.values.joined().map { ($0.feed.id, $0.feed) }, uniquingKeysWith: { one, _ in one }
        )
        let kinds = ["sweep", "replay", "import", "release", "discard"]
        for run in try journal.runs(ofKinds: kinds, limit: Self.mostRuns).reversed() {
            guard let summary = run.summary, run.exit != nil,
                feeds.keys.contains(where: { summary.contains($0) })
            else { continue }
            if run.kind == "discard", let report = DiscardReport(line: summary) {
                for feed in report.feeds.compactMap({ feeds[$0] }) {
                    note(run, feed, .decision, "discarded", report.reason)
                }
            }
            guard run.kind != "discard", let report = SweepReport(line: summary),
                !report.dryRun
            else { continue }
            for entry in report.apps {
                guard let feed = entry.feed.flatMap({ feeds[$0] }) else { continue }
                if run.kind == "release" {
                    note(run, feed, .decision, "released")
                } else if entry.state == FeedState.held.rawValue,
                    decisions[feed.id]?.last?.event.kind != .hold
                {
                    note(run, feed, .hold, "held", entry.cause)
                }
            }
        }
    }

    /// Notes that a person decided about a feed, or that the guard held it.
    private mutating func note(
        _ run: RunEntry, _ feed: CapturedFeed, _ kind: ExplainedEvent.Kind, _ action: String,
        _ why: String? = nil
    ) {
        let at = run.ended ?? run.started
        let who =
            kind == .hold ? "the guard" : run.operator.isEmpty ? "somebody unknown" : run.operator
        var event = ExplainedEvent(kind, of: feed.partition, at: at)
        event.text =
            "\(feed.partition): \(who) \(action) the evidence from \(feed.source)"
            + (action == "released" ? "" : ": \(why ?? "no cause was noted")")
        (event.action, event.feed, event.run) = (action, feed.id, run.id)
        (event.reason, event.operator) = (why, run.operator)
        decisions[feed.id, default: []].append((at, event))
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

    /// Whether these bytes occur.
    fileprivate func has(_ bytes: [UInt8]) -> Bool { offset(of: bytes) != nil }

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

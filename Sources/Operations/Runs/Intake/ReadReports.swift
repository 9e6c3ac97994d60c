import APNsProtocol
import Encodings
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The reports of a file, or of rows that wait, while they are read: sorted on this host's disk by app, environment
/// and reason, with what cannot be used beside them. Nothing of it outlasts the run.
struct ReadReports {
    /// What the reports of one batch have in common.
    private struct Key: Hashable {
        let partition: Partition
        let source: EvidenceSource
        /// The first no of a person that came after them.
        var refusal: EpochMilliseconds?
        /// Whether it is known when they were heard.
        var isHeard = false
    }

    private let table: EvidenceTable
    let reader: ReportReader
    private var keys: [Key] = []
    /// The place in `keys` by key, and that of the last report, which most reports share.
    private var places: [Key: Int] = [:]
    /// When the first of those was heard of which that is known.
    private var first: [Key: EpochMilliseconds] = [:]
    private var last: (key: Key, place: Int)?
    private(set) var counts = ReportCounts()

    /// Begins without a report.
    init(in folder: StateFolder, _ reader: ReportReader) {
        self.reader = reader
        table = EvidenceTable(in: folder)
    }

    /// Adds one report, and returns why it cannot be used; nil where it can. `text` is its line as it
    /// came, which is asked for only where it cannot; `place` is the number of its line or row. What was heard before a
    /// person's no stands alone.
    @discardableResult mutating func add<Cause: Error>(
        _ reading: Result<ReportReading, Cause>, about partition: Partition,
        text: @autoclosure () -> [UInt8], place: Int, refusal: EpochMilliseconds? = nil,
        heard: EpochMilliseconds? = nil
    ) throws -> Cause? {
        counts.reports += 1
        switch reading {
        case .failure(let refusal):
            counts.quarantined += 1
            // One line each, whatever a field contains.
            let text = text().flatMap { byte -> [UInt8] in
                switch byte {
                case UInt8(ascii: "\n"): Array("\\n".utf8)
                case UInt8(ascii: "\r"): Array("\\r".utf8)
                default: [byte]
                }
            }
            try table.keep(
                QuarantinedPart(
                    place: place, bytes: text, reason: "\(refusal)",
                    token: DeviceToken(firstIn: text)))
            return refusal
        case .success(.nothing): counts.other += 1
        case .success(.accepted(let token, let time)):
            counts.other += 1
            try add(token, time, Key(partition: partition, source: .accepted))
        case .success(.otherPlatform): counts.otherPlatform += 1
        case .success(.unknownReason): counts.unknownReasons += 1
        case .success(.suspect(let token, let source, let time)):
            counts.suspects += 1
            // What no row can have is counted and no more.
            if let token { try add(token, time, Key(partition: partition, source: source)) }
        case .success(.evidence(let token, let source, let time)):
            counts.evidence += 1
            let key = Key(
                partition: partition, source: source, refusal: refusal, isHeard: heard != nil)
            if let heard { first[key] = min(first[key] ?? heard, heard) }
            try add(token, time, key)
        }
        return nil
    }

    private mutating func add(
        _ token: DeviceToken, _ time: EpochMilliseconds, _ key: Key
    ) throws {
        if last?.key != key {
            let place = places[key] ?? keys.count
            if place == keys.count {
                keys.append(key)
                places[key] = place
            }
            last = (key, place)
        }
        try table.add(token, time, to: last?.place ?? 0)
    }

    /// The apps and environments of tokens that APNs accepted.
    var accepting: Set<Partition> {
        Set(keys.filter { $0.source == .accepted }.map(\.partition))
    }

    /// Sorts what was read. To be called once, at the end. Of what APNs accepted only tokens are of use that it called
    /// bad, here or before: `suspected` passes on those that the database has, in bounded steps.
    ///
    /// - Throws: failures of the disk, and of `suspected`.
    func sorted(
        suspected: (([DeviceToken]) throws -> Void) throws -> Void = { _ in }
    ) throws -> Sorted {
        func groups(_ isWanted: (EvidenceSource) -> Bool) -> [Int] {
            keys.indices.filter { isWanted(keys[$0].source) }
        }
        let accepted = groups { $0 == .accepted }
        if !accepted.isEmpty {
            try suspected { try table.want($0) }
            table.keepWanted(ofGroups: accepted, besides: groups(\.isSuspicion))
        }
        let sealed = try table.seal(groups: keys.count)
        let batches = zip(keys, sealed)
            .map { Sorted.Batch($0.partition, $0.source, $1, first[$0], $0.refusal) }
            .filter { $0.source != .accepted || $0.evidence.reports > 0 }
        return Sorted(
            table: table, counts: counts,
            batches: batches.sorted {
                ("\($0.partition)", $0.source.turn, "\($0.source)")
                    < ("\($1.partition)", $1.source.turn, "\($1.source)")
            })
    }

    /// What was read, sorted.
    struct Sorted {
        /// The reports of one app and environment with one reason.
        struct Batch {
            let partition: Partition
            let source: EvidenceSource
            let evidence: SortedEvidence
            /// When the first report was heard; nil where nobody knows.
            let heard: EpochMilliseconds?
            /// The first no of a person that came after them; nil for none.
            let refusal: EpochMilliseconds?

            init(
                _ partition: Partition, _ source: EvidenceSource, _ evidence: SortedEvidence,
                _ heard: EpochMilliseconds?, _ refusal: EpochMilliseconds?
            ) {
                (self.partition, self.source, self.evidence) = (partition, source, evidence)
                (self.heard, self.refusal) = (heard, refusal)
            }
        }

        private let table: EvidenceTable
        let counts: ReportCounts
        let batches: [Batch]

        fileprivate init(table: EvidenceTable, counts: ReportCounts, batches: [Batch]) {
            (self.table, self.counts, self.batches) = (table, counts, batches)
        }

        /// Passes on what cannot be used, in order and in bounded steps.
        ///
        /// - Throws: failures of the disk and of the body.
        func eachParts(_ body: ([QuarantinedPart]) throws -> Void) throws {
            var last: Int?
            while case let parts = try table.parts(after: last, limit: 500), !parts.isEmpty {
                try body(parts)
                last = parts.last?.place
            }
        }
    }
}

extension DeviceToken {
    /// The first token that is spelled in hex within other text, of at least 32 bytes and with no digit beside it;
    /// nil without one.
    init?(firstIn text: [UInt8]) {
        var digits: [UInt8] = []
        for byte in text + [0] {
            if Hex.value(of: byte) != nil {
                digits.append(byte)
            } else if digits.count >= 64, let token = try? DeviceToken(spelling: digits) {
                self = token
                return
            } else {
                digits.removeAll(keepingCapacity: true)
            }
        }
        return nil
    }
}

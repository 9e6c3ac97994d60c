// A list or file may name a token more than once, and only its latest time counts. It may also hold more tokens than fit
// in memory. So its reports are sorted (`RecordSorter`), each token by its bytes and its latest report first, and what
// does not fit is written to a temporary file. The order by token has two uses: neighbours in the user's token index
// are processed close together in time, and an interrupted application can continue after the last token that it
// applied. The reports of a file are of several groups, one for each app and reason. Lines that cannot be used are kept
// beside them, until it is known whether the file was taken before: as records of a group of their own, by their places.
//
// Everything here can be made again from the journal or the file at any time. So nothing is synced.

import APNsProtocol
import TokenHygiene

/// Collects the reports of a list or file, in any order.
package final class EvidenceTable {
    /// Number of reports of which one more is written to a file: four MiB.
    package static let runLength = 65_536

    // Groups of the sorter beside those of the caller.
    private static let wanted = -1
    private static let parts = -2

    private let folder: PrivateFolder
    private var sorter: RecordSorter
    private var filtered: (groups: Set<Int>, others: [Int]) = ([], [])
    private var partRuns: [SortedRun] = []

    /// Makes an empty table, whose file, where it needs one, is in the state folder.
    package convenience init(in folder: StateFolder, runLength: Int = EvidenceTable.runLength) {
        self.init(in: folder.folder, runLength: runLength)
    }

    fileprivate init(in folder: PrivateFolder, runLength: Int) {
        self.folder = folder
        sorter = RecordSorter(in: folder, runLength: runLength)
    }

    /// Adds a token and the time of its evidence to a group of the table, from 0 on.
    ///
    /// - Throws: `inputOutput` and `cannotCreate`, for example when the disk is full.
    package func add(
        _ token: DeviceToken, _ time: EpochMilliseconds, to group: Int = 0
    ) throws(JournalFailure) {
        try sorter.add(token.count, at: time.rawValue, to: group) { token.append(to: &$0) }
    }

    /// Names tokens of which `keepWanted` keeps what was added.
    ///
    /// - Throws: the same as adding does.
    package func want(_ tokens: [DeviceToken]) throws(JournalFailure) {
        for token in tokens { try add(token, EpochMilliseconds(0), to: Self.wanted) }
    }

    /// Of some groups only those tokens stay that are wanted, or that one of the groups `besides` has. Call it before
    /// `seal`.
    package func keepWanted(ofGroups groups: [Int], besides others: [Int]) {
        filtered = (Set(groups), others)
    }

    /// Keeps a part that is no usable report. Each has a place of its own.
    ///
    /// - Throws: the same as adding does.
    package func keep(_ part: QuarantinedPart) throws(JournalFailure) {
        let record = part.record
        try sorter.add(record.count, at: Int64(part.length), to: Self.parts) { $0 += record }
    }

    /// Sorts what was added to the groups 0 to `groups`, that one not included. Call it once, after the last `add`.
    ///
    /// - Throws: the same as adding does.
    package func seal(groups: Int = 1) throws(JournalFailure) -> [SortedEvidence] {
        let runs = try sorter.sorted()
        partRuns = runs[Self.parts] ?? []
        let wanted = ([Self.wanted] + filtered.others).flatMap { runs[$0] ?? [] }
        var sealed: [SortedEvidence] = []
        for group in 0..<groups {
            let isFiltered = filtered.groups.contains(group)
            sealed.append(
                try SortedEvidence(folder, runs[group] ?? [], among: isFiltered ? wanted : nil))
        }
        return sealed
    }

    /// The kept parts behind a place, or from the first one, in their order, at most `limit`. Call it after `seal`.
    ///
    /// - Throws: `inputOutput`.
    package func parts(
        after place: Int?, limit: Int
    ) throws(JournalFailure) -> [QuarantinedPart] {
        guard place != .max else { return [] }
        let first = QuarantinedPart.beginning(place.map { $0 + 1 } ?? .min)
        var merge = try RecordMerge(partRuns, from: first)
        var parts: [QuarantinedPart] = []
        while parts.count < limit, let part = try merge.next(QuarantinedPart.init) {
            parts.append(part)
        }
        return parts
    }
}

/// The evidence of one group: each token once, in token order. Any number of threads may read it.
package struct SortedEvidence: Sendable {
    private let folder: PrivateFolder
    fileprivate let runs: [SortedRun]
    /// Runs with the only tokens that count; nil where all do.
    fileprivate let wanted: [SortedRun]?
    /// Number of reports.
    package private(set) var reports = 0
    /// Number of distinct tokens.
    package private(set) var count = 0
    /// The most reports about one token.
    package private(set) var most = 0

    fileprivate init(
        _ folder: PrivateFolder, _ runs: [SortedRun], among wanted: [SortedRun]?
    ) throws(JournalFailure) {
        (self.folder, self.runs, self.wanted) = (folder, runs, wanted)
        var all = self.reports()
        while let report = try all.next() {
            reports += 1
            count += report.number == 0 ? 1 : 0
            most = max(most, report.number + 1)
        }
    }

    /// Number of tokens that share the most frequent time.
    ///
    /// - Throws: the same as adding to a table does.
    package func tokensAtOneTime() throws(JournalFailure) -> Int {
        // Times are counted while there is room, then sorted as tokens of eight bytes with their counts.
        let table = EvidenceTable(in: folder, runLength: EvidenceTable.runLength / 2)
        var counts: [Int64: Int64] = [:]
        func sortCounts() throws(JournalFailure) {
            for (time, count) in counts {
                guard let token = withUnsafeBytes(of: time, { DeviceToken($0) }) else { continue }
                try table.add(token, EpochMilliseconds(count))
            }
            counts.removeAll(keepingCapacity: true)
        }
        var all = reports()
        while let report = try all.next() {
            guard report.number == 0 else { continue }
            counts[report.time.rawValue, default: 0] += 1
            if counts.count == EvidenceTable.runLength / 2 { try sortCounts() }
        }
        try sortCounts()
        var (most, sum, times) = (0, 0, try table.seal()[0].reports())
        while let count = try times.next() {
            sum = Int(count.time.rawValue) + (count.number == 0 ? 0 : sum)
            most = max(most, sum)
        }
        return most
    }

    /// The evidence after a token, or all of it.
    package func stream(after position: DeviceToken? = nil) -> GroupedReports<Reports> {
        GroupedReports(reports(after: position.map { ($0, .max) }))
    }

    /// Each report behind a token and number, or all of them.
    package func reports(after place: (token: DeviceToken, number: Int)? = nil) -> Reports {
        Reports(evidence: self, position: place)
    }

    /// An iterator over the single reports.
    package struct Reports: ReportSource {
        fileprivate let evidence: SortedEvidence
        fileprivate let position: (token: DeviceToken, number: Int)?
        /// Nil before the first report is read.
        fileprivate var merge: RecordMerge?
        fileprivate var last: (token: DeviceToken, number: Int)?
        /// The wanted tokens behind the first one, which is none of those before the last report's.
        fileprivate var wanted: (rest: RecordMerge, first: DeviceToken?)?

        /// The next reports, at most `limit`; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [NumberedReport] {
            var page: [NumberedReport] = []
            while page.count < limit, let report = try next() { page.append(report) }
            return page
        }

        fileprivate mutating func next() throws(JournalFailure) -> NumberedReport? {
            if merge == nil { try begin() }
            while let (token, time) = try merge?.next({ record in
                DeviceToken(record.bytes).map { ($0, EpochMilliseconds(record.time)) }
            }) {
                var number = 0
                if let last, last.token == token { number = last.number + 1 }
                last = (token, number)
                if let position, position.token == token, number <= position.number { continue }
                if try isWanted(token) {
                    return NumberedReport(token: token, number: number, time: time)
                }
            }
            return nil
        }

        private mutating func begin() throws(JournalFailure) {
            let start = position?.token.bytes ?? []
            merge = try RecordMerge(evidence.runs, from: start)
            guard let runs = evidence.wanted else { return }
            var rest = try RecordMerge(runs, from: start)
            let first = try rest.next { DeviceToken($0.bytes) }
            wanted = (rest, first)
        }

        private mutating func isWanted(_ token: DeviceToken) throws(JournalFailure) -> Bool {
            guard wanted != nil else { return true }
            while let first = wanted?.first, first < token {
                let next = try wanted?.rest.next { DeviceToken($0.bytes) }
                wanted?.first = next
            }
            return wanted?.first == token
        }
    }
}

// A part as a record: eight bytes of its place, four each with the lengths of its reason and of what is kept of its bytes,
// these two, and its token where it has one. The record's time is the part's length.
extension QuarantinedPart {
    /// The bytes with which the record of a place begins, in the order of places.
    fileprivate static func beginning(_ place: Int) -> [UInt8] {
        withUnsafeBytes(of: (UInt64(bitPattern: Int64(place)) ^ 1 << 63).bigEndian) { Array($0) }
    }

    fileprivate var record: [UInt8] {
        var record = Self.beginning(place)
        for field in [Array(reason.utf8), bytes] {
            withUnsafeBytes(of: UInt32(field.count)) { record += $0 }
            record += field
        }
        token?.append(to: &record)
        return record
    }

    fileprivate init?(_ record: SortRecord) {
        var rest = record.bytes[...]
        func number<Value: FixedWidthInteger>(_: Value.Type) -> Value? {
            let size = MemoryLayout<Value>.size
            guard rest.count >= size else { return nil }
            defer { rest = rest.dropFirst(size) }
            return UnsafeRawBufferPointer(rebasing: rest).loadUnaligned(as: Value.self)
        }
        func field() -> UnsafeRawBufferPointer? {
            guard let count = number(UInt32.self), count <= rest.count else { return nil }
            defer { rest = rest.dropFirst(Int(count)) }
            return UnsafeRawBufferPointer(rebasing: rest.prefix(Int(count)))
        }
        guard let place = number(UInt64.self), let reason = field(), let bytes = field() else {
            return nil
        }
        self.init(
            place: Int(Int64(bitPattern: UInt64(bigEndian: place) ^ 1 << 63)), bytes: Array(bytes),
            length: Int(record.time), reason: String(decoding: reason, as: UTF8.self),
            token: DeviceToken(UnsafeRawBufferPointer(rebasing: rest)))
    }
}

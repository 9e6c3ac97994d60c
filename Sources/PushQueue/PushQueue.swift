import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

// Several senders on several hosts share one queue. Each row is sent by one of them, and no row is lost
// when a sender is killed:
//
//   pending --claim--> claimed --hand over--> (may be on the wire) --results--> sent, gone, failed,
//      ^                  |                           |                         skipped, unknown, retry
//      |                  | lease ended               | lease ended
//      +------------------+                           +--> unknown, or retry under the same apns-id
//
// A claim is one row of `pushsweep_claim`: run, lease, the keys of its rows without a result, and
// whether its batch was handed to the wire. The queue's own rows do not change with a claim; each is
// written once, with its result. So claiming, renewing, handing over or taking away a batch of a thousand
// rows writes one row. Every transaction that writes results first locks the claim's row and checks that
// the claim still belongs to this run (the fence). It then removes the keys from the claim and counts
// itself there, so that a commit whose answer was lost is neither repeated nor given up.
//
// Claims must not overlap. Each claim reads the numbers of the last claims, then the claimed keys, then the
// waiting rows, in this order, and replaces the numbers near its rows, if they are still the same
// (`ClaimShares`). If a result is committed between the reads, its row appears as claimed and is left for
// the next claim. In the other order the row could appear as waiting and be sent twice.
//
// Everything that decides a claim is read in the claim's own transaction: the claims of others, the rows
// that are due, and what the token table says of each token. A proxy that sends plain SELECTs to a replica
// must leave a transaction whole, so a replica that lags decides nothing. `QueueClaiming` says more.
//
// What an answer says against a token is inserted as a report in the transaction of its row's result, so the
// claim's row decides about both. The keys that a claim was left with when another sender took it tell which
// answers were not kept: their reports come in by a transaction of their own, which takes those keys out.
//
// A claim that was never handed over returns to the queue when its lease ends. In a claim that was handed
// over, every row without a result has an unknown outcome.

/// One sender's access to the queue: one connection, used by one thread.
package final class PushQueue {
    let store: TokenTable
    let layout: QueueLayout
    let lease: QueueLease
    let statements: QueueStatements
    /// The random part of the queue's `apns-id`s.
    private var space: Int64?
    /// The senders that were at work lately.
    var senders: LivingSenders
    /// The lookups of tokens so far, by partition.
    var lookups: [Partition: TokenStatusLookup] = [:]
    /// Claims whose last results are certainly committed and whose rows are no longer needed.
    var finishedClaims: [Int64] = []
    /// Whether there are suspects; nil until this turn has asked.
    var hasSuspects: Bool?
    /// The batches of what the answers say against tokens.
    var batches: SenderBatches

    var connection: any SQLConnection { store.connection }
    var dialect: SQLDialect { connection.dialect }
    var name: String { layout.name }

    /// Opens the queue of a store for one run. `newName` gives each batch of reports its name, a UUID in lower
    /// case. Throws `configuration` if the table does not fit the settings.
    package init(
        _ store: TokenTable, _ lease: QueueLease, newName: @escaping () -> String
    ) throws(StoreFailure) {
        self.store = store
        self.lease = lease
        batches = SenderBatches(run: lease.run, host: lease.host, newName: newName)
        senders = LivingSenders(own: lease.run)
        layout = try store.queueLayout()
        statements = QueueStatements(layout: layout, connection: store.connection)
    }

    /// The random part of the queue's `apns-id`s. The first sender of the queue creates it, and the
    /// guards of claims.
    func apnsSpace() throws(StoreFailure) -> Int64 {
        if let space { return space }
        let known = try store.retries.retrying("naming the notifications of \(name)") {
            () throws(SQLFailure) -> Int64 in
            func read() throws(SQLFailure) -> Int64? {
                try connection.query(
                    "SELECT apns_space FROM pushsweep_queue WHERE name = ?", [.text(name)]
                ).scalar?.integer
            }
            // In a transaction, so that no proxy sends the query to a replica that lags.
            try connection.begin()
            if let known = try read(),
                try ClaimGuards(of: name, space: known, connection) != nil
            {
                connection.rollBack()
                return known
            }
            do throws(SQLFailure) {
                _ = try connection.execute(
                    "INSERT INTO pushsweep_queue (name, apns_space) VALUES (?, ?)",
                    [.text(name), .integer(Int64.random(in: 0..<1 << 60))])
            } catch {
                guard error.isDuplicate else { throw error }
            }
            guard let known = try read() else {
                throw SQLFailure(
                    kind: .other, code: 0, message: "a row of pushsweep_queue was not kept")
            }
            try ClaimGuards.make(space: known, connection)
            try connection.commit()
            return known
        }
        space = known
        return known
    }
}

extension TokenTable {
    /// The queue's settings, resolved against the database.
    func queueLayout() throws(StoreFailure) -> QueueLayout {
        let table = try withHidden(settings.queue.judgedByDefault, of: queueTable())
        return try seeingColumns(of: table.name) { () throws(StoreFailure) in
            try QueueResolver(
                mapping: settings.queue, environmentValues: settings.mapping.environmentValues,
                table: table, dialect: connection.dialect
            ).layout()
        }
    }

    /// The queue's table as the database describes it.
    func queueTable() throws(StoreFailure) -> CatalogTable {
        let setting = "store.push-queue.table"
        return try session.catalogTable(
            TableName(settings.queue.table, setting: setting), setting: setting,
            cure: "run `pushsweep schema apply`, which makes it where an app has a provider or the "
                + "settings name this table")
    }

    /// The tokens of a partition that must not be sent to, with the reasons. Who asks more than once brings the lookup.
    func skipReasons(
        of tokens: [DeviceToken], in partition: Partition, by known: TokenStatusLookup? = nil
    ) throws(StoreFailure) -> [DeviceToken: SkipReason] {
        var lookup = known
        if lookup == nil { lookup = try tokenStatuses(in: partition) }
        guard let lookup else { return [:] }
        return try retries.retrying(
            "looking up tokens in \(settings.mapping.table)", do: lookup.skipReasons(of: tokens))
    }
}

extension TokenStatusLookup {
    /// The tokens that must not be sent to, with the reasons.
    func skipReasons(
        of tokens: [DeviceToken]
    ) throws(SQLFailure) -> [DeviceToken: SkipReason] {
        try statuses(of: tokens).compactMapValues { status in
            switch status {
            case .living: nil
            case .stale: .stale
            case .unknown: .unknown
            }
        }
    }
}

// Rows are claimed in the order of their key, so the keys of a batch are close together. They
// mostly form one run of consecutive numbers, with gaps for rows of other apps and finished rows.
// Stored as runs, a thousand keys take a few bytes in the claim's row and a few BETWEENs in a
// statement. A list of a thousand keys would cost the server more than the rows themselves.

/// A set of keys of the queue, as runs of consecutive numbers.
struct KeySet: Hashable, Sendable {
    /// The runs in ascending order; no two runs are adjacent.
    private(set) var runs: [ClosedRange<Int64>] = []
    private(set) var count = 0

    init() {}

    /// Makes a set from keys in ascending order. A repeated key counts once.
    init(sorted keys: some Sequence<Int64>) {
        for key in keys { append(key...key) }
    }

    var isEmpty: Bool { runs.isEmpty }

    /// The keys in ascending order.
    var keys: some Sequence<Int64> { runs.lazy.joined() }

    /// Adds a run that begins at the last run's end or after it.
    private mutating func append(_ run: ClosedRange<Int64>) {
        guard let last = runs.last else {
            runs.append(run)
            return count = Self.size(run)
        }
        guard run.upperBound > last.upperBound else { return }
        let lower = last.upperBound == .max ? last.upperBound : last.upperBound + 1
        guard run.lowerBound <= lower else {
            runs.append(run)
            return count += Self.size(run)
        }
        let joined = last.lowerBound...run.upperBound
        count += Self.size(joined) - Self.size(last)
        runs[runs.count - 1] = joined
    }

    private static func size(_ run: ClosedRange<Int64>) -> Int {
        Int(run.upperBound - run.lowerBound) + 1
    }

    func contains(_ key: Int64) -> Bool {
        var low = 0
        var high = runs.count
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].upperBound < key { low = middle + 1 } else { high = middle }
        }
        return low < runs.count && runs[low].contains(key)
    }

    /// The keys that are in either set.
    func union(_ other: KeySet) -> KeySet {
        var all = KeySet()
        let runs = (runs + other.runs).sorted { $0.lowerBound < $1.lowerBound }
        for run in runs { all.append(run) }
        return all
    }

    /// The keys that are not in the other set.
    func subtracting(_ other: KeySet) -> KeySet {
        var rest = KeySet()
        var next = other.runs[...]
        for run in runs {
            var lower = run.lowerBound
            var isDone = false
            while let taken = next.first, taken.lowerBound <= run.upperBound {
                if taken.lowerBound > lower { rest.append(lower...(taken.lowerBound - 1)) }
                if taken.upperBound >= run.upperBound {
                    isDone = true
                    break
                }
                lower = max(lower, taken.upperBound + 1)
                next.removeFirst()
            }
            if !isDone { rest.append(lower...run.upperBound) }
        }
        return rest
    }

    /// The keys that are in both.
    func intersection(_ other: KeySet) -> KeySet { subtracting(subtracting(other)) }

    /// The runs of these keys, where a gap that consists of other keys only does not end a run.
    func runs(passing others: KeySet) -> [ClosedRange<Int64>] {
        guard !others.isEmpty, runs.count > 1 else { return runs }
        let all = union(others).runs
        var place = 0
        var joined: [ClosedRange<Int64>] = []
        for run in runs {
            while all[place].upperBound < run.lowerBound { place += 1 }
            if let last = joined.last, last.lowerBound >= all[place].lowerBound {
                joined[joined.count - 1] = last.lowerBound...run.upperBound
            } else {
                joined.append(run)
            }
        }
        return joined
    }

    /// The set cut into sets of at most `limit` keys.
    func pieces(of limit: Int) -> [KeySet] {
        guard count > limit else { return isEmpty ? [] : [self] }
        var pieces: [KeySet] = []
        var piece = KeySet()
        for run in runs {
            var lower = run.lowerBound
            while true {
                let (end, overflows) =
                    lower.addingReportingOverflow(Int64(limit - piece.count - 1))
                let upper = overflows ? run.upperBound : min(end, run.upperBound)
                piece.append(lower...upper)
                if piece.count == limit {
                    pieces.append(piece)
                    piece = KeySet()
                }
                guard upper < run.upperBound else { break }
                lower = upper + 1
            }
        }
        if !piece.isEmpty { pieces.append(piece) }
        return pieces
    }
}

extension KeySet {
    /// The set as bytes for the claim's row. Each run is its distance from the end of the previous
    /// run and its length less one, as numbers of 7 bits per byte, lowest bits first (LEB128).
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(runs.count * 3 + 10)
        var end = UInt64(bitPattern: Int64.min)
        for run in runs {
            let lower = UInt64(bitPattern: run.lowerBound)
            Self.append(lower &- end, to: &bytes)
            Self.append(UInt64(bitPattern: run.upperBound) &- lower, to: &bytes)
            end = UInt64(bitPattern: run.upperBound)
        }
        return bytes
    }

    /// The highest accepted number of keys; a claim has a thousand. Without the limit a damaged
    /// value could keep a sender busy for ever.
    private static let mostKeys = 1 << 24

    /// Decodes the bytes of `encoded`; nil for any other bytes.
    init?(encoded bytes: [UInt8]) {
        var rest = bytes[...]
        var end = Int64.min
        while !rest.isEmpty {
            guard let gap = Self.number(&rest), let length = Self.number(&rest) else { return nil }
            let lower = end &+ Int64(bitPattern: gap)
            let upper = lower &+ Int64(bitPattern: length)
            guard length < Self.mostKeys, upper >= lower, isEmpty ? lower >= end : lower > end
            else { return nil }
            append(lower...upper)
            guard count <= Self.mostKeys else { return nil }
            end = upper
        }
    }

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var rest = number
        while rest > 0x7F {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func number(_ bytes: inout ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while let byte = bytes.popFirst() {
            guard shift < 63 || byte <= 1 else { return nil }
            number |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return number }
            shift += 7
        }
        return nil
    }
}

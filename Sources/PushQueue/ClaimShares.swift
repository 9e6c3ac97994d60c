// How senders stay out of each other's way. Two claims must not overlap, so a claim is committed only if
// no other claim was committed near its rows since it read them. If one was, it has lost the race: it is
// undone and tried again. On one server a loser waits for a lock. On Galera it learns of its loss when it
// commits, after all its work, and the node on which claims are quick wins every time. So claims are kept
// apart:
//
//   stretches   The keys are cut into stretches of 1,024. Each stretch has one of 64 guards: a row of
//               `pushsweep_queue` whose number a claim of rows in the stretch replaces. Claims in
//               stretches with different guards do not meet.
//   shares      Of n living senders, the k-th claims rows of each n-th stretch first. Who lives shows in
//               the claims that are open: each has the name of its run. Two senders that see different
//               ones meet now and then, and the loser looks again.
//   the rest    Where its share has no row that is due, a sender claims rows of others. It passes over
//               their next stretches, which their own senders are about to claim, until there are no
//               other rows. Every eighth claim begins with the oldest row of all. So no row waits for
//               its own sender.
//
// A single sender has the whole queue as its share, and claims in the order of the keys.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// A sender's part of the stretches.
struct ClaimShare: Hashable, Sendable {
    /// Number of living senders, this one included.
    let senders: Int
    /// The place of this sender among them, from 0.
    let place: Int

    /// The key after which this sender claims rows of others, where a key is that of the oldest: one
    /// stretch of each sender is passed over, and those who do so begin at different ones.
    func yielded(_ oldest: Int64) -> Int64 {
        let (start, overflows) = (oldest / ClaimGuards.stretch + Int64(senders + place))
            .multipliedReportingOverflow(by: ClaimGuards.stretch)
        return overflows ? .max : start - 1
    }

    /// Whether a key is in the share.
    func contains(_ key: Int64) -> Bool {
        key / ClaimGuards.stretch % Int64(senders) == Int64(place)
    }

    /// A condition that is true for keys in the share.
    func condition(_ key: String, _ dialect: SQLDialect) -> (sql: String, values: [SQLValue]) {
        let division = dialect.engine == .mariaDB ? "DIV" : "/"
        return (
            "\(key) \(division) \(ClaimGuards.stretch) % ? = ?",
            [.integer(Int64(senders)), .integer(Int64(place))]
        )
    }
}

/// The senders that were at work lately, by their open claims.
struct LivingSenders: Hashable, Sendable {
    /// Milliseconds for which a sender counts without an open claim: it may have none for a moment.
    static let memory = 5_000.0

    private let own: String
    private var seen: [String: Double] = [:]

    init(own: String) { self.own = own }

    /// Notes the runs that hold claims at a time, in milliseconds of a monotonic clock.
    mutating func note(_ runs: Set<String>, at now: Double) {
        for run in runs where run != own { seen[run] = now }
        seen = seen.filter { now - $0.value < Self.memory }
    }

    /// This sender's share; nil where it is alone.
    var share: ClaimShare? {
        guard !seen.isEmpty else { return nil }
        return ClaimShare(senders: seen.count + 1, place: seen.keys.count { $0 < own })
    }
}

/// The numbers of a queue's guards, as a claim has read them before it read anything else.
struct ClaimGuards: Hashable, Sendable {
    /// Keys of a stretch.
    static let stretch: Int64 = 1_024
    /// Guards of a queue. Among so many, senders that are some stretches apart seldom share one.
    static let count = 64

    /// The name of a guard in `pushsweep_queue`. No queue has such a name: those have a point.
    static func name(_ guarding: Int, space: Int64) -> String {
        let digits = String(space, radix: 16)
        return "claims \(digits) \(guarding < 10 ? "0" : "")\(guarding)"
    }

    /// The guards of the stretches in which keys lie, in order.
    static func guards(of keys: KeySet) -> [Int] {
        var guards: Set<Int> = []
        for run in keys.runs {
            let (first, last) = (run.lowerBound >> 10, run.upperBound >> 10)
            for stretch in first...max(first, min(last, first + Int64(count))) {
                guards.insert(Int(stretch & Int64(count - 1)))
            }
        }
        return guards.sorted()
    }

    /// The time of the database.
    let now: EpochMilliseconds
    /// The last claim near each guard.
    let numbers: [Int64]
    /// The server that answered; nil where the engine has no number.
    let server: String?

    private let queue: String
    private let space: Int64

    /// Reads the guards; nil where some are missing.
    init?(
        of queue: String, space: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let dialect = connection.dialect
        let names = (Self.name(0, space: space), Self.name(Self.count - 1, space: space))
        let rows = try connection.query(
            "SELECT \(dialect.now), \(Self.server(dialect)), name, last_claim FROM pushsweep_queue "
                + "WHERE name = ? OR name BETWEEN ? AND ?",
            [.text(queue), .text(names.0), .text(names.1)])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 4)
        var numbers: [Int: Int64] = [:]
        for row in 0..<rows.count {
            let name = rows[row, 2].text ?? ""
            guard let place = Int(name.suffix(2)), name == Self.name(place, space: space) else {
                continue
            }
            numbers[place] = rows[row, 3].integer
        }
        guard numbers.count == Self.count else { return nil }
        self.numbers = (0..<Self.count).map { numbers[$0] ?? 0 }
        now = try dialect.instant(rows[0, 0])
        server = rows[0, 1].text
        self.queue = queue
        self.space = space
    }

    private static func server(_ dialect: SQLDialect) -> String {
        dialect.engine == .mariaDB ? "CAST(@@server_id AS CHAR)" : "NULL"
    }

    /// Makes the guards of a queue; those that are there keep their numbers.
    static func make(
        space: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let sql = connection.dialect.upsert(
            "pushsweep_queue", key: ["name"], columns: ["apns_space"], rows: count)
        _ = try connection.execute(
            sql,
            (0..<count).flatMap { [.text(name($0, space: space)), .integer(space)] })
    }

    /// Replaces the numbers of guards by that of a claim.
    ///
    /// - Throws: `conflict` where another claim was committed near the same rows since the guards were
    ///   read; `configuration` where another server answers now than then.
    func replace(
        _ guards: [Int], by claim: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let dialect = connection.dialect
        let rows = try connection.query(
            "SELECT \(Self.server(dialect)) FROM pushsweep_queue WHERE name = ?"
                + dialect.sharedLock, [.text(queue)])
        guard rows.count > 0 else { throw Self.lost }
        let answering = rows.scalar?.text
        guard answering == server else {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message:
                    "a proxy lets server \(server ?? "") answer reads in a transaction of server "
                    + "\(answering ?? ""); let it send whole transactions to one server, or name the "
                    + "primary in store.url")
        }
        for place in guards {
            let name = SQLValue.text(Self.name(place, space: space))
            let isReplaced = try connection.changesRow(
                "UPDATE pushsweep_queue SET last_claim = ? WHERE name = ? AND last_claim = ?",
                [.integer(claim), name, .integer(numbers[place])]
            ) { () throws(SQLFailure) in
                try connection.query(
                    "SELECT last_claim FROM pushsweep_queue WHERE name = ?", [name]
                ).scalar?.integer == claim
            }
            guard isReplaced else { throw Self.lost }
        }
    }

    private static let lost = SQLFailure(
        kind: .conflict, code: 0, message: "another sender has claimed rows near these")

    /// Whether other claims were committed between two looks.
    func differ(from other: ClaimGuards) -> Bool {
        numbers != other.numbers
    }
}

/// The patience of a claim that loses races. A race is lost because another sender has won it, so it is no
/// failure as long as others make progress.
struct ClaimRace {
    private let pacing: Pacing
    private var guards: ClaimGuards?
    private var progress: Double
    private var losses = 0

    init(_ pacing: Pacing) {
        self.pacing = pacing
        progress = pacing.monotonic()
    }

    /// Notes the guards that a try has read.
    mutating func look(_ read: ClaimGuards) {
        if let guards, guards.differ(from: read) { progress = pacing.monotonic() }
        guards = read
    }

    /// Pauses after a lost race: 2 to 4 ms at first, 125 to 250 at last, so that two losers do not meet
    /// again at once.
    ///
    /// - Throws: `busy` where nobody has claimed for as long as the patience of the pacing lasts.
    mutating func lost(
        _ failure: SQLFailure, doing: String
    ) throws(StoreFailure) {
        guard pacing.monotonic() - progress < pacing.patience else {
            throw StoreFailure(failure, while: doing)
        }
        losses += 1
        let whole = Double(4 << min(losses - 1, 6))
        pacing.sleep(Int(whole * (0.5 + pacing.random() / 2)))
    }
}

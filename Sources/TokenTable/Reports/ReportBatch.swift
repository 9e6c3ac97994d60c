import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Where reports come from. A hold holds back later batches of the same inlet only.
package enum Inlet: String, Hashable, Sendable, CaseIterable {
    /// Rows of `pushsweep_evidence`.
    case table
    /// The list of a feedback gateway.
    case gateway
    /// A file or a pipe.
    case file
    /// Answers that our own sender got.
    case sender
    /// Reports that were judged before, under other terms.
    case earlier
    /// Rows whose grace period has ended.
    case grace
}

/// The state of a batch:
///
///   filling --its last report--> waiting --judged--> applying --last chunk--> applied
///      |    \                      |  ^  ^
///      |     the guard stopped    stopped  a person       a person judges it again
///      |     one before it         |  |  releases it       |
///      |                       --> held --a person discards it--> discarding --noted--> discarded
///      +-- nobody stores the rest: discarding                      ^
///                                  waiting, of an app that no settings name --+
///
/// A batch in `filling` belongs to the run that inserts its reports. One that a transaction takes in whole, as from
/// `pushsweep_evidence`, begins in `waiting`; one of which nothing can be used begins in `applied`. What is applied
/// is judged again only as a new batch, into which its reports move.
package enum BatchState: String, Hashable, Sendable, CaseIterable {
    /// Its reports are still being inserted.
    case filling
    /// It is whole, and nobody has judged it.
    case waiting
    /// Some of its reports are decided, each in the transaction that changed its rows.
    case applying
    /// All of its reports are decided.
    case applied
    /// It waits for a person's decision.
    case held
    /// A person discards it: what he said no to is being noted, and nobody may judge or release it.
    case discarding
    /// A person discarded it.
    case discarded
}

/// What became of one report; the number is that of `pushsweep_report.state`.
package enum ReportState: Int, Hashable, Sendable, CaseIterable {
    /// Not decided.
    case waiting = 0
    /// It made a row invalid, and the ledger has the change.
    case applied = 1
    /// The rows were invalid already, or a later report of the batch made them so.
    case already = 2
    /// The token registered again after it.
    case newer = 3
    /// No row has the token.
    case unknown = 4
    /// A row could not be judged or refused the change.
    case refused = 5
    /// It would have changed a row, and gave way to a person who undid or discarded what it says.
    case spared = 6
}

/// Why a batch is held.
package struct BatchHold: Hashable, Sendable {
    /// The cause in one sentence.
    package let cause: String
    /// The guard's gate; nil where something else holds it.
    package let gate: GuardGate?
    /// When it was held, where that is known already.
    package let since: EpochMilliseconds?

    package init(cause: String, gate: GuardGate?, since: EpochMilliseconds? = nil) {
        (self.cause, self.gate, self.since) = (cause, gate, since)
    }
}

/// Reports that came together and are decided together.
package struct ReportBatch: Hashable, Sendable {
    /// A UUID in lower case: that of the list in the journal that was poured into it, or a random one.
    package let id: String
    /// Its number in the database; nil for one that is not there yet.
    private(set) var number: Int64?
    /// The run that inserted its reports, later the one that judged it.
    package let run: String
    /// The names of app and environment in the settings.
    package let partition: Partition
    /// What its reports are, with the reason of APNs.
    package let source: EvidenceSource
    package let inlet: Inlet
    /// `host:port` of a gateway, the path of a file, or the name of the table.
    package let label: String
    /// The host that heard the reports.
    package let host: String
    package let opened: EpochMilliseconds
    /// When the first of its reports was heard, by the database's clock; nil where nobody knows.
    package var heard: EpochMilliseconds?
    /// How the reading of the reports ended, with one sentence where it was not complete.
    package var ending = ListEnd.clean
    package var detail: String?
    package var state = BatchState.waiting
    /// Why it is held, or was.
    package var hold: BatchHold?
    /// Why a person discarded it.
    package var decision: String?
    /// Reports inserted so far, and those that could not be used, of which some have an impossible time.
    package var reports = 0
    package var quarantined = 0
    package var outOfBounds = 0
    /// Bytes of a gateway's list, and those after its last whole tuple.
    package var bytes = 0
    package var quarantinedBytes = 0
    /// Whether a person has seen and released it, so that the guard is not asked.
    package var isReleased = false
    /// The digest of what the release would do, as the person saw it.
    package var terms: String?
    /// The digests of the mappings under which its reports were judged.
    package var mappings: [String] = []
    /// When a person released, replayed, imported again or discarded it, by the database's clock; nil where nobody did.
    package var asked: EpochMilliseconds?
    /// The batch into which those of its reports moved that found no row; nil where none did.
    package private(set) var movedTo: String?
    /// Reports that moved into another batch, or whose time is over.
    package var removed = 0
    /// The batch whose reports it judges again; nil for the first judgement.
    package var origin: String?
    /// The name in `pushsweep_intake` of the file that brought it; nil for anything else, and where it is read from the
    /// database.
    package var intake: String?
    /// Whether a person asks for it with the step that lets it be judged: a replay, or a file imported again.
    package var isAsked = false
    /// The last token inserted or judged, and the outcomes so far.
    package var progress = BatchProgress()

    /// Makes a batch that is not in the database yet.
    package init(
        id: String, run: String, _ partition: Partition, _ source: EvidenceSource, _ inlet: Inlet,
        label: String, host: String, opened: EpochMilliseconds
    ) {
        (self.id, self.run, self.partition) = (id, run, partition)
        (self.source, self.inlet, self.label) = (source, inlet, label)
        (self.host, self.opened) = (host, opened)
    }

    /// When it was heard, as it counts against what persons said no to.
    package var hearing: Hearing { asked.map(Hearing.asked) ?? heard.map(Hearing.at) ?? .unknown }

    /// Whether it is of an import that has not ended, or never will.
    package var isDraft: Bool {
        state == .filling && origin == nil
            && (inlet == .file && source != .feedback || inlet == .grace)
    }

    /// Whether the database has not all of a list, whose host has its bytes.
    package var isUnfinishedList: Bool {
        state == .filling && source == .feedback && [.gateway, .file].contains(inlet)
            && origin == nil
    }

    /// The same where the database has no report of it yet.
    package var isUnstored: Bool { isUnfinishedList && reports == 0 }

    /// Whether it is judged again because the terms changed, and not because a person said so.
    package var isJudgedByItself: Bool { inlet == .earlier && origin == nil && !isReleased }

    /// The reports by outcome, with those that could not be used.
    package var counts: Counts {
        var counts = progress.counts
        counts.tuples = reports + quarantined
        counts.quarantined = quarantined
        return counts
    }
}

extension ReportBatch {
    /// The most mappings that a batch has. Under more its reports are not judged by themselves.
    static let mostMappings = 60

    /// What the parts of a batch say together, in a statement over `pushsweep_batch`.
    private static func ofParts(_ expression: String) -> String {
        "(SELECT \(expression) FROM pushsweep_part AS p WHERE p.batch = pushsweep_batch.number)"
    }
    /// The rows that the batch changed, and those that refused their change.
    static let rowsChanged = ofParts("COALESCE(SUM(rows_changed), 0)")
    static let rowsRefused = ofParts("COALESCE(SUM(rows_refused), 0)")
    /// The rows that it made invalid and an undo made living again; no more than those.
    static let takenBack =
        "(SELECT CASE WHEN COALESCE(SUM(taken_back), 0) > pushsweep_batch.invalidated THEN pushsweep_batch.invalidated "
        + "ELSE COALESCE(SUM(taken_back), 0) END FROM pushsweep_part AS p WHERE p.batch = pushsweep_batch.number)"
    /// The batches, each with what a person decided about it.
    static let table =
        "pushsweep_batch LEFT JOIN pushsweep_hold ON pushsweep_hold.batch = pushsweep_batch.number"

    /// The columns of a batch in `table`, in the order of `init(_:_:)`.
    static let columns =
        "name, run, COALESCE(app_name, app), environment, source, inlet, label, host, opened_at, ending, detail, state, "
        + "held_at, gate, cause, origin, reports, quarantined, out_of_bounds, bytes, quarantined_bytes, "
        + "last_token, \(Counts.columns.joined(separator: ", ")), \(rowsChanged), invalidated, \(rowsRefused), "
        + "terms IS NOT NULL, decision, terms, removed, \(ofParts("GROUP_CONCAT(DISTINCT mapping)")), asked_at, "
        + "moved_to, heard_at, number"

    /// Reads a row of `columns`. Words that this version does not know read as the least harmful.
    init(_ rows: SQLRows, _ row: Int, _ dialect: SQLDialect) {
        let time = dialect.ownTime("opened_at")
        self.init(
            id: rows.string(row, 0), run: rows.string(row, 1), rows.partition(row, 2),
            // What this build does not know never counts as a death; see `EvidenceRun.decide`.
            EvidenceSource(rawValue: rows.string(row, 4)) ?? .unusable,
            Inlet(rawValue: rows.string(row, 5)) ?? .table, label: rows.string(row, 6),
            host: rows.string(row, 7), opened: time.mark(rows[row, 8]) ?? EpochMilliseconds(0))
        ending = ListEnd(rawValue: rows.string(row, 9)) ?? .clean
        detail = rows[row, 10].text
        state = BatchState(rawValue: rows.string(row, 11)) ?? .held
        if let cause = rows[row, 14].text {
            hold = BatchHold(
                cause: cause, gate: rows[row, 13].text.flatMap(GuardGate.init(rawValue:)),
                since: time.mark(rows[row, 12]))
        }
        origin = rows[row, 15].text
        isReleased = rows[row, 30].count == 1
        (decision, terms, removed) = (
            rows[row, 31].text, rows[row, 32].text, rows[row, 33].count ?? 0
        )
        mappings = (rows[row, 34].text ?? "").split(separator: ",").map(String.init).sorted()
        (asked, movedTo) = (time.mark(rows[row, 35]), rows[row, 36].text)
        heard = time.mark(rows[row, 37])
        number = rows[row, 38].integer
        (reports, quarantined) = (rows[row, 16].count ?? 0, rows[row, 17].count ?? 0)
        outOfBounds = rows[row, 18].count ?? 0
        (bytes, quarantinedBytes) = (rows[row, 19].count ?? 0, rows[row, 20].count ?? 0)
        progress = BatchProgress(
            position: rows.token(row, 21), counts: rows.counts(row, 22),
            rowsChanged: rows[row, 27].count ?? 0, rowsInvalidated: rows[row, 28].count ?? 0,
            rowsRefused: rows[row, 29].count ?? 0, isApplied: state == .applied)
    }

    /// The number of the batch with the bound name.
    static let ofName = "(SELECT number FROM pushsweep_batch WHERE name = ?)"

    /// The batch with a name; nil where there is none.
    static func named(
        _ name: String, _ connection: any SQLConnection
    ) throws(SQLFailure) -> ReportBatch? {
        let rows = try connection.query(
            "SELECT \(columns) FROM \(table) WHERE name = ?", [.text(name)])
        return rows.count > 0 ? ReportBatch(rows, 0, connection.dialect) : nil
    }

    /// The batches with these numbers, by number.
    static func numbered(
        _ numbers: [SQLValue], _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Int64: ReportBatch] {
        var found: [Int64: ReportBatch] = [:]
        for some in numbers.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let rows = try connection.query(
                "SELECT \(ReportBatch.columns) FROM \(table) WHERE number IN "
                    + "(\(placeholders(padded.count)))", padded)
            for row in 0..<rows.count {
                let batch = ReportBatch(rows, row, connection.dialect)
                if let number = batch.number { found[number] = batch }
            }
        }
        return found
    }
}

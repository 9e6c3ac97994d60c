// A sender hears of dead tokens while it sends. A row with a result is never sent again, so the answer does not
// come a second time: each report goes into the database in the transaction that writes its row's result. The
// reports of one turn are one batch for each app and reason, which the guard judges as a whole:
//
//   no row --first report--> filling --more reports--> filling --end of the turn--> waiting
//                               |
//                               +--its sender is gone, or has added nothing for five minutes--> waiting
//
// A sender whose batch was closed meanwhile, because it stood still, opens another one: nobody adds a report to a
// batch that is judged.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The open batches of one sender.
package struct SenderBatches {
    private let run: String
    private let host: String
    private let newName: () -> String

    /// What the reports of one batch have in common.
    private struct Key: Hashable {
        let origin: ReportOrigin
        let source: EvidenceSource
        /// The first no of a person that came after them; nil for none.
        let refusal: EpochMilliseconds?
    }

    /// When the first report of each open batch was heard.
    private var heard: [Key: EpochMilliseconds] = [:]
    /// The names of the open batches, and of those that were closed before their turn ended.
    private var open: [Key: String] = [:]
    private var left: [String] = []

    /// Makes the batches of a run, of which none is open. `newName` gives each its name, a UUID in lower case.
    package init(run: String, host: String, newName: @escaping () -> String) {
        (self.run, self.host, self.newName) = (run, host, newName)
    }

    /// Inserts reports in the transaction of a connection; `now` is the time of the database. Where the
    /// transaction is tried again the reports have to be inserted again.
    ///
    /// - Throws: any failure of a statement.
    package mutating func insert(
        _ reports: [HeardReport], from origin: ReportOrigin, at now: EpochMilliseconds,
        on connection: any SQLConnection
    ) throws(SQLFailure) {
        let refusals = reports.isEmpty ? [] : try PersonsRefusals(connection: connection).times()
        let groups = Dictionary(grouping: reports) { report in
            Key(
                origin: origin, source: report.source,
                refusal: refusals.first(notBefore: min(report.heard ?? now, now)))
        }
        for (key, reports) in groups.sorted(by: {
            ($0.key.source.rawValue, $0.key.refusal?.rawValue ?? .max)
                < ($1.key.source.rawValue, $1.key.refusal?.rawValue ?? .max)
        }) {
            // A person's no since its first report ends an open batch.
            if let first = heard[key], key.refusal == nil, refusals.first(notBefore: first) != nil,
                let name = open.removeValue(forKey: key)
            {
                left.append(name)
                heard[key] = nil
            }
            try insert(reports, key, now, connection)
        }
    }

    private mutating func insert(
        _ reports: [HeardReport], _ key: Key, _ now: EpochMilliseconds,
        _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let row = BatchRow(connection: connection)
        var name = open[key] ?? newName()
        var known = try open[key].flatMap { (name) throws(SQLFailure) in
            try row.read(name, locking: true)
        }
        if let found = known, found.state != .filling {
            left.append(name)
            (name, known) = (newName(), nil)
        }
        open[key] = name
        var batch = ReportBatch(
            id: name, run: run, key.origin.partition, key.source, .sender,
            label: key.origin.gateway, host: host, opened: now)
        // Reports come in the order in which they were heard; a log of a killed sender makes batches of its own.
        let first = reports.map { min($0.heard ?? now, now) }.min() ?? now
        batch.heard = first
        heard[key] = min(heard[key] ?? first, first)
        if let known {
            try row.move(batch, to: known.reports + reports.count, nil, isLast: false)
        } else {
            try row.insert(batch, reports.count, nil, isLast: false)
        }
        let numbers = known == nil ? [:] : try Self.counts(of: reports, in: name, connection)
        try ReportRows(connection: connection).insert(
            Self.numbered(reports, after: numbers)[...], into: name)
    }

    /// Those of some reports that the database does not have from any sender: another time or source makes a report
    /// another one.
    package static func unknown(
        among reports: [HeardReport], on connection: any SQLConnection
    ) throws(SQLFailure) -> [HeardReport] {
        let time = connection.dialect.ownTime("evidence_at")
        var known: Set<HeardReport> = []
        let tokens = Set(reports.lazy.map(\.token)).sorted().map { SQLValue.bytes($0.bytes) }
        for some in tokens.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let found = try connection.query(
                "SELECT r.token, r.evidence_at, f.source FROM pushsweep_report AS r JOIN pushsweep_batch AS f "
                    + "ON f.number = r.batch WHERE r.token IN (\(placeholders(padded.count))) "
                    + "AND f.inlet IN ('sender', 'earlier')", padded)
            for row in 0..<found.count {
                guard let token = found.token(row, 0), let at = time.mark(found[row, 1]),
                    let source = EvidenceSource(rawValue: found.string(row, 2))
                else { continue }
                known.insert(HeardReport(row: 0, token: token, source: source, time: at))
            }
        }
        return reports.filter { report in
            !known.contains(
                HeardReport(row: 0, token: report.token, source: report.source, time: report.time))
        }
    }

    /// How many reports a batch has of tokens, for those of which it has some.
    private static func counts(
        of reports: [HeardReport], in batch: String, _ connection: any SQLConnection
    ) throws(SQLFailure) -> [DeviceToken: Int] {
        var counts: [DeviceToken: Int] = [:]
        let tokens = Set(reports.lazy.map(\.token)).sorted().map { SQLValue.bytes($0.bytes) }
        for some in tokens.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let found = try connection.query(
                "SELECT token, COUNT(*) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token IN "
                    + "(\(placeholders(padded.count))) GROUP BY token", [.text(batch)] + padded)
            for row in 0..<found.count {
                guard let token = found.token(row, 0) else { continue }
                counts[token] = found[row, 1].count ?? 0
            }
        }
        return counts
    }

    /// Reports in the order of tokens, those about one token numbered as they came.
    private static func numbered(
        _ reports: [HeardReport], after counts: [DeviceToken: Int]
    ) -> [NumberedReport] {
        var counts = counts
        return reports.sorted { ($0.token, $1.time) < ($1.token, $0.time) }.map { report in
            let number = counts[report.token, default: 0]
            counts[report.token] = number + 1
            return NumberedReport(token: report.token, number: number, time: report.time)
        }
    }

    /// Ends the turn: the open batches wait to be judged from now on.
    ///
    /// - Returns: the turn's batches, each as the database has it.
    /// - Throws: any failure of the database; then they stay open.
    package mutating func close(in table: TokenTable) throws(StoreFailure) -> [ReportBatch] {
        let batches = Batches(table)
        var closed: [ReportBatch] = []
        for name in (left + open.values).sorted() {
            _ = try batches.change(name, to: .waiting, from: [.filling])
            if let batch = try batches.batch(name) { closed.append(batch) }
        }
        (open, left, heard) = ([:], [], [:])
        return closed.sorted { ($0.source.turn, $0.id) < ($1.source.turn, $1.id) }
    }
}

extension Batches {
    /// Lets the batches be judged that runs have filled which are certainly gone.
    ///
    /// - Returns: these batches.
    /// - Throws: any failure of the database.
    package func closeTurns(ofRuns runs: Set<String>) throws(StoreFailure) -> [ReportBatch] {
        var closed: [ReportBatch] = []
        for batch in try read(Self.ofSenders, []) where runs.contains(batch.run) {
            try end(batch)
            if let closing = try self.batch(batch.id) { closed.append(closing) }
        }
        return closed
    }

    /// Lets those batches be judged whose sender has added nothing for five minutes. A sender that lives opens
    /// another one.
    ///
    /// - Throws: any failure of the database.
    package func closeAbandonedTurns() throws(StoreFailure) {
        for batch in try abandonedTurns() { try end(batch) }
    }

    /// The batches whose sender has added nothing for five minutes.
    ///
    /// - Throws: any failure of a query.
    package func abandonedTurns() throws(StoreFailure) -> [ReportBatch] {
        try read(
            "\(Self.ofSenders) AND changed_at < \(connection.dialect.now(adding: -300))", [])
    }

    private static let ofSenders = "state = 'filling' AND inlet = 'sender' AND origin IS NULL"

    private func end(_ batch: ReportBatch) throws(StoreFailure) {
        _ = try change(batch.id, to: .waiting, from: [.filling], ", last_token = NULL")
    }
}

// Other senders report dead tokens in the table `pushsweep_evidence`. Their rows become reports of batches without
// leaving the database: one transaction locks rows, reads them, inserts batches with their reports, and deletes the
// rows. So each report is in one place, whatever is killed, and a commit whose answer was lost is decided by asking
// for one of the batches.
//
//   row --understood--> report of a batch, by app, environment and reason
//       --not understood--> part of the quarantine
//       --says nothing--> counted, and deleted
//       --names an app that these settings do not--> stays, for the host whose settings do; after a day quarantine
//       --locked by somebody--> passed over, for the next sweep
//
// Rows become visible in another order than their numbers: a transaction with a lower number may
// commit later. So no number is remembered; each sweep takes the rows that it sees.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// What one transaction took.
package struct TakenRows {
    /// The batches, whole and waiting, each with its evidence in the order of tokens.
    package private(set) var batches: [(batch: ReportBatch, evidence: [TokenEvidence])] = []
    /// The taken rows by what they mean.
    package private(set) var counts = ReportCounts()
    /// Rows that wait for a host whose settings name their app.
    package private(set) var left = LeftRows()
    /// Rows that were looked at, and the number of the last of them.
    package fileprivate(set) var seen = 0
    package fileprivate(set) var last: Int64?
    /// The numbers of the rows that are taken.
    fileprivate private(set) var taken: [Int64] = []
    /// The reports of each batch, in order.
    fileprivate private(set) var reports: [[NumberedReport]] = []
    /// What cannot be used, and its batch.
    fileprivate private(set) var parts: [QuarantinedPart] = []
    fileprivate private(set) var quarantine: ReportBatch?

    /// What the reports of one batch have in common.
    private struct Key: Hashable {
        let partition: Partition
        let source: EvidenceSource
        /// The first no of a person that came after them.
        var refusal: EpochMilliseconds?
    }

    /// When the first row of those was heard.
    private var first: [Key: EpochMilliseconds] = [:]
    private var heard: [Key: [(token: DeviceToken, time: EpochMilliseconds)]] = [:]
    /// What APNs accepted. Only what it called bad, in these rows or before, is of use.
    private var accepted: [Partition: [(token: DeviceToken, time: EpochMilliseconds)]] = [:]

    /// The tokens that APNs accepted, in order.
    fileprivate var acceptedTokens: [DeviceToken] {
        Set(accepted.values.joined().map(\.token)).sorted()
    }

    /// Keeps what was accepted of tokens that are suspected, or called bad by these rows.
    fileprivate mutating func keepAccepted(_ suspected: Set<DeviceToken>) {
        for (partition, list) in accepted {
            let bad = heard.filter {
                $0.key.source.isSuspicion
                    && ($0.key.partition == partition || $0.key.partition == partition.elsewhere)
            }
            let wanted = bad.values.reduce(into: suspected) {
                $0.formUnion($1.map(\.token))
            }
            let kept = list.filter { wanted.contains($0.token) }
            if !kept.isEmpty { heard[Key(partition: partition, source: .accepted)] = kept }
        }
        accepted = [:]
    }

    fileprivate mutating func add(
        _ row: EvidenceRow, _ terms: IntakeTerms, _ now: EpochMilliseconds
    ) {
        let (app, reading): (Partition, Result<ReportReading, Refusal>)
        switch terms.fate(of: row, at: now) {
        case .left(let unnamed): return left.add(unnamed)
        case .taken(let named, let read): (app, reading) = (named, read)
        }
        taken.append(row.id)
        counts.reports += 1
        do throws(Refusal) {
            switch try reading.get() {
            case .nothing: counts.other += 1
            case .accepted(let token, let time):
                counts.other += 1
                accepted[app, default: []].append((token, time))
            case .otherPlatform: counts.otherPlatform += 1
            case .unknownReason: counts.unknownReasons += 1
            case .suspect(let token, let source, let time):
                counts.suspects += 1
                // What no row can have is counted and no more.
                guard let token else { return }
                heard[Key(partition: app, source: source), default: []].append((token, time))
            case .evidence(let token, let source, let time):
                counts.evidence += 1
                let key = Key(
                    partition: app, source: source, refusal: terms.refusal(after: row))
                heard[key, default: []].append((token, time))
                let at = min(row.heard ?? now, now)
                first[key] = min(first[key] ?? at, at)
            }
        } catch {
            counts.quarantined += 1
            parts.append(
                QuarantinedPart(
                    place: Int(row.id), bytes: Array(row.line.utf8), reason: "\(error)",
                    token: row.token))
        }
    }

    /// Forms the batches of what was heard.
    fileprivate mutating func form(_ terms: IntakeTerms, at now: EpochMilliseconds) {
        func batch(
            _ partition: Partition, _ source: EvidenceSource, _ heard: EpochMilliseconds? = nil
        ) -> ReportBatch {
            var batch = ReportBatch(
                id: terms.name(), run: terms.run, partition, source, .table,
                label: PushsweepTable.evidence.name, host: terms.host, opened: now)
            batch.heard = heard
            return batch
        }
        let ordered = heard.sorted {
            ($0.key.source.turn, "\($0.key)") < ($1.key.source.turn, "\($1.key)")
        }
        for (key, list) in ordered {
            let sorted = list.sorted { ($0.token, $1.time) < ($1.token, $0.time) }
            var (numbered, evidence) = ([NumberedReport](), [TokenEvidence]())
            for item in sorted {
                let isSame = numbered.last?.token == item.token
                let number = isSame ? (numbered.last?.number ?? 0) + 1 : 0
                numbered.append(NumberedReport(token: item.token, number: number, time: item.time))
                if isSame, let last = evidence.popLast() {
                    evidence.append(
                        TokenEvidence(
                            token: last.token, time: last.time, statements: last.statements + 1))
                } else {
                    evidence.append(TokenEvidence(token: item.token, time: item.time))
                }
            }
            var batch = batch(key.partition, key.source, first[key])
            batch.reports = numbered.count
            batches.append((batch, evidence))
            reports.append(numbered)
        }
        heard = [:]
        guard !parts.isEmpty else { return }
        var unusable = batch(.noApp, .unusable)
        unusable.quarantined = parts.count
        quarantine = unusable
    }
}

extension EvidenceIntake {
    /// Takes the first rows, or the next ones behind a number, at most `limit`; nil where none is left there.
    ///
    /// - Throws: any failure, and then nothing is taken. One that `isOfSize` where the server refuses a
    ///   transaction with so many rows. Of a lost answer to the commit it is known what became of it, unless the
    ///   database does not come back.
    package func take(
        _ terms: IntakeTerms, after start: Int64?, limit: Int, at now: EpochMilliseconds
    ) throws(StoreFailure) -> TakenRows? {
        let doing = "taking rows out of pushsweep_evidence"
        var taken = TakenRows()
        do {
            var ids = try numbers(after: start, upTo: terms.end, atMost: limit)
            guard !ids.isEmpty else { return nil }
            let lock = try lockOfRows()
            try connection.begin()
            while let last = ids.last {
                taken.seen += ids.count
                taken.last = last
                for some in ids.runs(of: StatementShape.longest) {
                    let before = taken.taken.count
                    let found = try self.lock(some, lock)
                    for row in found { taken.add(row, terms, now) }
                    // A search by several numbers may look at rows between them, and wait for a locked one.
                    let most = found.count == some.count ? StatementShape.longest : 1
                    for some in taken.taken[before...].sorted().runs(of: most) { try delete(some) }
                }
                let isLast = ids.count < Self.numbersAtOnce || taken.seen >= limit
                ids =
                    isLast
                    ? [] : try numbers(after: last, upTo: terms.end, atMost: limit - taken.seen)
            }
            taken.keepAccepted(try Suspects.known(among: taken.acceptedTokens, on: connection))
            taken.form(terms, at: now)
            try insert(taken)
            try terms.lease?.renew(connection)
        } catch {
            connection.rollBack()
            throw StoreFailure(error, while: doing)
        }
        do {
            try connection.commit()
        } catch {
            connection.rollBack()
            guard try wasTaken(taken, doing) else { throw StoreFailure(error, while: doing) }
        }
        return taken
    }

    /// Whether a transaction was committed whose answer was lost. Of one that heard nothing against a token
    /// nothing depends on it.
    private func wasTaken(_ taken: TakenRows, _ doing: String) throws(StoreFailure) -> Bool {
        guard let name = taken.batches.first?.batch.id ?? taken.quarantine?.id else { return false }
        return try session.retries.retrying(doing) { () throws(SQLFailure) in
            try BatchRow(connection: connection).read(name, locking: false) != nil
        }
    }

    /// The numbers that are looked up by one statement.
    private static var numbersAtOnce: Int { 5 * StatementShape.longest }

    /// Numbers of the first rows, or of those behind one, as far as one statement looks. They are not locked: that would wait
    /// for a sender whose transaction is open.
    private func numbers(
        after id: Int64?, upTo end: Int64, atMost limit: Int
    ) throws(SQLFailure) -> [Int64] {
        let found = try connection.query(
            "SELECT id FROM pushsweep_evidence\(Self.behind(id).sql) ORDER BY id LIMIT "
                + "\(min(limit, Self.numbersAtOnce))", Self.behind(id).values)
        // A bound in the statement would make of one plan two.
        return (0..<found.count).compactMap { found[$0, 0].integer }.filter { $0 <= end }
    }

    /// The end of a SELECT that locks rows and passes over those that somebody else has locked. MariaDB knows it
    /// from 10.6 on, MySQL from 8.0; an older server waits.
    private func lockOfRows() throws(SQLFailure) -> String {
        let dialect = connection.dialect
        guard dialect.engine == .mariaDB else { return dialect.rowLock }
        let passing = dialect.rowLock + " SKIP LOCKED"
        do throws(SQLFailure) {
            _ = try connection.query("SELECT id FROM pushsweep_evidence WHERE 1 = 0" + passing)
            return passing
        } catch {
            // ER_PARSE_ERROR
            guard error.code == 1_064 else { throw error }
            return dialect.rowLock
        }
    }

    /// Locks and reads the rows with some numbers.
    private func lock(_ ids: ArraySlice<Int64>, _ lock: String) throws(SQLFailure) -> [EvidenceRow]
    {
        let which = StatementShape.naming("id", ids)
        return try rows(
            connection.query(
                "SELECT \(Self.columns) FROM pushsweep_evidence\(keyHint) WHERE \(which.sql)"
                    + lock, which.values))
    }

    /// Deletes rows that were locked and read.
    private func delete(_ ids: ArraySlice<Int64>) throws(SQLFailure) {
        let which = StatementShape.naming("id", ids)
        let deletion = connection.dialect.deletion(PushsweepTable.evidence.name, keyHint)
        let sql = deletion.sql + which.sql
        let deleted =
            deletion.isJoin
            ? try connection.executeJoin(sql, which.values)
            : try connection.execute(sql, which.values)
        // However weak the locks of a server or of what stands before it are, no row counts twice.
        guard deleted == ids.count else {
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "\(ids.count) rows were locked and \(deleted) deleted")
        }
    }

    /// Without it a server reads a small table whole, and waits for rows that are not named.
    private var keyHint: String { connection.dialect.indexHint("PRIMARY") }

    /// Inserts the batches with their reports, and what cannot be used.
    private func insert(_ taken: TakenRows) throws(SQLFailure) {
        let (row, rows) = (BatchRow(connection: connection), ReportRows(connection: connection))
        for ((batch, _), reports) in zip(taken.batches, taken.reports) {
            try row.insert(batch, batch.reports, nil, isLast: true)
            try rows.insert(reports[...], into: batch.id)
        }
        guard let batch = taken.quarantine else { return }
        try row.insert(batch, 0, nil, isLast: true)
        try Quarantine.insert(taken.parts, of: batch.id, on: connection)
    }
}

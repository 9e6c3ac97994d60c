// Reports enter the database in transactions that also say how far they came:
//
//   no row --first reports--> filling --more--> filling --last reports--> waiting, or held
//   no row --first bytes of a gateway in the journal of a host--> filling, without reports, so that all hosts know
//
// A small batch takes one transaction and is whole from its first moment. A run that was killed in between
// is followed by another one with the same source, which reads the number of reports and the last token from
// the batch's row and goes on behind them. A commit whose answer was lost is decided by the same row. Nobody
// judges a batch before its last report is in.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Inserts the reports of one batch.
struct BatchFilling {
    let batch: ReportBatch
    let table: TokenTable
    let lease: Lease?
    /// Whether the batch is left in `filling` at its end, because the caller lets it be judged with others.
    let staysOpen: Bool

    /// Reports that were read and are not yet inserted.
    private var waiting: [NumberedReport] = []
    private var isEnded = false

    private var connection: any SQLConnection { table.connection }
    private var row: BatchRow { BatchRow(connection: connection) }

    init(_ batch: ReportBatch, _ table: TokenTable, _ lease: Lease?, staysOpen: Bool) {
        (self.batch, self.table, self.lease) = (batch, table, lease)
        self.staysOpen = staysOpen
    }

    /// How far the batch is filled.
    private struct Place: Equatable {
        var reports = 0
        var isWhole = false
    }

    /// Inserts what is not in the database yet. `source` makes the reports behind a token and number.
    ///
    /// - Returns: false where it was stopped early.
    mutating func run<Source: ReportSource>(
        shouldStop: () -> Bool, report: (Int) -> Void,
        _ source: ((token: DeviceToken, number: Int)?) throws -> Source
    ) throws(StoreFailure) -> Bool {
        let (start, last) = try begun()
        guard !start.isWhole else { return true }
        var stream = try reading { try source(last) }
        var loop = table.session.chunkLoop()
        return try loop.run(
            from: start, isDone: \.isWhole, shouldStop: shouldStop, report: { report($0.reports) }
        ) { (loop, place) throws(StoreFailure) in
            while !isEnded && waiting.count <= loop.size {
                let some = try reading { try stream.next(StatementShape.longest) }
                if some.count < StatementShape.longest { isEnded = true }
                waiting += some
            }
            let next = try loop.commit(
                after: place, doing: "inserting the reports of batch \(batch.id)",
                checkpointOf: "batch \(batch.id)"
            ) { (size) throws(SQLFailure) in
                try commit(waiting.prefix(size), after: place)
            } checkpoint: { () throws(SQLFailure) in
                try self.place()
            }
            guard next.reports >= place.reports else {
                throw StoreFailure(
                    .commitUnknown,
                    "inserting the reports of batch \(batch.id): the database is behind what it had confirmed, as "
                        + "on a server that took over without the last commits; run again, which continues there"
                )
            }
            waiting.removeFirst(min(waiting.count, next.reports - place.reports))
            return next
        }.isWhole
    }

    private func reading<Value>(_ body: () throws -> Value) throws(StoreFailure) -> Value {
        do {
            return try body()
        } catch {
            throw StoreFailure(
                .evidence, "reading the reports of batch \(batch.id): \(error); run again")
        }
    }

    private func place() throws(SQLFailure) -> Place {
        guard let found = try row.read(batch.id, locking: false) else { return Place() }
        return Place(reports: found.reports, isWhole: found.state != .filling)
    }

    /// How far an earlier run came, and the last report that it inserted.
    private func begun() throws(StoreFailure) -> (Place, last: (token: DeviceToken, number: Int)?) {
        try table.retries.retrying("looking for batch \(batch.id)") { () throws(SQLFailure) in
            let place = try place()
            guard !place.isWhole, let token = try row.read(batch.id, locking: false)?.last else {
                return (place, nil)
            }
            let number = try connection.query(
                "SELECT MAX(number) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token = ?",
                [.text(batch.id), .bytes(token.bytes)])
            return (place, (token, number.scalar?.count ?? 0))
        }
    }

    private func commit(
        _ reports: ArraySlice<NumberedReport>, after place: Place
    ) throws(SQLFailure) -> ChunkOutcome<Place> {
        let isLast = isEnded && reports.count == waiting.count
        let next = Place(reports: place.reports + reports.count, isWhole: isLast)
        let last = isLast ? nil : reports.last?.token
        try connection.begin()
        let found = try row.read(batch.id, locking: true)
        guard found?.reports ?? 0 == place.reports, found?.state ?? .filling == .filling else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the batch is not as this run left it")
        }
        if found == nil {
            try row.insert(batch, next.reports, last, isLast: isLast && !staysOpen)
        } else {
            try row.move(batch, to: next.reports, last, isLast: isLast && !staysOpen)
            // The row was made before anything of the batch was known.
            if place.reports == 0 { try row.describe(batch) }
        }
        try ReportRows(connection: connection).insert(reports, into: batch.id)
        try lease?.renew(connection)
        try connection.commit()
        return .committed(next, entries: reports.count, bytes: 0)
    }
}

/// Inserts rows of `pushsweep_report`. Each statement has one of a few lengths.
struct ReportRows {
    /// A report with what became of it.
    struct Decided {
        let report: NumberedReport
        let state: ReportState
        let refusal: RowRefusal?
    }

    let connection: any SQLConnection

    /// Inserts reports that nobody has decided, in order.
    func insert(_ reports: ArraySlice<NumberedReport>, into batch: String) throws(SQLFailure) {
        guard !reports.isEmpty else { return }
        let number = try BatchRow(connection: connection).number(of: batch)
        try insert(reports, into: number, ", changed_at", "?", \.self) { time, report, values in
            values.append(time.value(report.time))
        }
    }

    /// Inserts decided reports, in order.
    func insert(_ reports: ArraySlice<Decided>, into batch: Int64) throws(SQLFailure) {
        let row = "?, ?, \(connection.dialect.now)"
        try insert(reports, into: batch, ", state, refusal, changed_at", row, \.report) {
            _, decided, values in
            values.append(.integer(Int64(decided.state.rawValue)))
            values.append(decided.refusal.map { .text($0.rawValue) } ?? .null)
        }
    }

    private func insert<Item>(
        _ reports: ArraySlice<Item>, into batch: Int64, _ columns: String, _ row: String,
        _ report: (Item) -> NumberedReport,
        _ append: (TimeColumn, Item, inout [SQLValue]) -> Void
    ) throws(SQLFailure) {
        let time = connection.dialect.ownTime("evidence_at")
        let most = connection.dialect.changesRowsInBatches ? StatementShape.longest : 200
        let lengths = [most] + StatementShape.wholeLengths.dropFirst()
        var rest = reports
        var values: [SQLValue] = []
        while let length = lengths.first(where: { $0 <= rest.count }) {
            values.removeAll(keepingCapacity: true)
            for item in rest.prefix(length) {
                let report = report(item)
                values.append(.integer(batch))
                values.append(.bytes(report.token.bytes))
                values.append(.integer(Int64(report.number)))
                values.append(time.value(report.time))
                append(time, item, &values)
            }
            _ = try connection.execute(
                "INSERT INTO pushsweep_report (batch, token, number, evidence_at\(columns)) VALUES "
                    + commaList("(?, ?, ?, ?, \(row))", length), values)
            rest = rest.dropFirst(length)
        }
    }
}

extension TokenTable {
    /// Makes the row of a batch of which no report is in the database yet, or tells in it what is known of the batch.
    ///
    /// - Throws: any failure of the database.
    package func begin(_ batch: ReportBatch) throws(StoreFailure) {
        let row = BatchRow(connection: connection)
        try retries.retrying("making batch \(batch.id)") { () throws(SQLFailure) in
            // It may have been made when the list was heard, and the answer to an earlier try may have been lost.
            guard let known = try row.read(batch.id, locking: false) else {
                return try row.insert(batch, 0, nil, isLast: false)
            }
            if known.state == .filling, known.reports == 0 { try row.describe(batch) }
        }
    }

    /// Makes the row of a batch of which this host has bytes and the database nothing yet. One try, since a gateway
    /// that is being read does not wait; false where it failed.
    package func announce(_ batch: ReportBatch) -> Bool {
        do {
            try BatchRow(connection: connection).insert(batch, 0, nil, isLast: false)
            return true
        } catch {
            connection.rollBack()
            return false
        }
    }

    /// Inserts the reports of a batch, from where an earlier run stopped. `source` makes the reports behind
    /// a token and number; `report` receives how many are in. A batch that is whole is left alone; one that
    /// `staysOpen` is in `filling` afterwards.
    ///
    /// - Returns: false where `shouldStop` ended it early.
    /// - Throws: `evidence` where the source fails; any failure of the database. What is in stays.
    package func fill<Source: ReportSource>(
        _ batch: ReportBatch, lease: Lease? = nil, staysOpen: Bool = false,
        shouldStop: () -> Bool = { false },
        report: (Int) -> Void = { _ in },
        from source: ((token: DeviceToken, number: Int)?) throws -> Source
    ) throws(StoreFailure) -> Bool {
        var filling = BatchFilling(batch, self, lease, staysOpen: staysOpen)
        return try filling.run(shouldStop: shouldStop, report: report, source)
    }
}

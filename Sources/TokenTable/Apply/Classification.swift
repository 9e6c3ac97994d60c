import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Judges the rows found for the evidence of one chunk. A pure computation between reading and
/// writing, the same for classification and application.
struct ClassifiedChunk {
    /// What the verdicts follow from, besides the evidence and the rows.
    struct Terms {
        let layout: TableLayout
        let policy: RemovalPolicy
        /// The source of the evidence, stored with marks; nil where none are set.
        var source: EvidenceSource?
        /// The time since which registrations are counted; nil for none.
        var since: EpochMilliseconds?
        /// The grace period whose end the evidence is; nil for any other.
        var grace: GracePeriod?
        /// What has read the rows; the grace period asks it for their names and reasons.
        var lookup: RowLookup?
        /// When the evidence was heard; nil where nothing is asked about what persons said no to.
        var hearing: Hearing?
        /// What persons said no to about the tokens of the evidence.
        var spared: [DeviceToken: SparedToken] = [:]

        /// What evidence of a time does to a row.
        fileprivate func verdict(
            on row: MatchedRow, _ token: DeviceToken, dead time: EpochMilliseconds,
            _ tokenMark: TokenMark?
        ) -> Verdict {
            let registered = row.judged(markedAt: tokenMark?.time)
            guard let grace, let lookup else {
                return policy.verdict(on: registered, dead: time)
            }
            let mark = layout.mark == nil ? RowImage.key([.bytes(token.bytes)]) : nil
            return grace.isDue(registered, time, lookup.name(of: row), mark: mark)
                ? .delete : .newer
        }

        /// The reason of the mark with which a row goes, which the ledger has in place of the batch's source; nil for
        /// other changes.
        fileprivate func reason(of row: MatchedRow, _ tokenMark: TokenMark?) -> String? {
            guard grace != nil, let lookup else { return nil }
            let reason = lookup.reason.flatMap { row[$0].text } ?? tokenMark?.reason
            return reason.map { String($0.prefix(64)) } ?? "unknown"
        }

        /// Whether a change of a token's row gives way to what a person said.
        fileprivate func spares(_ token: DeviceToken, _ time: EpochMilliseconds) -> Bool {
            guard let hearing, let note = spared[token] else { return false }
            return note.spares(time, heard: hearing)
        }

        /// Why a row with a token stays against a verdict; nil where it does not.
        fileprivate func refusal(
            of row: MatchedRow, _ verdict: Verdict, _ time: EpochMilliseconds,
            _ isExact: (MatchedRow) -> Bool
        ) -> RefusedRow? {
            if let reason = row.obstacle {
                return RefusedRow(row: row, reason: reason, time: time)
            }
            return verdict == .delete && !isExact(row)
                ? RefusedRow(row: row, reason: .inexact, time: time) : nil
        }
    }

    /// The tokens about which a person said no.
    let noted: Set<DeviceToken>
    private let isOfGrace: Bool
    private(set) var counts = Counts()
    /// The changes that follow. Refused rows are those that cannot be judged and, after writing,
    /// those that refused the change.
    private(set) var changes = ChangeSet()
    /// The number of living rows that would become invalid.
    private(set) var invalidated = 0
    /// The number of rows without a registration time, among all rows found.
    private(set) var undated = 0
    /// The rows that would become invalid by the week of their registration, which is counted from 1970; where
    /// `Terms.since` is given.
    private(set) var weeks: [Int64?: Int] = [:]
    /// The number of rows that registered since `Terms.since`, among all rows found.
    private(set) var registeredSince = 0
    /// Statements that would have changed a row and gave way to a person's no; they count as newer.
    private(set) var spared = 0
    /// What became of each entry of the evidence, by its place.
    private(set) var outcomes: [Int: ReportState] = [:]
    /// The counted outcomes of each entry of the evidence, by its place.
    private var counted: [Int: Counts] = [:]
    /// The tokens of the evidence by its place, where rows and `pushsweep_invalid` both change.
    private var tokens: [Int: DeviceToken] = [:]

    /// Judges rows, which are in the order of the evidence. `marks` are those of the side table,
    /// used where the token table has no mark column. `isExact` decides for a row that is to be
    /// removed whether it could be restored.
    init(
        _ evidence: ArraySlice<TokenEvidence>, _ rows: [MatchedRow],
        marks: [DeviceToken: TokenMark], by terms: Terms,
        isExact: (MatchedRow) -> Bool = { _ in true }
    ) {
        let (layout, policy) = (terms.layout, terms.policy)
        isOfGrace = terms.grace != nil
        noted = Set(terms.spared.keys)
        var next = rows.startIndex
        var verdicts: [Verdict] = []
        for index in evidence.indices {
            let item = evidence[index]
            // The end of a grace period has the mark as it is stored.
            let time = isOfGrace ? item.time : layout.floor(item.time)
            let tokenMark = layout.mark == nil ? marks[item.token] : nil
            var needsTokenMark = false
            let refusedBefore = changes.refused.count
            let changesBefore = changes.rows.count
            var (isSpared, staysStale) = (false, false)
            verdicts.removeAll(keepingCapacity: true)
            while next < rows.endIndex, rows[next].evidence == index {
                let row = rows[next]
                next += 1
                let verdict = terms.verdict(on: row, item.token, dead: time, tokenMark)
                // A row goes by its own mark.
                let reason = isOfGrace ? row.mark ?? tokenMark?.time ?? time : time
                if verdict.changesRow, terms.spares(item.token, reason) {
                    (isSpared, staysStale) = (true, true)
                    verdicts.append(.newer)
                    continue
                }
                if !isOfGrace || verdict == .delete,
                    let refusal = terms.refusal(of: row, verdict, time, isExact)
                {
                    changes.refused.append(refusal)
                    staysStale = true
                    continue
                }
                verdicts.append(verdict)
                if verdict != .delete, row.judged(markedAt: tokenMark?.time).isStale {
                    staysStale = true
                }
                if verdict.removes { invalidated += 1 }
                if let since = terms.since { note(row.registeredAt, since, verdict) }
                if policy.order(of: row.registeredAt, to: time) == .unknown { undated += 1 }
                let isInRow = layout.mark != nil || layout.living != nil && verdict == .mark
                if !verdict.setsMark && verdict.changesRow || verdict.setsMark && isInRow {
                    changes.rows.append(
                        RowChange(
                            verdict: verdict, row: row, time: reason,
                            source: terms.reason(of: row, tokenMark)))
                }
                if verdict.setsMark && layout.mark == nil {
                    needsTokenMark = true
                }
            }
            if needsTokenMark, tokenMark.map({ $0.time < time }) ?? true {
                changes.tokenMarks.append(
                    TokenMarkChange(
                        token: item.token, former: tokenMark,
                        mark: TokenMark(time: time, reason: terms.source?.rawValue)))
            }
            // A mark left behind would make a returning device stale where no registration time exists.
            if isOfGrace, let tokenMark, !staysStale, verdicts.contains(.delete) {
                changes.tokenMarks.append(
                    TokenMarkChange(token: item.token, former: tokenMark, mark: nil))
            }
            var one = Counts()
            if changes.refused.count > refusedBefore {
                one.refused = item.statements
            } else {
                one.count(item, verdicts: verdicts)
            }
            counts += one
            if isSpared { spared += one.newer }
            outcomes[index] = isSpared && one.state == .newer ? .spared : one.state
            if changes.rows.count > changesBefore { counted[index] = one }
            if layout.living != nil || isOfGrace { tokens[index] = item.token }
        }
    }

    private mutating func note(
        _ registered: EpochMilliseconds?, _ since: EpochMilliseconds, _ verdict: Verdict
    ) {
        if let registered, registered >= since { registeredSince += 1 }
        if verdict.removes { weeks[registered?.week, default: 0] += 1 }
    }

    /// Moves changes that the database refused, by their place, to the refused rows. A statement of
    /// the evidence counts as refused when one of its rows is.
    mutating func refuse(at places: [Int: RowRefusal]) {
        let refused = changes.refuse(at: places)
        if !tokens.isEmpty {
            // A time without a row that is dead would tell the opposite of the row.
            // A mark that goes with its rows stays with any of them.
            let kept = isOfGrace ? [] : Set(changes.rows.map(\.row.evidence))
            let dropped = Set(refused.map(\.row.evidence)).subtracting(kept)
            let without = Set(dropped.compactMap { tokens[$0] })
            changes.tokenMarks.removeAll { without.contains($0.token) }
        }
        for change in refused {
            if change.verdict.removes { invalidated -= 1 }
            if let one = counted[change.row.evidence] {
                counts -= one
                let refused = Counts(refused: one.total)
                counts += refused
                counted[change.row.evidence] = refused
                outcomes[change.row.evidence] = .refused
            }
        }
    }
}

extension EpochMilliseconds {
    /// The number of the week, counted from 1970.
    package var week: Int64 { Int64((Double(rawValue) / 604_800_000).rounded(.down)) }
}

extension Counts {
    /// The outcome of the latest statement about one token.
    fileprivate var state: ReportState {
        if refused > 0 { return .refused }
        if applied > 0 { return .applied }
        return already > 0 ? .already : newer > 0 ? .newer : .unknown
    }
}

/// The changes that a feed would make to the rows of a partition, determined without changing or
/// locking any.
package struct Classification: Hashable, Sendable {
    /// The outcomes that the statements would have.
    package var counts = Counts()
    /// The number of living rows that would become invalid; the guard limits it.
    package var candidateRows = 0
    /// The number of rows without a registration time.
    package var undatedRows = 0
    /// The rows that would become invalid by the week of their registration, which is counted from 1970; nil for
    /// rows without one. Empty unless a time was given since which registrations are counted.
    package var weeks: [Int64?: Int] = [:]
    /// The number of rows that registered since that time.
    package var registeredSince = 0
    /// Statements that count as newer because a person said no to them.
    package var spared = 0
    /// Statements about unknown tokens of which earlier batches said as much; where that was asked.
    package var repeated = 0
    /// Whether the evidence was read to its end.
    package var isComplete = false

    /// The most tokens that are read in one transaction. A node of a Galera cluster waits for the others
    /// at the start of each, so four lists share it. They usually take some tens of milliseconds, on shards
    /// more.
    static let batch = 4 * StatementShape.longest

    /// Starts with all counts at 0.
    package init(isComplete: Bool = false) { self.isComplete = isComplete }

    /// Adds the outcomes of a chunk.
    static func += (left: inout Classification, chunk: ClassifiedChunk) {
        left.counts += chunk.counts
        left.candidateRows += chunk.invalidated
        left.undatedRows += chunk.undated
        left.registeredSince += chunk.registeredSince
        left.spared += chunk.spared
        left.weeks.merge(chunk.weeks, uniquingKeysWith: +)
    }

    /// Adds the reading of a batch.
    static func += (left: inout Classification, right: Classification) {
        left.counts += right.counts
        left.candidateRows += right.candidateRows
        left.undatedRows += right.undatedRows
        left.registeredSince += right.registeredSince
        left.spared += right.spared
        left.repeated += right.repeated
        left.weeks.merge(right.weeks, uniquingKeysWith: +)
    }
}

extension TokenTable {
    /// Classifies evidence against the rows of a partition. Reads only and locks nothing.
    /// `shouldStop` is called between batches; `report` receives the counts so far. With `since` the registrations
    /// are counted too, and with the name of the `repeating` batch what it repeats of earlier ones.
    ///
    /// - Throws: any failure of reading.
    package func classify(
        _ evidence: inout some EvidenceStream, in partition: Partition, policy: RemovalPolicy,
        hearing: Hearing? = nil, grace: GracePeriod? = nil, repeating batch: String? = nil,
        since: EpochMilliseconds? = nil, shouldStop: () -> Bool = { false },
        report: (Classification) -> Void = { _ in }
    ) throws(StoreFailure) -> Classification {
        var terms = ClassifiedChunk.Terms(layout: try layout(), policy: policy, since: since)
        (terms.hearing, terms.grace) = (hearing, grace)
        let notes = SparedTokens(connection: connection)
        let repeated = batch.map { RepeatedReports(batch: $0, connection: connection) }
        let lookup = try RowLookup(terms.layout, connection, partition, wholeRows: false)
        terms.lookup = lookup
        let readsTokenMarks = terms.layout.mark == nil ? try canReadTokenMarks() : false
        let tokenMarks =
            readsTokenMarks
            ? InvalidTokenTable(partition: partition, connection: connection) : nil
        var result = Classification()
        while !shouldStop() {
            guard try session.waitForThrottle(shouldStop: shouldStop) else { break }
            let some: [TokenEvidence]
            do {
                some = try evidence.next(Classification.batch)
            } catch {
                throw StoreFailure(.evidence, "reading evidence: \(error); run again")
            }
            if some.isEmpty {
                result.isComplete = true
                break
            }
            result += try retries.retrying("reading rows of \(terms.layout.table)") {
                () throws(SQLFailure) in
                try connection.reading { () throws(SQLFailure) in
                    var share = Classification()
                    // The rows of one list at a time are in memory.
                    for list in some.runs(of: StatementShape.longest) {
                        let rows = try lookup.rows(for: list, locking: false).rows
                        let marks = try tokenMarks?.marks(of: rows, in: list, locking: false)
                        if hearing != nil {
                            terms.spared = try notes.notes(on: list, of: rows.lazy.map(\.evidence))
                        }
                        let chunk = ClassifiedChunk(list, rows, marks: marks ?? [:], by: terms)
                        share += chunk
                        guard let repeated else { continue }
                        share.repeated += try repeated.count(
                            of: list.indices.filter { chunk.outcomes[$0] == .unknown }.map {
                                list[$0]
                            })
                    }
                    return share
                }
            }
            report(result)
        }
        return result
    }
}

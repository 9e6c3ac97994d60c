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
            if grace != nil { return note.sparesMark(of: time, heard: hearing) }
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
    /// The tokens of the evidence by its place, where marks beside the rows go with them.
    private var tokens: [Int: DeviceToken] = [:]

    /// Judges rows, which are in the order of the evidence. `marks` are those of the side table,
    /// used where the token table has no mark column. `isExact` decides for a row that is to be
    /// removed whether it could be restored.
    init(
        _ evidence: ArraySlice<TokenEvidence>, _ rows: [MatchedRow],
        marks: [DeviceToken: TokenMark], by terms: Terms,
        isExact: (MatchedRow) -> Bool = { _ in true }
    ) {
        isOfGrace = terms.grace != nil
        noted = Set(terms.spared.keys)
        var next = rows.startIndex
        for index in evidence.indices {
            let first = next
            while next < rows.endIndex, rows[next].evidence == index { next += 1 }
            judge(evidence[index], index, rows[first..<next], marks, terms, isExact)
        }
    }

    /// What became of the rows of one token.
    private struct Judged {
        let item: TokenEvidence
        /// The time of the evidence as a mark has it. The end of a grace period has the mark as it is stored.
        let time: EpochMilliseconds
        /// The mark beside the table.
        let tokenMark: TokenMark?
        var verdicts: [Verdict] = []
        var isSpared = false
        var isRefused = false
        /// Whether a row is left.
        var leavesRow = false
    }

    private mutating func judge(
        _ item: TokenEvidence, _ index: Int, _ rows: ArraySlice<MatchedRow>,
        _ marks: [DeviceToken: TokenMark], _ terms: Terms, _ isExact: (MatchedRow) -> Bool
    ) {
        let layout = terms.layout
        var judged = Judged(
            item: item, time: isOfGrace ? item.time : layout.floor(item.time),
            tokenMark: layout.mark == nil ? marks[item.token] : nil)
        let changesBefore = changes.rows.count
        for row in rows { judge(row, &judged, terms, isExact) }
        changeTokenMark(judged, terms, changes.rows.indices.dropFirst(changesBefore))
        var one = Counts()
        if judged.isRefused {
            one.refused = item.statements
        } else {
            one.count(item, verdicts: judged.verdicts)
        }
        counts += one
        if judged.isSpared { spared += one.newer }
        outcomes[index] = judged.isSpared && one.state == .newer ? .spared : one.state
        if changes.rows.count > changesBefore { counted[index] = one }
        if isOfGrace { tokens[index] = item.token }
    }

    private mutating func judge(
        _ row: MatchedRow, _ judged: inout Judged, _ terms: Terms, _ isExact: (MatchedRow) -> Bool
    ) {
        let (layout, time, tokenMark) = (terms.layout, judged.time, judged.tokenMark)
        let verdict = terms.verdict(on: row, judged.item.token, dead: time, tokenMark)
        // After a grace period a row goes by its own mark.
        let reason = isOfGrace ? row.mark ?? tokenMark?.time ?? time : time
        if verdict.changesRow, terms.spares(judged.item.token, reason) {
            (judged.isSpared, judged.leavesRow) = (true, true)
            return judged.verdicts.append(.newer)
        }
        if !isOfGrace || verdict == .delete,
            let refusal = terms.refusal(of: row, verdict, time, isExact)
        {
            (judged.isRefused, judged.leavesRow) = (true, true)
            return changes.refused.append(refusal)
        }
        judged.verdicts.append(verdict)
        if verdict != .delete { judged.leavesRow = true }
        if verdict.removes { invalidated += 1 }
        if let since = terms.since { note(row.registeredAt, since, verdict) }
        if terms.policy.order(of: row.registeredAt, to: time) == .unknown { undated += 1 }
        let isInRow = layout.mark != nil || layout.living != nil && verdict == .mark
        if !verdict.setsMark && verdict.changesRow || verdict.setsMark && isInRow {
            changes.rows.append(
                RowChange(
                    verdict: verdict, row: row, time: reason,
                    source: terms.reason(of: row, tokenMark)))
        }
    }

    /// Sets or moves the mark beside the table, or takes it away with the rows of its token. `rows` are the changes of
    /// these rows. A time without a row that is dead would tell the opposite of the row, so it goes with them.
    private mutating func changeTokenMark(
        _ judged: Judged, _ terms: Terms, _ rows: some Collection<Int>
    ) {
        guard terms.layout.mark == nil else { return }
        let (token, former, time) = (judged.item.token, judged.tokenMark, judged.time)
        if judged.verdicts.contains(where: \.setsMark), former.map({ $0.time < time }) ?? true {
            let change = TokenMarkChange(
                token: token, former: former,
                mark: TokenMark(time: time, reason: terms.source?.rawValue))
            let marked = rows.filter {
                changes.rows[$0].verdict == .mark && terms.layout.living != nil
            }
            if marked.isEmpty { changes.tokenMarks.append(change) }
            for row in marked { changes.rows[row].beside = change }
        }
        // A mark left behind by the last row would make a returning device stale where no registration time exists.
        if isOfGrace, let former, !judged.leavesRow, judged.verdicts.contains(.delete) {
            changes.tokenMarks.append(TokenMarkChange(token: token, former: former, mark: nil))
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
            // A mark that goes with its rows stays with any of them.
            let without = Set(refused.compactMap { tokens[$0.row.evidence] })
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

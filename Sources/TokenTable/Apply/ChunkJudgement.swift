import APNsProtocol
import Database
import TokenHygiene

/// A change to one row.
struct RowChange {
    /// `mark`, `advance` or `delete`.
    let verdict: Verdict
    /// The row as it was read.
    let row: MatchedRow
    /// The time of the mark to set.
    let time: EpochMilliseconds
}

/// A mark to set in the side table `pushsweep_invalid`.
struct SideMark {
    let token: DeviceToken
    /// The time of the mark to set.
    let time: EpochMilliseconds
    /// The mark that it replaces; nil for a first mark.
    let former: SideMarkState?
}

/// A row that stays unchanged although the evidence calls for a change.
struct RefusedRow {
    let row: MatchedRow
    let reason: RowRefusal
    /// The time of the evidence.
    let time: EpochMilliseconds
}

/// Judges the rows found for the evidence of one chunk. A pure computation between reading and
/// writing, the same for classification and application.
struct ChunkJudgement {
    private(set) var counts = OutcomeCounts()
    private(set) var changes: [RowChange] = []
    private(set) var sideMarks: [SideMark] = []
    /// Rows that cannot be judged or, after writing, refused the change.
    private(set) var refused: [RefusedRow] = []
    /// The number of rows that would become invalid.
    private(set) var invalidated = 0
    /// The number of rows without a registration time, among all rows found.
    private(set) var undated = 0
    /// The counted outcomes of each entry of the evidence, by its place.
    private var counted: [Int: OutcomeCounts] = [:]

    /// Judges rows, which are in the order of the evidence. `marks` are those of the side table,
    /// used where the token table has no mark column. `isExact` decides for a row that is to be
    /// removed whether it could be restored.
    init(
        _ evidence: ArraySlice<TokenEvidence>, _ rows: [MatchedRow],
        marks: [DeviceToken: SideMarkState],
        _ layout: TableLayout, _ policy: RemovalPolicy,
        isExact: (MatchedRow) -> Bool = { _ in true }
    ) {
        var next = rows.startIndex
        var verdicts: [Verdict] = []
        for index in evidence.indices {
            let item = evidence[index]
            let time = layout.floor(item.time)
            let sideMark = layout.mark == nil ? marks[item.token] : nil
            var needsSideMark = false
            let refusedBefore = refused.count
            let changesBefore = changes.count
            verdicts.removeAll(keepingCapacity: true)
            while next < rows.endIndex, rows[next].evidence == index {
                let row = rows[next]
                next += 1
                if let reason = row.obstacle {
                    refused.append(RefusedRow(row: row, reason: reason, time: time))
                    continue
                }
                let registered = RegisteredToken(
                    registeredAt: row.registeredAt, invalidatedAt: row.mark ?? sideMark?.time)
                let verdict = policy.verdict(on: registered, dead: time)
                if verdict == .delete && !isExact(row) {
                    refused.append(RefusedRow(row: row, reason: .inexact, time: time))
                    continue
                }
                verdicts.append(verdict)
                note(policy.order(of: row.registeredAt, to: time), verdict)
                if verdict == .delete || verdict.changesRow && layout.mark != nil {
                    changes.append(RowChange(verdict: verdict, row: row, time: time))
                } else if verdict.changesRow {
                    needsSideMark = true
                }
            }
            if needsSideMark, sideMark.map({ $0.time < time }) ?? true {
                sideMarks.append(SideMark(token: item.token, time: time, former: sideMark))
            }
            var one = OutcomeCounts()
            if refused.count > refusedBefore {
                one.refused = item.statements
            } else {
                one.count(item, verdicts: verdicts)
            }
            counts += one
            if changes.count > changesBefore { counted[index] = one }
        }
    }

    /// The number of rows and side marks that would change.
    var rowsChanged: Int { changes.count + sideMarks.count }

    /// Removes changes that the database refused, by their place. A statement of the evidence
    /// counts as refused when one of its rows is.
    mutating func take(out places: [Int: RowRefusal]) {
        guard !places.isEmpty else { return }
        var made: [RowChange] = []
        for (place, change) in changes.enumerated() {
            guard let reason = places[place] else {
                made.append(change)
                continue
            }
            refused.append(RefusedRow(row: change.row, reason: reason, time: change.time))
            if change.verdict.invalidates { invalidated -= 1 }
            if let one = counted[change.row.evidence] {
                counts -= one
                let refused = OutcomeCounts(refused: one.total)
                counts += refused
                counted[change.row.evidence] = refused
            }
        }
        changes = made
    }

    private mutating func note(_ order: RegistrationOrder, _ verdict: Verdict) {
        if verdict.invalidates { invalidated += 1 }
        if order == .unknown { undated += 1 }
    }
}

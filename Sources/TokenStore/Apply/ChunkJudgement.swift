import APNsProtocol
import TokenHygiene

/// A change to be made to one row.
struct RowChange {
    /// `mark`, `advance` or `delete`.
    let verdict: Verdict
    /// The row as it was read.
    let row: MatchedRow
    /// The time the mark will carry.
    let time: EpochMilliseconds
}

/// A mark to be set in `pushsweep_invalid`.
struct SideMark {
    let token: DeviceToken
    /// The time the mark will carry.
    let time: EpochMilliseconds
    /// The mark it replaces.
    let former: SideMarkState?
}

/// What the evidence of one chunk means for the rows found: pure reckoning between reading and
/// writing, the same for classification and application.
struct ChunkJudgement {
    private(set) var counts = OutcomeCounts()
    private(set) var changes: [RowChange] = []
    private(set) var sideMarks: [SideMark] = []
    /// Rows that would become invalid.
    private(set) var invalidated = 0
    /// Rows among all found whose registration lies within the skew of the evidence.
    private(set) var undecided = 0
    /// Rows among all found that tell no registration time.
    private(set) var undated = 0

    /// Judges rows, which are in the order of the evidence. `marks` are those of the side table,
    /// which stand in for the row's own where the table has none.
    init(
        _ evidence: ArraySlice<TokenEvidence>, _ rows: [MatchedRow],
        marks: [DeviceToken: SideMarkState],
        _ layout: TableLayout, _ policy: RemovalPolicy
    ) {
        var next = rows.startIndex
        var verdicts: [Verdict] = []
        for index in evidence.indices {
            let item = evidence[index]
            let time = layout.floor(item.time)
            let sideMark = layout.mark == nil ? marks[item.token] : nil
            var needsSideMark = false
            verdicts.removeAll(keepingCapacity: true)
            while next < rows.endIndex, rows[next].evidence == index {
                let row = rows[next]
                let registered = RegisteredToken(
                    registeredAt: row.registeredAt, invalidatedAt: row.mark ?? sideMark?.time)
                let verdict = policy.verdict(on: registered, dead: time)
                verdicts.append(verdict)
                note(policy.order(of: row.registeredAt, to: time), verdict)
                if verdict == .delete || verdict.changesRow && layout.mark != nil {
                    changes.append(RowChange(verdict: verdict, row: row, time: time))
                } else if verdict.changesRow {
                    needsSideMark = true
                }
                next += 1
            }
            if needsSideMark, sideMark.map({ $0.time < time }) ?? true {
                sideMarks.append(SideMark(token: item.token, time: time, former: sideMark))
            }
            counts.count(item, verdicts: verdicts)
        }
    }

    /// Rows and side marks that would change.
    var rowsChanged: Int { changes.count + sideMarks.count }

    private mutating func note(_ order: RegistrationOrder, _ verdict: Verdict) {
        if verdict.invalidates { invalidated += 1 }
        if order == .undecided { undecided += 1 }
        if order == .unknown { undated += 1 }
    }
}

import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import TokenHygiene

@testable import TokenTable

// What is judged: lists, and what a person asks for.

extension RefusalCourse {
    private func hearing(_ heard: ModelNote.Heard) -> Hearing {
        switch heard {
        case .unknown: .unknown
        case .at(let time): .at(EpochMilliseconds(time))
        case .asked(let time): .asked(EpochMilliseconds(time))
        }
    }

    /// A list comes in, heard now, long ago or nobody knows when, and is judged at once or waits.
    mutating func list(judged: Bool, _ random: inout SeededGenerator) throws {
        let evidence = (0..<10).filter { _ in Int.random(in: 0...2, using: &random) > 0 }.map {
            TokenEvidence.dead(
                $0, at: start + [60_000, 59_500, 760_000, 60_001].one(&random))
        }
        guard !evidence.isEmpty else { return }
        let heard: ModelNote.Heard =
            switch Int.random(in: 0...2, using: &random) {
            case 0: .unknown
            case 1: .at(start)
            default: .at(try now())
            }
        let list = List(
            id: UUID().uuidString.lowercased(), evidence: evidence, heard: heard, state: .waiting)
        let stream = EvidenceList(evidence)
        _ = try store.fill(
            ReportBatch(
                id: list.id, run: try newRun(), chat, .feedback, .gateway, label: "test", host: "h",
                opened: EpochMilliseconds(start))
        ) { place in ExpandedReports(stream, after: place) }
        lists.append(list)
        if judged { try judge(lists.count - 1, heard, "a list") }
    }

    /// Judges a list, and compares each row of its tokens with the model.
    private mutating func judge(
        _ place: Int, _ heard: ModelNote.Heard, _ what: String
    ) throws {
        let (list, run) = (lists[place], try newRun())
        var stream = EvidenceList(list.evidence)
        let (known, hearing) = (ReadRows(), hearing(heard))
        var forecast = stream
        _ = try store.classify(
            &forecast, in: chat, policy: policy, hearing: hearing, keeping: known)
        let progress = try store.applyReports(
            &stream,
            BatchApplication(
                run: run, batch: list.id, partition: chat, policy: policy, source: .feedback,
                hearing: hearing), known: list.evidence.count % 2 == 0 ? known : nil)
        findings.expect(progress.isApplied, "the list is not applied")
        lists[place].state = .applied
        let after = try table.printed(on: database)
        var (expected, spared) = (states, 0)
        for item in list.evidence {
            var (isDead, mark) = (false, Int64?.none)
            for state in rows(with: item.token) {
                let effect = judge(item, state, heard, after)
                if effect == .newer { spared += 1 }
                if table.mark == .none, let time = effect.mark { mark = time }
                guard let change = changed(state, effect, item.time.rawValue) else { continue }
                expected[state.row.number] = change.after
                if change.after != nil { young.insert(places[state.row.number] ?? -1) }
                note(change, run, item)
                isDead = true
            }
            if let mark, marks[item.token].map({ $0 < mark }) ?? true {
                setMark(of: item.token, to: mark, run, at: mark, isOfUndo: false, false)
                isDead = true
            }
            if case .asked(let asked) = heard, isDead, let note = notes[item.token],
                note.discardedAt.map({ $0 < asked }) ?? true,
                note.until <= table.latest(item.time.rawValue)
            {
                notes[item.token] = nil
            }
        }
        try expect(expected, after: "\(what) heard \(heard)" + (spared > 0 ? ", spared" : ""))
    }

    private func judge(
        _ item: TokenEvidence, _ state: ModelState, _ heard: ModelNote.Heard,
        _ after: [Int: [String: String]]
    ) -> TableModel.Effect {
        let time = item.time.rawValue - item.time.rawValue % table.unit
        let effect = model.effect(
            of: item.time.rawValue, on: state.row, marks: marks[item.token])
        switch effect {
        case .marked, .advanced, .removed:
            if notes[item.token]?.spares(time, heard) == true { return .newer }
        case .none, .already, .newer, .refused: return .none
        }
        // A value that cannot be kept is a reason to leave the row, not to lose it.
        let isLeft = after[state.row.number] == state.printed
        return effect == .removed && state.row.isOdd && isLeft ? .refused : effect
    }

    /// A row before and after an effect; nil without a change.
    private func changed(
        _ state: ModelState, _ effect: TableModel.Effect, _ evidence: Int64
    ) -> (before: ModelState, after: ModelState?)? {
        switch effect {
        case .removed: return (state, nil)
        case .marked, .advanced: guard table.mark != .none else { return nil }
        case .none, .already, .newer, .refused: return nil
        }
        switch effect {
        case .marked(let time), .advanced(let time):
            var after = state
            after.row.mark = time
            after.printed["invalidated_at"] = table.printedMark(time)
            if table.storesReason { after.printed["invalid_reason"] = table.printedReason }
            return (state, after)
        default: return nil
        }
    }

    /// Changes a mark beside the rows, and notes it in the ledger.
    mutating func setMark(
        of token: DeviceToken, to mark: Int64?, _ run: String, at time: Int64, isOfUndo: Bool,
        _ isCompanion: Bool
    ) {
        markEntries.append(
            ModelMarkEntry(
                run: run, token: token, time: time, isOfUndo: isOfUndo, isCompanion: isCompanion,
                before: marks[token], after: mark))
        marks[token] = mark
        youngMarks.insert(token)
    }

    private mutating func note(
        _ change: (before: ModelState, after: ModelState?), _ run: String, _ item: TokenEvidence
    ) {
        entries.append(
            ModelEntry(
                run: run, place: places[change.before.row.number] ?? -1, token: item.token,
                time: item.time.rawValue - item.time.rawValue % table.unit, isOfUndo: false,
                before: change.before, after: change.after))
    }

    private func one(
        of state: List.State..., using random: inout SeededGenerator
    ) -> Int? {
        lists.indices.filter { state.contains(lists[$0].state) }.randomElement(using: &random)
    }

    // MARK: What a person does with lists

    mutating func discard(_ random: inout SeededGenerator) throws {
        guard let place = one(of: .waiting, using: &random) else { return }
        let isDone = try Batches(store).discard(
            lists[place].id, in: .waiting, because: "no", run: newRun())
        findings.expect(isDone, "nothing was discarded")
        let time = try now()
        for item in lists[place].evidence {
            refuse(item.token, until: item.time.rawValue, discarded: time)
        }
        lists[place].state = .discarded
        try expect(states, after: "a discard")
    }

    /// A person releases what waits, or it is judged after all as it was heard.
    mutating func release(_ random: inout SeededGenerator) throws {
        guard let place = one(of: .waiting, using: &random) else { return }
        let isAsked = Bool.random(using: &random)
        try judge(
            place, isAsked ? .asked(now()) : lists[place].heard, isAsked ? "a release" : "a sweep")
    }

    /// A person has a list judged again.
    mutating func replay(_ random: inout SeededGenerator) throws {
        guard let place = one(of: .applied, .discarded, using: &random) else { return }
        let batches = Batches(store)
        guard let old = try batches.batch(lists[place].id) else {
            return findings.expect(false, "a batch is gone")
        }
        var batch = ReportBatch(
            id: UUID().uuidString.lowercased(), run: try newRun(), chat, .feedback, .earlier,
            label: "test", host: "h", opened: EpochMilliseconds(start))
        batch.origin = old.id
        batch.state = .filling
        let moved = try batches.move(.all, of: old, to: batch, lease: nil)
        findings.expect(moved == lists[place].evidence.count, "\(moved) reports moved")
        try batches.closeMoved(batch)
        lists[place].id = batch.id
        try judge(place, .asked(now()), "a replay")
    }

    // MARK: The end of grace periods

    mutating func end(_ random: inout SeededGenerator) throws {
        guard policy.deletesAfter != nil else { return }
        if Bool.random(using: &random) { try age() }
        let run = try newRun()
        _ = try store.remove(
            GraceEnd(
                run: run, feed: run, partition: chat, policy: policy,
                now: store.session.databaseTime()))
        let after = try table.printed(on: database)
        var expected = states
        let due = states.values.filter { state in
            let token = state.row.token
            return model.isDue(
                state.row, marks: token.flatMap { marks[$0] }, markedBy: [], young: [])
                && !young.contains(places[state.row.number] ?? -1)
                && token.map(youngMarks.contains) == false
        }
        for (token, some) in Dictionary(grouping: due, by: { $0.row.token }) {
            guard let token, !left.contains(token) else { continue }
            for state in some {
                guard let mark = marks[token] ?? state.row.mark,
                    notes[token]?.sparesMark(of: mark) != true,
                    !state.row.isUnnameable
                else {
                    if state.row.isUnnameable { left.insert(token) }
                    continue
                }
                if state.row.isOdd, after[state.row.number] == state.printed {
                    left.insert(token)
                    continue
                }
                expected[state.row.number] = nil
                entries.append(
                    ModelEntry(
                        run: run, place: places[state.row.number] ?? -1, token: token, time: mark,
                        isOfUndo: false, before: state, after: nil))
            }
        }
        for token in Set(due.compactMap(\.row.token)) where marks[token] != nil {
            guard let mark = marks[token],
                entries.contains(where: { $0.run == run && $0.token == token }),
                !expected.values.contains(where: { $0.row.token == token && $0.row.isOurs })
            else { continue }
            setMark(of: token, to: nil, run, at: mark, isOfUndo: false, true)
        }
        try expect(expected, after: "the end of a period")
    }

    /// Makes what was changed so far older than the period.
    private mutating func age() throws {
        let old = table.engine == .sqlite ? "'2024-06-01 00:00:00.000'" : "'2024-06-01'"
        for own in ["batch", "change"] {
            try database.sql.run("UPDATE pushsweep_\(own) SET changed_at = \(old)")
        }
        try database.sql.run(
            "UPDATE pushsweep_commit SET committed_at = \(old) WHERE number > 0")
        (young, youngMarks) = ([], [])
    }
}

extension RandomTable {
    /// The latest evidence of which the mark may be, where marks have whole seconds.
    func latest(_ time: Int64) -> Int64 { unit == 1 ? time : time - time % unit + unit - 1 }
}

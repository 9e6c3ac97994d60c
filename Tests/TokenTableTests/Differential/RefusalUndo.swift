import APNsProtocol
import Database
import TestSupport
import TokenHygiene

@testable import TokenTable

// What a person takes back.

extension RefusalCourse {
    mutating func undo(
        _ random: inout SeededGenerator, _ tally: inout TableTrial.Tally
    ) throws {
        guard
            let chosen = (entries.map(\.run) + markEntries.map(\.run))
                .randomElement(using: &random)
        else { return }
        let run = "u" + (try newRun()).dropFirst()
        let undone = try store.undo(
            .run(chosen), as: run, at: start + 90_000_000 + Int64(next))
        findings.expect(undone.isDone, "the undo is not done")
        let time = try now()
        let first = Dictionary(grouping: states.values, by: \.row.token)
        var expected = states
        var (spared, cleared) = ([(DeviceToken, Int64)](), [DeviceToken: Int64]())
        let all = entries.filter { $0.run == chosen }
        for (place, some) in Dictionary(grouping: all, by: \.place).sorted(by: { $0.key < $1.key })
        {
            let before = occupant(of: place)
            findings.expect(some.count == 1, "\(some.count) entries of one run and key")
            let entry = some[0]
            let after = entry.undone(from: before)
            switch entry.refusal(before: before, after: after) {
            case true?: spared.append((entry.token, table.latest(entry.time)))
            case false?: cleared[entry.token] = max(cleared[entry.token] ?? 0, entry.time)
            case nil: break
            }
            guard before?.printed != after?.printed else { continue }
            tally.undone += 1
            if let before { expected[before.row.number] = nil }
            if let after {
                expected[after.row.number] = after
                places[after.row.number] = place
            }
            if after != nil { young.insert(place) }
            entries.append(
                ModelEntry(
                    run: run, place: place, token: entry.token, time: entry.time,
                    isOfUndo: true, before: before, after: after))
        }
        undoMarks(of: chosen, run, first, expected, &spared, &cleared)
        for (token, time) in cleared where !spared.contains(where: { $0.0 == token }) {
            guard let note = notes[token], note.until <= table.latest(time) else { continue }
            notes[token]?.undoneAt = nil
            if note.discardedAt == nil { notes[token] = nil }
        }
        for (token, until) in spared { refuse(token, until: until, undone: time) }
        try expect(expected, after: "an undo of \(chosen.suffix(3))")
    }

    /// Undoes the changes of marks beside the rows. `first` are the rows before the undo, by token.
    private mutating func undoMarks(
        of chosen: String, _ run: String, _ first: [DeviceToken?: [ModelState]],
        _ expected: [Int: ModelState], _ spared: inout [(DeviceToken, Int64)],
        _ cleared: inout [DeviceToken: Int64]
    ) {
        let own = Set(entries.filter { $0.run == run && $0.before == nil }.map(\.place))
        let changed = Set(entries.filter { $0.run == run }.map(\.token))
        for entry in markEntries where entry.run == chosen {
            let rows = (first[entry.token] ?? []).filter(\.row.isOurs)
            let registered =
                rows.isEmpty ? nil : rows.map { $0.registered ?? .min }.min()
            let before = marks[entry.token]
            var after = before
            if before == entry.after, (registered ?? .min) <= entry.time {
                after = entry.before
            }
            if entry.isCompanion, before == nil, let mark = after {
                let now = expected.values.filter { $0.row.token == entry.token && $0.row.isOurs }
                let isOwn = now.contains { own.contains(places[$0.row.number] ?? -1) }
                let isOther = now.contains {
                    !own.contains(places[$0.row.number] ?? -1) && ($0.registered ?? .min) <= mark
                }
                if !isOwn || isOther { after = nil }
            }
            if !entry.isCompanion {
                func isDead(_ mark: Int64?) -> Bool {
                    mark.map { mark in registered.map { $0 <= mark } ?? true } ?? false
                }
                if !isDead(after) {
                    spared.append((entry.token, entry.time))
                } else if !isDead(before) {
                    cleared[entry.token] = max(cleared[entry.token] ?? 0, entry.time)
                }
            }
            guard before != after else { continue }
            setMark(
                of: entry.token, to: after, run, at: entry.time, isOfUndo: true,
                changed.contains(entry.token))
        }
    }
}

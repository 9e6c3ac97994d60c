// The power fails in place of a call that writes, syncs, names or removes something in the state
// folder. Writes that were not synced are lost, or partly there. The database is another machine,
// or has its own promises, and keeps its content: so the list must still have everything that
// the database got.

import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

@testable import EvidenceJournal

@Suite(
    "A power cut during a sweep", .serialized,
    .enabled(if: PowerCut.library != nil, Comment(rawValue: PowerCut.absence)))
struct PowerCutTests {
    @Test("a power cut loses nothing acknowledged, and the next sweep completes the work")
    func forgetful() throws {
        try cutAll("a forgetful disk") { _ in .forgetful }
    }

    @Test("a power cut that keeps some last writes, or beginnings of them, loses nothing either")
    func torn() throws {
        try cutAll("torn writes") { .torn(.random(in: 1...(.max), using: &$0)) }
    }

    @Test("the test fails on a disk that lies about what it has synced")
    func lying() throws {
        var random = SeededGenerator("a lying disk")
        let calls = try calls(.sqlite, &random)
        // Near the end, but not at it, which a sweep with fewer calls would not reach: a busy machine
        // lets it write in fewer pieces.
        var (sweep, notes, isCut) = try cut(.sqlite, .lying, at: calls - 5, &random)
        for margin in [15, 30] where !isCut {
            (sweep, notes, isCut) = try cut(.sqlite, .lying, at: calls - margin, &random)
        }
        #expect(isCut)
        #expect(sweep.keptBytes(in: notes.stateBefore).count == sweep.feed.count * 38)
        #expect(sweep.keptBytes().isEmpty)
        #expect(try sweep.recover() != nil)
    }

    private func cutAll(
        _ name: String, _ disk: (inout SeededGenerator) -> PowerCut.Disk
    ) throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("\(name), \(engine)")
            let count = try calls(engine, &random)
            let moments = Sample.occurrences(of: count, most: Series.isLong ? 6 : 3, &random)
            var cuts = 0
            for moment in moments {
                let disk = disk(&random)
                let (sweep, notes, isCut) = try cut(engine, disk, at: moment, &random)
                if isCut { cuts += 1 }
                let problem = try lostBytes(sweep, notes) ?? sweep.recover()
                #expect(
                    problem == nil,
                    "\(engine), seed \(random.seed), \(disk) at \(moment): \(problem ?? "")")
            }
            print("power cuts, \(name), \(engine): \(cuts) of \(count) calls")
            #expect(cuts * 2 > moments.count)
        }
    }

    /// How many calls a whole sweep makes.
    private func calls(_ engine: TestEngine, _ random: inout SeededGenerator) throws -> Int {
        let (_, notes, _) = try cut(engine, .forgetful, at: 0, &random)
        let calls = try notes.calls()
        #expect(calls.count { $0.hasPrefix("sync /state/list-") } > 4, "\(calls)")
        return calls.count
    }

    private func cut(
        _ engine: TestEngine, _ disk: PowerCut.Disk, at call: Int, _ random: inout SeededGenerator
    ) throws -> (MixedSweep, PowerCut.Notes, isCut: Bool) {
        let sweep = try MixedSweep.inTwoPieces(engine, random: &random)
        let notes = try PowerCut.Notes()
        let result = try sweep.stage.start(
            ["sweep"], environment: notes.environment(disk, at: call, of: sweep.stage.folder)
        ).wait()
        // A sweep may take a call less than the one that was counted, in which case it just ends.
        #expect(result.exit == 137 || result.exit == 0, "\(result.error)")
        return (sweep, notes, result.exit == 137)
    }

    /// What was confirmed when the power failed has to be there: a list notes with each block up to where it was
    /// durable, and its end only once all of it was.
    private func lostBytes(_ sweep: MixedSweep, _ notes: PowerCut.Notes) throws -> String? {
        guard FileManager.default.fileExists(atPath: notes.stateBefore) else { return nil }
        let folder = try sweep.stage.look(at: notes.stateBefore)
        var confirmed = 0
        for name in try folder.listNames {
            let file = try ListFile(name, in: folder.folder, O_RDONLY)
            let isClosed = try file.captured()?.end != nil
            var (count, place) = (0, ListForm.section)
            _ = try file.blocks { bytes in
                place = ListForm.place(behind: place, bytes.count)
                if try !isClosed && !file.wasDurable(at: place - 1) { return false }
                count += bytes.count
                return true
            }
            confirmed += count
        }
        let before = sweep.keptBytes(in: notes.stateBefore)
        let after = sweep.keptBytes()
        guard before.starts(with: after) else { return "other bytes are left" }
        let last = try notes.calls().last ?? ""
        return after.count >= confirmed
            ? nil : "of \(confirmed) confirmed bytes \(after.count) are left after \(last)"
    }
}

// A journal has pages of 16 KiB, so mutating its bytes blindly would mostly change nothing that is
// read. The input is a recipe instead, commands of five bytes for one valid journal:
//
//   command   1 byte: the action, modulo 6
//   place     3 bytes, big-endian: where, modulo the length of the file
//   value     1 byte
//
// The journal holds a feed of each state, quarantine and runs, so that each kind of page is there.

import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import TokenHygiene

extension FuzzTarget {
    /// A journal that a disk or a person damaged.
    static let journal = FuzzTarget(name: "journal", mutations: 150, longest: 80) { input in
        let place = try TemporaryFolder()
        let state = place.file("state")
        let file = state + "/journal.sqlite"
        let damaged = damage(try template.get(), by: input)
        // Opened once: a program that another test starts holds the lock until it runs its own
        // code.
        let folder = try StateFolder(state)
        try Data(damaged).write(to: URL(filePath: file))
        var isOpened = false
        do throws(JournalFailure) {
            let journal = try EvidenceJournal(in: folder)
            isOpened = true
            use(journal)
        } catch {
            try promise(
                !error.description.contains("\n") && error.description.utf8.count < 1_000,
                "the failure is not a sentence: \(error)")
        }
        // Changes before the damage was found are in the file too.
        try expectKept(isOpened ? nil : damaged, in: folder)
    }

    /// Wherever opening failed, the old file exists, under its name or set aside. If it was set
    /// aside, then or later, the next run can begin.
    private static func expectKept(_ damaged: [UInt8]?, in folder: StateFolder) throws {
        let aside = try folder.damagedFiles
        guard let name = aside.first else {
            return try promise(
                FileManager.default.fileExists(atPath: folder.file("journal.sqlite")),
                "the journal is gone")
        }
        try promise(aside.count == 1, "one journal was set aside \(aside.count) times")
        let kept = try Data(contentsOf: URL(filePath: folder.file(name)))
        try promise(
            damaged.map(kept.elementsEqual) ?? !kept.isEmpty,
            "what was set aside is not what was there")
        let next = try EvidenceJournal(in: folder)
        try promise(try next.lists(.pending).isEmpty, "a new journal is not empty")
    }

    /// Uses a journal as runs do. Where a step fails the others still have to end.
    private static func use(_ journal: EvidenceJournal) {
        let noon = EpochMilliseconds(1_700_000_000_000)
        _ = try? journal.recoverInterrupted()
        let feeds = (try? journal.lists(.reading, .pending, .applied, .held)) ?? []
        for feed in feeds.prefix(8) {
            try? journal.forEachChunk(of: feed.id) { _ in }
            _ = try? journal.quarantined(of: feed.id)
        }
        _ = try? journal.runs(limit: 10)
        _ = try? journal.purge(at: noon.advanced(by: 90 * 86_400_000))
        if let capture = try? journal.beginList(
            run: "next", partition: Partition(app: "chat", environment: "production"),
            source: "gateway:2196", at: noon)
        {
            _ = try? [UInt8](0...9).withUnsafeBytes { try capture.append($0) }
            try? capture.close(.closeNotify, at: noon)
        }
    }

    private static func damage(_ template: [UInt8], by recipe: [UInt8]) -> [UInt8] {
        var bytes = template
        for start in stride(from: 0, to: recipe.count - 4, by: 5) {
            guard !bytes.isEmpty else { break }
            let number = recipe[start + 1..<start + 4].reduce(0) { $0 << 8 | Int($1) }
            let (place, value) = (number % bytes.count, recipe[start + 4])
            switch recipe[start] % 6 {
            case 0: bytes[place] = value
            case 1: bytes[place] ^= 1 << (value & 7)
            case 2: bytes.removeSubrange(place...)
            case 3:
                let end = min(bytes.count, place + 2 * Int(value) + 1)
                bytes.replaceSubrange(place..<end, with: repeatElement(0, count: end - place))
            case 4:
                // A page that was written to the place of another.
                let from = place / 16_384 * 16_384
                let to = min(Int(value) * 16_384, max(0, bytes.count - 16_384)) / 16_384 * 16_384
                guard from + 16_384 <= bytes.count, to + 16_384 <= bytes.count else { continue }
                bytes.replaceSubrange(to..<to + 16_384, with: Array(bytes[from..<from + 16_384]))
            default: bytes.append(contentsOf: repeatElement(value, count: 1 + place % 4_096))
            }
        }
        return bytes
    }

    /// The bytes of the valid journal.
    private static let template = Result {
        let place = try TemporaryFolder()
        let noon = EpochMilliseconds(1_700_000_000_000)
        do {
            let journal = try EvidenceJournal(in: StateFolder(place.file("state")))
            try journal.beginRun("run", kind: "sweep", at: noon)
            for state in [nil, ListState.pending, .applied, .held] {
                let capture = try journal.beginList(
                    run: "run", partition: Partition(app: "chat", environment: "production"),
                    source: "gateway:2196", at: noon)
                for vector in FeedbackVector.all.prefix(2) {
                    try vector.bytes.withUnsafeBytes { try capture.append($0) }
                }
                guard let state else { continue }
                try capture.close(
                    .closeNotify, at: noon, heldBecause: state == .held ? "a cause" : nil)
                if state == .applied { try journal.noteApplied(capture.id, at: noon) }
                try journal.quarantine(
                    [Quarantined(offset: 0, length: 38, reason: "a reason")], of: capture.id)
            }
            try journal.endRun("run", exit: 0, summary: "{}", at: noon)
        }
        return try [UInt8](Data(contentsOf: URL(filePath: place.file("state/journal.sqlite"))))
    }
}

// The file of a list has sections of 64 KiB, so mutating its bytes blindly would mostly change bytes of a token. The
// input is a recipe instead, commands of five bytes for one valid file:
//
//   command   1 byte: the action, modulo 6; its highest bit tells whether the list was closed, in the first command
//   place     3 bytes, big-endian: where, modulo the length of the file; from 0xF00000 on, at the beginning of a block
//   value     1 byte
//
// A whole list stands beside it, which has to go on.

import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import TokenHygiene

extension FuzzTarget {
    /// The file of a list that a disk or a person damaged.
    static let list = FuzzTarget(name: "list", mutations: 150, longest: 80) { input in
        let place = try TemporaryFolder()
        // Opened once: a program that another test starts holds the lock until it runs its own
        // code.
        let folder = try StateFolder(place.file("state"))
        let whole = try capture(Array(bytes.prefix(500)), in: folder, isClosed: true)
        let isClosed = (input.first ?? 0) & 0x80 == 0
        let id = try capture(bytes, in: folder, isClosed: isClosed)
        let file = URL(filePath: folder.file("list-\(id)"))
        // Behind it there is only room that was taken ahead.
        let content = try [UInt8](Data(contentsOf: file).prefix(300_000))
        let damaged = damage(content, by: input)
        try Data(damaged).write(to: file)
        var failures: [JournalFailure] = []
        do {
            failures = try folder.recoverLists()
            let list = try folder.list(id)
            var found: [UInt8] = []
            try folder.readBytes(of: list) { found += $0 }
            try promise(bytes.starts(with: found), "other bytes than were kept")
            try promise(
                list.end == .crashed || found == bytes, "a closed list has \(found.count) bytes")
        } catch let failure as JournalFailure {
            failures.append(failure)
        }
        for failure in failures {
            try promise(
                !failure.description.contains("\n") && failure.description.utf8.count < 1_000,
                "the failure is not a sentence: \(failure)")
        }
        try expectKept(damaged, in: folder)
        let other = try folder.list(whole)
        try promise(try folder.counts(of: other).tuples == 13, "another list was touched")
    }

    /// A file that was set aside is byte for byte the damaged one, and is no list any more.
    private static func expectKept(_ damaged: [UInt8], in folder: StateFolder) throws {
        for name in try folder.damagedFiles {
            let kept = try Data(contentsOf: URL(filePath: folder.file(name)))
            try promise(kept == Data(damaged), "what was set aside is not what was there")
            try promise(try folder.lists(.reading, .pending).count == 1, "it is still a list")
        }
    }

    private static let bytes = FeedbackTuple.bytes(
        (0..<4_000).map { .dead($0, at: 1_600_000_000) })

    /// Captures a list in pieces of half a section.
    private static func capture(
        _ bytes: [UInt8], in folder: StateFolder, isClosed: Bool
    ) throws -> String {
        let noon = EpochMilliseconds(1_700_000_000_000)
        let capture = try folder.beginList(
            run: "run", partition: Partition(app: "chat", environment: "production"),
            source: "gateway:2196", at: noon)
        for start in stride(from: 0, to: bytes.count, by: 32_768) {
            try bytes[start..<min(bytes.count, start + 32_768)].withUnsafeBytes {
                try capture.append($0)
            }
        }
        if isClosed { try capture.close(.closeNotify, at: noon) }
        return capture.id
    }

    private static func damage(_ content: [UInt8], by recipe: [UInt8]) -> [UInt8] {
        var bytes = content
        let section = 65_536
        for start in stride(from: 0, to: recipe.count - 4, by: 5) {
            guard !bytes.isEmpty else { break }
            let number = recipe[start + 1..<start + 4].reduce(0) { $0 << 8 | Int($1) }
            let isHead = number >= 0xF0_0000
            let place = (isHead ? number >> 4 & 7 * 32_768 + number & 15 : number) % bytes.count
            let value = recipe[start + 4]
            switch recipe[start] % 6 {
            case 0: bytes[place] = value
            case 1: bytes[place] ^= 1 << (value & 7)
            case 2: bytes.removeSubrange(place...)
            case 3:
                let end = min(bytes.count, place + 2 * Int(value) + 1)
                bytes.replaceSubrange(place..<end, with: repeatElement(0, count: end - place))
            case 4:
                // A section that was written to the place of another.
                let from = place / section * section
                let to = Int(value) % (bytes.count / section + 1) * section
                guard from + section <= bytes.count, to + section <= bytes.count else { continue }
                bytes.replaceSubrange(to..<to + section, with: Array(bytes[from..<from + section]))
            default: bytes.append(contentsOf: repeatElement(value, count: 1 + place % 4_096))
            }
        }
        return bytes
    }
}

import Foundation
import TestSupport
import Testing

@testable import EvidenceJournal

@Suite("Bytes between the socket and the journal")
struct ArrivingBytesTests {
    private let fixture: JournalFixture
    private var file: String { fixture.state + "/arriving" }

    init() throws { fixture = try JournalFixture() }

    /// Begins a feed of which `read` bytes came from the socket and `stored` of them are in the journal,
    /// and leaves it as a killed run does. Returns its name.
    private func killed(
        _ bytes: [UInt8], stored: Int, capacity: Int, _ random: inout SeededGenerator
    ) throws -> String {
        let capture = try fixture.journal().beginList(
            run: "run", partition: chat, source: "gateway:2196", at: noon)
        let arrival = try capture.arrival(capacity: capacity)
        var read = 0
        while read < bytes.count {
            let most = min(bytes.count, capture.bytes + capacity)
            if read < most {
                let next = Int.random(in: read + 1...most, using: &random)
                bytes[read..<next].withUnsafeBytes { arrival.add($0, at: read) }
                read = next
            }
            let due = min(stored, read)
            guard capture.bytes < due else { continue }
            let next = Int.random(in: capture.bytes + 1...due, using: &random)
            try bytes[capture.bytes..<next].withUnsafeBytes { try capture.append($0) }
        }
        if capture.bytes < stored {
            try bytes[capture.bytes..<stored].withUnsafeBytes { try capture.append($0) }
        }
        return capture.id
    }

    @Test("the run after a killed one has every byte that came from the socket, once")
    func kept() throws {
        var random = SeededGenerator("arriving bytes")
        for round in 0..<40 {
            let capacity = Int.random(in: 1...3_000, using: &random)
            let count = Int.random(in: 1...10_000, using: &random)
            let stored = max(0, count - Int.random(in: 0...capacity, using: &random))
            let bytes = random.bytes(count)
            let id = try killed(bytes, stored: stored, capacity: capacity, &random)
            let journal = try fixture.journal()
            #expect(try journal.recoverInterrupted() == 1)
            let feed = try journal.list(id)
            #expect(feed.bytes == count && feed.end == .crashed && feed.state == .pending)
            #expect(try journal.bytes(of: id) == bytes, "seed \(random.seed), round \(round)")
            #expect(!FileManager.default.fileExists(atPath: file))
        }
    }

    @Test("a run killed while it takes the bytes leaves them to the next, which takes them once")
    func takenTwice() throws {
        var random = SeededGenerator("arriving bytes taken twice")
        let bytes = random.bytes(500)
        let id = try killed(bytes, stored: 100, capacity: 1_000, &random)
        let kept = try Data(contentsOf: URL(fileURLWithPath: file))
        do {
            let journal = try fixture.journal()
            try journal.recoverInterrupted()
        }
        // As if the run had died before it removed the file, and before the feed was pending.
        try kept.write(to: URL(fileURLWithPath: file))
        let journal = try fixture.journal()
        try journal.change("", "UPDATE feed SET state = \(ListState.reading) WHERE id = \(id)")
        #expect(try journal.recoverInterrupted() == 1)
        #expect(try journal.bytes(of: id) == bytes)
    }

    @Test("a closed or abandoned feed leaves no file")
    func removed() throws {
        let journal = try fixture.journal()
        for isClosed in [true, false] {
            let capture = try journal.beginList(
                run: "run", partition: chat, source: "gateway:2196", at: noon)
            let arrival = try capture.arrival(capacity: 100)
            #expect(FileManager.default.fileExists(atPath: file))
            if isClosed {
                [UInt8](repeating: 7, count: 9).withUnsafeBytes { arrival.add($0, at: 0) }
                try capture.close(.closeNotify, at: noon)
            } else {
                try capture.abandon()
            }
            #expect(!FileManager.default.fileExists(atPath: file))
        }
    }

    @Test(
        "bytes outlast a volume that comes back under another number, another boot, another machine",
        arguments: [false, true])
    func mountedAgain(afterBoot: Bool) throws {
        var random = SeededGenerator("arriving bytes mounted again")
        let bytes = random.bytes(9_000)
        let id = try killed(bytes, stored: 100, capacity: 10_000, &random)
        // The identity of a folder is computed from its device, its number on it and the boot.
        let identity = fixture.state + "/identity"
        let fresh = Data((UUID().uuidString.lowercased() + "\n").utf8)
        let known = (try? Data(contentsOf: URL(fileURLWithPath: identity))) ?? fresh
        let other = identity + "-other"
        try (afterBoot ? fresh : known)
            .write(to: URL(fileURLWithPath: other))
        try #require(rename(other, identity) == 0)
        chmod(identity, 0o600)
        let journal = try fixture.journal()
        #expect(try journal.recoverInterrupted() == 1)
        #expect(try journal.bytes(of: id) == bytes)
    }

    @Test(
        "of a file with damage, or of another feed, nothing that differs is taken, and it is removed"
    )
    func damaged() throws {
        var random = SeededGenerator("damaged arriving bytes")
        let bytes = random.bytes(500)
        // The number of bytes in the head is for people.
        let heads = Array(0..<80) + Array(88..<96) + Array(4_096..<4_112)
        for place in heads + [4_112, 4_115, 4_300, 4_611] {
            let id = try killed(bytes, stored: 100, capacity: 1_000, &random)
            var content = try Data(contentsOf: URL(fileURLWithPath: file))
            content[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            try content.write(to: URL(fileURLWithPath: file))
            let journal = try fixture.journal()
            #expect(try journal.recoverInterrupted() == 1)
            #expect(try journal.bytes(of: id) == Array(bytes.prefix(100)), "at \(place)")
            #expect(!FileManager.default.fileExists(atPath: file))
        }
    }

    @Test("where a power cut took sectors of the file, the bytes before the first one are taken")
    func sectorsLost() throws {
        var random = SeededGenerator("arriving bytes without sectors")
        for round in 0..<20 {
            // Each byte that the journal has costs a commit where the ring is small.
            let capacity = Int.random(in: 4_000...30_000, using: &random)
            let count = Int.random(in: 1...60_000, using: &random)
            let stored = max(0, count - Int.random(in: 0...capacity, using: &random))
            let bytes = random.bytes(count)
            let id = try killed(bytes, stored: stored, capacity: capacity, &random)
            var content = try Data(contentsOf: URL(fileURLWithPath: file))
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let sector = Int.random(in: 8..<max(9, content.count / 512), using: &random) * 512
                let end = min(sector + 512, content.count)
                guard sector < end else { continue }
                content.replaceSubrange(sector..<end, with: Data(count: end - sector))
            }
            try content.write(to: URL(fileURLWithPath: file))
            let journal = try fixture.journal()
            #expect(try journal.recoverInterrupted() == 1)
            let found = try journal.bytes(of: id)
            #expect(
                found.count >= stored && found == Array(bytes.prefix(found.count)),
                "seed \(random.seed), round \(round)")
        }
    }

    @Test("a file that is cut short is removed, and the feed has what the journal had")
    func cut() throws {
        var random = SeededGenerator("cut arriving bytes")
        for length in [0, 50, 4_096, 4_100, 4_112, 4_500] {
            let bytes = random.bytes(500)
            let id = try killed(bytes, stored: 100, capacity: 1_000, &random)
            truncate(file, length)
            let journal = try fixture.journal()
            #expect(try journal.recoverInterrupted() == 1)
            #expect(try journal.bytes(of: id) == Array(bytes.prefix(100)))
            #expect(!FileManager.default.fileExists(atPath: file))
        }
    }

    @Test("a place where the file cannot be made is refused before the gateway is asked")
    func refused() throws {
        let journal = try fixture.journal()
        try FileManager.default.createDirectory(
            atPath: file, withIntermediateDirectories: false)
        let capture = try journal.beginList(
            run: "run", partition: chat, source: "gateway:2196", at: noon)
        expectFailure(.permission, "is no regular file") { try capture.arrival(capacity: 100) }
        #expect(try journal.lists(.reading).isEmpty)
        expectFailure(.permission, "is no regular file") { try StateFolder.examine(fixture.state) }
    }
}

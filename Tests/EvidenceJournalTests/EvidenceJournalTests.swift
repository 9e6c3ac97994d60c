import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let noon = EpochMilliseconds(1_700_000_000_000)
private let chat = Partition(app: "chat", environment: "production")

extension EvidenceJournal {
    fileprivate func capture(_ pieces: [[UInt8]], end: CaptureEnd? = .closeNotify) throws -> String
    {
        let capture = try beginFeed(run: "run", partition: chat, source: "gateway:2196", at: noon)
        for piece in pieces { try piece.withUnsafeBytes { try capture.append($0) } }
        if let end { try capture.close(end, at: noon) }
        return capture.id
    }

    fileprivate func bytes(of feed: String) throws -> [UInt8] {
        var all: [UInt8] = []
        try forEachChunk(of: feed) { all.append(contentsOf: $0) }
        return all
    }
}

@Suite("The evidence journal")
struct EvidenceJournalTests {
    private let temporary: TemporaryFolder
    private let state: String

    init() throws {
        temporary = try TemporaryFolder()
        state = temporary.file("state")
    }

    @Test("returns the bytes of a feed as they came, whatever their pieces, also after reopening")
    func roundTrip() throws {
        var random = SeededGenerator("journal pieces")
        let pieces = (0..<20).map { _ in random.bytes(Int.random(in: 0...70_000, using: &random)) }
        let id: String
        do {
            id = try EvidenceJournal(in: StateFolder(state)).capture(pieces)
        }
        let journal = try EvidenceJournal(in: StateFolder(state))
        #expect(try journal.bytes(of: id) == pieces.flatMap { $0 }, "seed \(random.seed)")
        let feeds = try journal.feeds(.pending)
        #expect(feeds.map(\.id) == [id])
        #expect(feeds.first?.bytes == pieces.reduce(0) { $0 + $1.count })
        #expect(feeds.first?.end == .closeNotify)
        #expect(feeds.first?.partition == chat)
        #expect(feeds.first?.opened == noon)
    }

    @Test("turns a feed whose run was killed into a pending one that ended by a crash")
    func recovery() throws {
        let bytes = FeedbackVector.all[1].bytes
        let id: String
        do {
            id = try EvidenceJournal(in: StateFolder(state)).capture([bytes], end: nil)
        }
        let journal = try EvidenceJournal(in: StateFolder(state))
        #expect(try journal.feeds(.pending).isEmpty)
        #expect(try journal.recoverInterrupted(at: noon) == 1)
        let feed = try #require(try journal.feeds(.pending).first)
        #expect(feed.id == id)
        #expect(feed.end == .crashed)
        #expect(try journal.bytes(of: id) == bytes)
        #expect(try journal.recoverInterrupted(at: noon) == 0)
    }

    @Test("keeps a feed in exactly one state")
    func states() throws {
        let journal = try EvidenceJournal(in: StateFolder(state))
        let id = try journal.capture([[1, 2, 3]])
        try journal.settle(id, as: .held, cause: "too many")
        #expect(try journal.feeds(.pending, .applied).isEmpty)
        #expect(try journal.feeds(.held).map(\.cause) == ["too many"])
        try journal.settle(id, as: .applied)
        #expect(try journal.feeds(.held, .pending).isEmpty)
        #expect(try journal.feed(id).state == .applied)
        #expect(try journal.feed(id).cause == nil)
    }

    @Test("notes quarantined places once, however often they are noted")
    func quarantine() throws {
        let journal = try EvidenceJournal(in: StateFolder(state))
        let id = try journal.capture([[UInt8](repeating: 0, count: 50)])
        let entries = [
            Quarantined(offset: 0, length: 38, reason: "zero-time"),
            Quarantined(offset: 38, length: 12, reason: "tail"),
        ]
        try journal.quarantine(entries, of: id)
        try journal.quarantine(entries, of: id)
        #expect(try journal.quarantined(of: id) == entries)
    }

    @Test("drops the bytes of old applied feeds, never of pending or quarantined ones")
    func purge() throws {
        let journal = try EvidenceJournal(in: StateFolder(state))
        let applied = try journal.capture([[1]])
        let doubtful = try journal.capture([[2]])
        let pending = try journal.capture([[3]])
        try journal.settle(applied, as: .applied)
        try journal.settle(doubtful, as: .applied)
        try journal.quarantine([Quarantined(offset: 0, length: 1, reason: "tail")], of: doubtful)
        let days = EvidenceJournal.retentionDays * 86_400_000
        try journal.purge(at: noon.advanced(by: days))
        #expect(try journal.bytes(of: applied) == [1])
        try journal.purge(at: noon.advanced(by: days + 1))
        #expect(try journal.bytes(of: applied).isEmpty)
        #expect(try journal.bytes(of: doubtful) == [2])
        #expect(try journal.bytes(of: pending) == [3])
    }

    @Test("remembers runs with their exit code and summary")
    func runs() throws {
        let journal = try EvidenceJournal(in: StateFolder(state))
        try journal.beginRun("a", kind: "sweep", at: noon)
        try journal.beginRun("b", kind: "replay", at: noon.advanced(by: 5))
        try journal.endRun("b", exit: 65, summary: "{}", at: noon.advanced(by: 9))
        let runs = try journal.runs(limit: 5)
        #expect(runs.map(\.id) == ["b", "a"])
        #expect(runs.first?.exit == 65)
        #expect(runs.last?.ended == nil)
    }

    @Test("sets a damaged file aside by name and starts anew only on the next run")
    func damage() throws {
        do { _ = try EvidenceJournal(in: StateFolder(state)).capture([[1]]) }
        try Data("this is no database at all, only text".utf8).write(
            to: URL(fileURLWithPath: state + "/journal.sqlite"))
        #expect {
            _ = try EvidenceJournal(in: StateFolder(state))
        } throws: { error in
            (error as? JournalFailure)?.code == .damaged
                && "\(error)".contains("journal.sqlite.damaged-")
        }
        let kept = try FileManager.default.contentsOfDirectory(atPath: state)
        #expect(kept.contains { $0.hasPrefix("journal.sqlite.damaged-") })
        #expect(try EvidenceJournal(in: StateFolder(state)).feeds(.pending).isEmpty)
    }

    @Test("says which feed it does not know")
    func unknownFeed() throws {
        let journal = try EvidenceJournal(in: StateFolder(state))
        #expect {
            _ = try journal.feed("no-such-feed")
        } throws: {
            "\($0)".contains("no-such-feed")
        }
    }
}

@Suite("The state folder")
struct StateFolderTests {
    private let temporary: TemporaryFolder

    init() throws { temporary = try TemporaryFolder() }

    @Test("is made private, and so is everything in it")
    func modes() throws {
        let state = temporary.file("a/b/state")
        let folder = try StateFolder(state)
        _ = try EvidenceJournal(in: folder)
        for name in ["", "/lock", "/journal.sqlite"] {
            let facts = try FileManager.default.attributesOfItem(atPath: state + name)
            let mode = try #require(facts[.posixPermissions] as? NSNumber)
            #expect(mode.intValue & 0o077 == 0, "\(name) has mode \(mode)")
        }
    }

    @Test("open to others is refused with the command that mends it")
    func openFolder() throws {
        let state = temporary.file("open")
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: state)
        #expect {
            _ = try StateFolder(state)
        } throws: { error in
            (error as? JournalFailure)?.code == .permission && "\(error)".contains("chmod 700")
        }
    }

    @Test("belongs to one holder at a time")
    func lock() throws {
        let state = temporary.file("state")
        do {
            let holder = try StateFolder(state)
            #expect {
                _ = try StateFolder(state)
            } throws: {
                ($0 as? JournalFailure)?.code == .locked
            }
            withExtendedLifetime(holder) {}
        }
        _ = try StateFolder(state)
    }

    @Test("that cannot be made is named")
    func impossible() throws {
        let file = try temporary.write("file", "x")
        #expect {
            _ = try StateFolder(file + "/state")
        } throws: { error in
            (error as? JournalFailure)?.code == .cannotCreate && "\(error)".contains(file)
        }
    }
}

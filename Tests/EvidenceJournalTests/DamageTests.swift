import APNsProtocol
import Database
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("A damaged or foreign journal")
struct DamageTests {
    private let fixture: JournalFixture
    private var state: String { fixture.state }
    private var file: String { fixture.file }

    init() throws { fixture = try JournalFixture() }

    private func capture() throws -> String {
        let journal = try fixture.journal()
        let id = try journal.capture([[UInt8](0...9)])
        try journal.quarantine([Quarantined(offset: 0, length: 1, reason: "x")], of: id)
        try journal.beginRun("run", kind: "sweep", at: noon)
        return id
    }

    private func opened(_ path: String) throws -> SQLiteConnection {
        let connection = SQLiteConnection(path: path, .existing, busySeconds: 1)
        try connection.connect()
        return connection
    }

    @Test("a damaged journal is set aside by name, and every later run names it")
    func setAside() throws {
        for count in 1...2 {
            _ = try capture()
            try Data("this is not a database at all, only text".utf8).write(
                to: URL(fileURLWithPath: file))
            // What came from the socket belongs to a feed of this journal.
            try Data("bytes".utf8).write(to: URL(fileURLWithPath: state + "/arriving"))
            expectFailure(.damaged, "journal.sqlite.damaged-") { try fixture.journal() }
            let journal = try fixture.journal()
            #expect(try journal.lists(.pending).isEmpty)
            let names = try journal.damagedFiles
            #expect(names.count == count)
            let files = try FileManager.default.contentsOfDirectory(atPath: state)
            #expect(names.allSatisfy { files.contains($0 + "-arriving") })
            for name in names {
                #expect(name.hasPrefix("journal.sqlite.damaged-"))
                #expect(
                    try Data(contentsOf: URL(fileURLWithPath: state + "/" + name)).starts(
                        with: Data("this is not a database".utf8)))
            }
        }
    }

    /// A journal with a feed of several pages and one that waits, of which a middle page is
    /// damaged.
    private func damagePage() throws -> (broken: String, waiting: String) {
        let names = try [UInt8(0xAB), 0xCD].map { byte in
            try fixture.journal().capture(
                Array(repeating: [UInt8](repeating: byte, count: 10_000), count: 40))
        }
        var bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: file)))
        let size = 16_384
        // Pages that begin with bytes of the first feed's chunks are its leaves or overflow pages.
        let pages = (1..<bytes.count / size).filter { page in
            bytes[page * size..<(page + 1) * size].count { $0 == 0xAB } > 4_000
        }
        for page in pages.dropFirst(3).prefix(10) {
            for place in page * size..<(page + 1) * size { bytes[place] = 0xFF }
        }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        return (names[0], names[1])
    }

    @Test(
        "damage found while reading sets the journal aside too, and nothing more is written to it")
    func metLater() throws {
        let (broken, waiting) = try damagePage()
        do {
            let journal = try fixture.journal()
            #expect(try journal.lists(.pending).count == 2)
            let failure = try #require(
                #expect(throws: JournalFailure.self) {
                    try journal.forEachChunk(of: broken) { _ in }
                })
            #expect(failure.code == .damaged)
            #expect(failure.description.contains("journal.sqlite.damaged-"))
            #expect(throws: failure) { try journal.beginRun("next", kind: "sweep", at: noon) }
            #expect(throws: failure) { _ = try journal.list(waiting) }
            for name in ["journal.sqlite", "journal.sqlite-journal"] {
                #expect(!FileManager.default.fileExists(atPath: state + "/" + name))
            }
        }
        let next = try fixture.journal()
        #expect(try next.lists(.pending).isEmpty)
        let names = try next.damagedFiles
        #expect(names.count == 1)
        // The readable part is still in it.
        let kept = try opened(state + "/" + (names.first ?? ""))
        let whole = try kept.query(
            "SELECT SUM(length(bytes)) FROM chunk WHERE feed = ?", [.text(waiting)]
        ).scalar
        #expect(whole == .integer(400_000))
    }

    @Test("a damaged journal of a sender that may still run is named and stays in place")
    func visited() throws {
        let owner = try SenderFolders.takeFree(in: state)
        _ = try EvidenceJournal(in: owner)
        let journal = owner.file("journal.sqlite")
        try Data("no database".utf8).write(to: URL(fileURLWithPath: journal))
        let folder = try #require(
            SenderFolders.neighbours(in: state).folders.first { $0.sender != nil }
        ).folder
        let failure = #expect(throws: JournalFailure.self) { _ = try EvidenceJournal(in: folder) }
        #expect(failure?.description.contains(journal) == true)
        #expect(FileManager.default.fileExists(atPath: journal))
        #expect(try owner.damagedFiles.isEmpty)
    }

    @Test("a journal of another program is refused by name and not touched")
    func foreign() throws {
        let folder = try StateFolder(state)
        try Data().write(to: URL(fileURLWithPath: file))
        try opened(file).run("CREATE TABLE other (id INTEGER)")
        let before = try Data(contentsOf: URL(fileURLWithPath: file))
        for _ in 0..<2 {
            expectFailure(.damaged, "\(file): it is an SQLite database of another program") {
                try EvidenceJournal(in: folder)
            }
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        #expect(try folder.damagedFiles.isEmpty)
    }

    @Test("a journal of another layout is refused with the way out, and left as it is")
    func otherLayout() throws {
        _ = try capture()
        try opened(file).run("PRAGMA user_version = 3")
        let before = try Data(contentsOf: URL(fileURLWithPath: file))
        let folder = try StateFolder(state)
        for open in [
            { try EvidenceJournal(in: folder) }, { try EvidenceJournal(reading: folder) },
        ] {
            expectFailure(
                .inputOutput, "the layout of another build, which this one does not read", open)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        #expect(try folder.damagedFiles.isEmpty)
    }

    @Test("a journal whose creation was killed before its first table is completed")
    func interruptedCreation() throws {
        _ = try StateFolder(state)
        try Data().write(to: URL(fileURLWithPath: file))
        let id = try capture()
        let number = try opened(file).query("PRAGMA application_id").scalar
        #expect(number == .integer(1_349_873_719))
        #expect(try fixture.journal().list(id).bytes == 10)
    }

    @Test(
        "an impossible value in the journal is reported, and the rest stays readable",
        arguments: [
            "UPDATE feed SET opened = 'x'", "UPDATE feed SET bytes = x'ff'",
            "UPDATE feed SET state = 'pendinh'", "UPDATE feed SET state = 7",
            "UPDATE feed SET end = 'close-notifx'", "UPDATE feed SET settled = 'x'",
            "UPDATE feed SET id = x'ff'", "UPDATE feed SET cause = x'ff'",
        ])
    func unreadableFeed(statement: String) throws {
        _ = try capture()
        try opened(file).run(statement)
        let journal = try fixture.journal()
        expectFailure(.inputOutput, "never writes") { try journal.lists(.pending) }
        #expect(try journal.runs(limit: 1).count == 1)
    }

    @Test("an empty piece of a feed is reported and does not loop for ever")
    func emptyPiece() throws {
        let id = try capture()
        try opened(file).run("UPDATE chunk SET bytes = x''")
        let journal = try fixture.journal()
        expectFailure(.inputOutput, "never writes") { try journal.bytes(of: id) }
    }

    @Test("an unreadable run or quarantine entry is reported")
    func unreadableRest() throws {
        let id = try capture()
        try opened(file).run(
            "UPDATE run SET started = 'x'; UPDATE quarantine SET length = 'x'")
        let journal = try fixture.journal()
        #expect(throws: JournalFailure.self) { _ = try journal.runs(limit: 1) }
        #expect(throws: JournalFailure.self) { _ = try journal.quarantined(of: id) }
        #expect(try journal.lists(.pending).count == 1)
    }
}

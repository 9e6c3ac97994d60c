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

    private func record() throws {
        try fixture.journal().beginRun("run", kind: "sweep", at: noon)
    }

    private func opened(_ path: String) throws -> SQLiteConnection {
        let connection = SQLiteConnection(path: path, .existing, busySeconds: 1)
        try connection.connect()
        return connection
    }

    @Test("a damaged journal is set aside by name, and every later run names it")
    func setAside() throws {
        for count in 1...2 {
            try record()
            try Data("this is not a database at all, only text".utf8).write(
                to: URL(fileURLWithPath: file))
            expectFailure(.damaged, "journal.sqlite.damaged-") { try fixture.journal() }
            let journal = try fixture.journal()
            #expect(try journal.runs(limit: 1).isEmpty)
            let names = try journal.folder.damagedFiles
            #expect(names.count == count)
            for name in names {
                #expect(name.hasPrefix("journal.sqlite.damaged-"))
                #expect(
                    try Data(contentsOf: URL(fileURLWithPath: state + "/" + name)).starts(
                        with: Data("this is not a database".utf8)))
            }
        }
    }

    @Test(
        "damage found while reading sets the journal aside too, and nothing more is written to it")
    func metLater() throws {
        do {
            let journal = try fixture.journal()
            for number in 0..<40 {
                try journal.beginRun("\(number)", kind: "sweep", at: noon)
                let summary = String(repeating: "s", count: 10_000)
                try journal.endRun("\(number)", exit: 0, summary: summary, at: noon)
            }
        }
        var bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: file)))
        let pages = bytes.count / 16_384
        for place in (pages / 2) * 16_384..<(pages / 2 + 6) * 16_384 { bytes[place] = 0xFF }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        do {
            let journal = try fixture.journal()
            let failure = try #require(
                #expect(throws: JournalFailure.self) { try journal.runs(limit: 99) })
            #expect(failure.code == .damaged)
            #expect(failure.description.contains("journal.sqlite.damaged-"))
            #expect(throws: failure) { try journal.beginRun("next", kind: "sweep", at: noon) }
            for name in ["journal.sqlite", "journal.sqlite-journal"] {
                #expect(!FileManager.default.fileExists(atPath: state + "/" + name))
            }
        }
        let next = try fixture.journal()
        #expect(try next.runs(limit: 1).isEmpty && next.folder.damagedFiles.count == 1)
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
        try record()
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
        try record()
        let number = try opened(file).query("PRAGMA application_id").scalar
        #expect(number == .integer(1_349_873_719))
        #expect(try fixture.journal().runs(limit: 2).count == 1)
    }

    @Test("an unreadable record of a run is reported")
    func unreadableRun() throws {
        try record()
        try opened(file).run("UPDATE run SET started = 'x'")
        let journal = try fixture.journal()
        expectFailure(.inputOutput, "never writes") { try journal.runs(limit: 1) }
    }

    @Test(
        "a journal of an earlier build is refused while lists wait in it, and goes on without its lists then"
    )
    func earlierBuild() throws {
        try record()
        try opened(file).run(
            """
            CREATE TABLE feed (id TEXT, state TEXT); CREATE TABLE chunk (id TEXT); CREATE TABLE quarantine (id TEXT);
            INSERT INTO feed VALUES ('a', 'applied'), ('b', 'held'); PRAGMA user_version = 4;
            """)
        let before = try Data(contentsOf: URL(fileURLWithPath: file))
        expectFailure(.otherBuild, "lists of an earlier build that wait (1)") {
            try fixture.journal()
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        try opened(file).run("UPDATE feed SET state = 'applied'")
        #expect(try fixture.journal().runs(limit: 2).count == 1)
        #expect(throws: SQLFailure.self) { try opened(file).query("SELECT * FROM feed") }
    }
}

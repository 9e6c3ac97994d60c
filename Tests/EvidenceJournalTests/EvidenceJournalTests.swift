import APNsProtocol
@testable import EvidenceJournal
import Foundation
import Glibc
import TestSupport
import Testing
import TokenHygiene

@Suite("The evidence journal")
struct EvidenceJournalTests {
    private let fixture: JournalFixture

    init() throws { fixture = try JournalFixture() }

    @Test("the journal drops old runs, except the last of each kind and the last success")
    func forgets() throws {
        let journal = try fixture.journal()
        let runs: [(id: String, kind: String, exit: Int32?, summary: String)] = [
            ("old", "sweep", 0, "{}"), ("good", "sweep", 0, "{}"), ("killed", "sweep", nil, ""),
            ("bad", "sweep", 75, "{}"), ("trial", "sweep", 0, #"{"dryRun":true}"#),
            ("undo", "undo", 0, "{}"), ("young", "replay", 0, "{}"),
        ]
        for (number, run) in runs.enumerated() {
            let began = noon.advanced(by: Int64(number))
            try journal.beginRun(run.id, kind: run.kind, at: began)
            guard let exit = run.exit else { continue }
            try journal.endRun(run.id, exit: exit, summary: run.summary, at: began)
        }
        #expect(try journal.forgetRuns(before: noon.advanced(by: 6)) == 3)
        #expect(try journal.runs(limit: 9).map(\.id) == ["young", "undo", "bad", "good"])
        #expect(try journal.lastRun("sweep")?.run.id == "bad")
        #expect(try journal.lastRun("sweep")?.succeeded == noon.advanced(by: 1))
    }

    @Test("a success in the future counts only where it is asked for")
    func futureSuccess() throws {
        let journal = try fixture.journal()
        for (id, offset) in [("early", Int64(1)), ("ahead", 9_000)] {
            try journal.beginRun(id, kind: "sweep", at: noon.advanced(by: offset))
            try journal.endRun(id, exit: 0, summary: "{}", at: noon.advanced(by: offset))
        }
        #expect(try journal.lastRun("sweep")?.succeeded == noon.advanced(by: 9_000))
        let limited = try journal.lastRun("sweep", successUntil: noon.advanced(by: 10))
        #expect(limited?.succeeded == noon.advanced(by: 1))
        #expect(limited?.run.id == "ahead")
    }

    @Test("the journal remembers runs with their exit code and summary")
    func runs() throws {
        let journal = try fixture.journal()
        try journal.beginRun("a", kind: "sweep", at: noon)
        try journal.beginRun("b", kind: "replay", at: noon.advanced(by: 5))
        try journal.endRun("b", exit: 65, summary: "{}", at: noon.advanced(by: 9))
        let runs = try journal.runs(limit: 5)
        #expect(runs.map(\.id) == ["b", "a"])
        #expect(runs.first?.exit == 65)
        #expect(runs.last?.ended == nil)
    }
}

@Suite("The state folder")
struct StateFolderTests {
    private let temporary: TemporaryFolder

    init() throws { temporary = try TemporaryFolder() }

    @Test("the state folder and its files are made private, whatever the umask")
    func modes() throws {
        let state = temporary.file("a/b/state")
        let folder = try StateFolder(state)
        let journal = try EvidenceJournal(in: folder)
        try journal.beginRun("a", kind: "sweep", at: noon)
        let lists = try [folder.capture([[1]], end: nil), folder.capture([[1]])]
        try folder.noteApplied(lists[1], at: noon)
        let names = try FileManager.default.contentsOfDirectory(atPath: state)
        #expect(
            names.sorted() == [
                "applied-\(lists[1])", "journal.sqlite", "journal.sqlite-journal",
                "list-\(lists[0])", "lock",
            ]
        )
        for name in names {
            #expect(try mode(of: state + "/" + name) == 0o600, "\(name)")
        }
        #expect(try mode(of: state) == 0o700)
    }

    @Test("a journal that was open to others is made private")
    func mendsMode() throws {
        let state = temporary.file("state")
        do { _ = try EvidenceJournal(in: StateFolder(state)) }
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o644], ofItemAtPath: state + "/journal.sqlite")
        _ = try EvidenceJournal(in: StateFolder(state))
        #expect(try mode(of: state + "/journal.sqlite") == 0o600)
    }

    private func mode(of path: String) throws -> Int {
        let facts = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(facts[.posixPermissions] as? NSNumber).intValue
    }

    @Test("a folder open to others is refused with the command that corrects it")
    func openFolder() throws {
        let state = temporary.file("open")
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: state)
        expectFailure(.permission, "chmod 700") { try StateFolder(state) }
    }

    @Test("the folder has one holder at a time")
    func lock() throws {
        let state = temporary.file("state")
        do {
            let holder = try StateFolder(state)
            expectFailure(.locked) { try StateFolder(state) }
            withExtendedLifetime(holder) {}
        }
        _ = try StateFolder(state)
    }

    @Test("taking the folder removes the temporary files of a killed run, and nothing else")
    func temporaryFiles() throws {
        let state = temporary.file("state")
        func names() throws -> Set<String> {
            try Set(FileManager.default.contentsOfDirectory(atPath: state))
        }
        _ = try StateFolder(state)
        let others = ["etilqs", "my-etilqs_1", "my-scratch.sqlite"]
        // SQLite's own, and tokens that a killed run had sorted.
        for name in others + [
            "etilqs_8eb86f605b5e85b3", "etilqs_1", "scratch.sqlite", "scratch-8eb86f60",
        ] {
            try Data().write(to: URL(fileURLWithPath: "\(state)/\(name)"))
        }
        let holder = try StateFolder(state)
        #expect(try names() == Set(others + ["lock"]))
        // A run that finds the folder held leaves the holder's files alone.
        try Data().write(to: URL(fileURLWithPath: "\(state)/etilqs_2"))
        #expect(throws: JournalFailure.self) { try StateFolder(state) }
        #expect(try names() == Set(others + ["lock", "etilqs_2"]))
        withExtendedLifetime(holder) {}
    }

    @Test("a released folder is free, even while a starting child process has its lock open")
    func inheritedLock() throws {
        let state = temporary.file("state")
        // A fork copies this: another descriptor of the same open file.
        var copy: Int32 = -1
        do {
            let holder = try StateFolder(state)
            let links = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
            let lock = links.first {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0))
                    == state + "/lock"
            }
            copy = dup(try #require(lock.flatMap { Int32($0) }))
            withExtendedLifetime(holder) {}
        }
        #expect(copy >= 0)
        _ = try StateFolder(state)
        close(copy)
    }

    @Test("a link that leads nowhere is no absent folder, since its volume may not be mounted")
    func strayLink() throws {
        let state = temporary.file("state")
        #expect(try !StateFolder.exists(state))
        #expect(symlink(temporary.file("nowhere"), state) == 0)
        expectFailure(.cannotCreate, state) { try StateFolder.exists(state) }
        expectFailure(.cannotCreate, state) { try StateFolder.examine(state) }
        #expect(unlink(state) == 0 && mkdir(state, 0o700) == 0)
        #expect(try StateFolder.exists(state))
    }

    @Test("a folder that cannot be made is named")
    func impossible() throws {
        let file = try temporary.write("file", "x")
        expectFailure(.cannotCreate, file) { try StateFolder(file + "/state") }
    }
}

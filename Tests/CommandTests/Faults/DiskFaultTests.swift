// A disk that is full, read-only or broken, and a process that may open no more files: a system
// call of the sweep or the sender fails, from one of its occurrences on to the end of the run, or
// just once. The run reports any fault by exit code and closing line, or has done everything; the
// run after it completes the work.

import Foundation
import Glibc
import TestSupport
import Testing

extension Fault {
    /// One failure of the disk, which is sound again in the next moment.
    fileprivate static let momentary = ["pwrite64", "fdatasync", "pread64"].map {
        Fault($0, "EIO", once: true)
    }
}

extension TokenDatabase {
    /// The files of an SQLite database; none for another engine.
    fileprivate var sqliteFiles: [String] {
        guard case .sqlite(let path) = settings.location else { return [] }
        return [path, path + "-wal"]
    }
}

/// The files of a state folder's journal.
private func journalFiles(in state: String) -> [String] {
    ["/journal.sqlite", "/journal.sqlite-journal"].map { state + $0 }
}

@Suite(
    "A sweep whose disk fails", .serialized,
    .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
struct DiskFaultTests {
    private let sweeps = FaultInjection(name: "a sweep") { _, random in
        try MixedSweep.inTwoPieces(.sqlite, random: &random)
    }

    @Test("a fault of the journal loses nothing durable, is reported, and the next sweep completes")
    func journal() throws {
        try sweeps.fail(
            [
                Fault("pwrite64", "ENOSPC"), Fault("pwrite64", "EIO"), Fault("pread64", "EIO"),
                Fault("fdatasync", "EIO"), Fault("openat", "EROFS"), Fault("openat", "EMFILE"),
            ], codes: [73, 74]
        ) { journalFiles(in: $0.stage.state) }
    }

    @Test(
        "a fault of a list's file loses nothing durable, is reported, and the next sweep completes")
    func lists() throws {
        try sweeps.fail(
            [
                Fault("pwritev", "ENOSPC"), Fault("pwritev", "EIO"),
                Fault("pwritev", "EIO", once: true),
                Fault("fallocate", "ENOSPC"), Fault("utimensat", "EROFS"),
                Fault("renameat", "EROFS"),
            ], codes: [73, 74], most: 6
        ) { _ in [] }
        // Other files are synced so too.
        try sweeps.fail(
            [Fault("fdatasync", "EIO"), Fault("fdatasync", "EIO", once: true)],
            codes: [69, 73, 74, 75, 77, 78], most: 8
        ) { _ in [] }
    }

    @Test("a single fault of the journal loses nothing durable and never calls the rest read")
    func momentarily() throws {
        try sweeps.fail(
            Fault.momentary, codes: [73, 74], most: 12
        ) { journalFiles(in: $0.stage.state) }
    }

    @Test("a read error while the journal opens sets no good journal aside and loses no feed")
    func unreadable() throws {
        var random = SeededGenerator("an unreadable journal")
        for number in stride(from: 2, through: 10, by: 2) {
            let sweep = try MixedSweep.inTwoPieces(.sqlite, random: &random)
            try sweep.stage.run("sweep", "--dry-run").ends(75)
            let result = try sweep.stage.run(
                ["sweep"],
                under: Strace.failing(
                    "pread64", with: "EIO", from: number, at: [sweep.stage.journal]))
            let problem =
                result.exit == 74
                ? try sweeps.wrongEnd(result, sweep, [74]) ?? sweep.recover()
                : "exit \(result.exit)"
            #expect(problem == nil, "seed \(random.seed), read \(number): \(problem ?? "")")
        }
    }

    @Test("a fault of the state folder is reported, and the next sweep completes the work")
    func folder() throws {
        try sweeps.fail(
            [
                Fault("mkdir", "EROFS"), Fault("mkdir", "ENOSPC"), Fault("flock", "ENOLCK"),
                Fault("fchmod", "EPERM"), Fault("write", "ENOSPC"), Fault("fsync", "EIO"),
                Fault("openat", "EMFILE"),
            ], codes: [73, 74, 77]
        ) { sweep in
            ["", "/identity", "/lock"].map { sweep.stage.state + $0 }
        }
    }

    @Test("a fault of the token database is reported, and the next sweep completes the work")
    func tokens() throws {
        try sweeps.fail(
            [
                Fault("pwrite64", "ENOSPC"), Fault("pread64", "EIO"), Fault("fdatasync", "EIO"),
                Fault("openat", "EROFS"),
            ], codes: [69, 75, 77, 78]
        ) { $0.stage.database.sqliteFiles }
    }

    @Test("a single fault of the token database leaves it whole, and the next sweep completes")
    func momentarilyInTokens() throws {
        try sweeps.fail(
            Fault.momentary, codes: [69, 75, 77, 78], most: 8
        ) { $0.stage.database.sqliteFiles }
    }

    @Test("a sweep without free descriptors reports that, and the next sweep completes the work")
    func descriptors() throws {
        try sweeps.fail(
            [Fault("openat", "EMFILE"), Fault("socket", "EMFILE")],
            codes: [69, 73, 74, 75, 77, 78, ExitOfLoader.missingLibrary], most: 8
        ) { _ in [] }
    }
}

@Suite(
    "A sender whose disk fails", .serialized,
    .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
struct SenderDiskFaultTests {
    // A sender that could not read the folders of others has done its own work.
    private let senders = FaultInjection(
        name: "a sender", wordsOfPending: ["error: ", "warning: "]
    ) { _, _ in
        try MixedSend(.sqlite, count: 100)
    }

    @Test("a fault of the journal loses no answer, is reported, and the next sender completes")
    func journal() throws {
        try senders.fail(
            [
                Fault("pwrite64", "ENOSPC"), Fault("pwrite64", "EIO"), Fault("pread64", "EIO"),
                Fault("fdatasync", "EIO"), Fault("openat", "EROFS"), Fault("openat", "EMFILE"),
            ], codes: [73, 74]
        ) { journalFiles(in: $0.state) }
    }

    @Test("a single fault of the journal loses no answer and sends nothing twice")
    func momentarily() throws {
        try senders.fail(
            Fault.momentary, codes: [73, 74], most: 12
        ) { journalFiles(in: $0.state) }
    }

    @Test("a fault of the state folder is reported, and the next sender completes the work")
    func folder() throws {
        try senders.fail(
            [
                Fault("mkdir", "EROFS"), Fault("mkdir", "ENOSPC"), Fault("flock", "ENOLCK"),
                Fault("fsync", "EIO"), Fault("openat", "EMFILE"),
            ], codes: [73, 74, 75, 77]
        ) { send in
            let state = send.stage.folder.file("state")
            return [state, state + "/send", send.state, send.state + "/lock"]
        }
    }

    @Test("a fault of the queue's database is reported, and the next sender completes the work")
    func queue() throws {
        try senders.fail(
            [
                Fault("pwrite64", "ENOSPC"), Fault("pread64", "EIO"), Fault("fdatasync", "EIO"),
                Fault("openat", "EROFS"),
            ], codes: [69, 75, 77, 78]
        ) { $0.stage.database.sqliteFiles }
    }

    @Test("a single fault of the queue's database sends nothing twice, and the next completes")
    func momentarilyInQueue() throws {
        try senders.fail(
            Fault.momentary, codes: [69, 75, 77, 78], most: 8
        ) { $0.stage.database.sqliteFiles }
    }

    @Test("a sender without free descriptors reports that, and the next sender completes the work")
    func descriptors() throws {
        try senders.fail(
            [Fault("openat", "EMFILE"), Fault("socket", "EMFILE")],
            codes: [69, 73, 74, 75, 77, 78, ExitOfLoader.missingLibrary], most: 8
        ) { _ in [] }
    }
}

/// A file system in memory that is nearly full from the start.
final class TinyDisk {
    let path: String
    private let folder: TemporaryFolder

    /// The message of skipped tests.
    static let absence = "mounting a tmpfs takes root"

    init?(mebibytes: Int) throws {
        folder = try TemporaryFolder()
        path = folder.path
        let options = "size=\(mebibytes)m,mode=700"
        guard try Self.run("/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", path) else {
            return nil
        }
    }

    deinit { _ = try? Self.run("/bin/umount", path) }

    private static func run(_ program: String, _ words: String...) throws -> Bool {
        try RunningTool(program: URL(fileURLWithPath: program), words).wait().exit == 0
    }
}

@Suite("A disk with too little room")
struct FullDiskTests {
    @Test(
        "a sweep refuses a disk with too little room before it asks the gateway for its only copy",
        .enabled(if: getuid() == 0, Comment(rawValue: TinyDisk.absence)))
    func refused() throws {
        var random = SeededGenerator("a full disk")
        let sweep = try MixedSweep.inTwoPieces(.sqlite, random: &random)
        // A container may forbid it even to root.
        guard let disk = try TinyDisk(mebibytes: 63) else {
            return print("skipped: \(TinyDisk.absence)")
        }
        let result = try sweep.stage.run(
            "sweep", environment: ["PUSHSWEEP_STATE": disk.path + "/state"]
        ).ends(73, "code=73 stage=state pending=0 applied=0")
        #expect(result.error.contains("MiB free") && result.error.contains(disk.path))
        #expect(sweep.stage.gateway.records.isEmpty)
        #expect(try sweep.recover() == nil)
    }
}

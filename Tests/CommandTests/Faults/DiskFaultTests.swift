// A disk that is full, read-only or broken, and a process that may open no more files: a system call of
// the sweep fails, from one of its occurrences on to the end of the run. Whatever it is, the run says so
// by exit code and closing line, or has done everything; and the run after it completes the work.

import Foundation
import Glibc
import TestSupport
import Testing

@Suite(
    "A sweep whose disk fails", .serialized,
    .enabled(if: Strace.isUsable, Comment(rawValue: Strace.absence)))
struct DiskFaultTests {
    /// A system call and how it fails.
    struct Fault: CustomStringConvertible, Sendable {
        let call: String
        let error: String
        var description: String { "\(error) from \(call)" }

        init(_ call: String, _ error: String) { (self.call, self.error) = (call, error) }
    }

    private static let ofFiles = [
        Fault("pwrite64", "ENOSPC"), Fault("pwrite64", "EIO"), Fault("pwrite64", "EDQUOT"),
        Fault("pread64", "EIO"), Fault("fdatasync", "EIO"), Fault("fsync", "EIO"),
        Fault("ftruncate", "EIO"), Fault("openat", "EROFS"), Fault("openat", "EMFILE"),
        Fault("openat", "ENOSPC"), Fault("openat", "EACCES"), Fault("fcntl", "ENOLCK"),
    ]
    private static let ofTheFolder = [
        Fault("mkdir", "EROFS"), Fault("mkdir", "ENOSPC"), Fault("flock", "ENOLCK"),
        Fault("fchmod", "EPERM"), Fault("write", "ENOSPC"), Fault("unlink", "EROFS"),
        Fault("fsync", "EIO"), Fault("openat", "EMFILE"),
    ]

    @Test("under the journal keeps what is durable, ends with 73, 74 or 77, and the next completes it")
    func journal() throws {
        for fault in Self.ofFiles {
            try check(fault, codes: [73, 74]) {
                ["/journal.sqlite", "/journal.sqlite-journal"].map($0.stage.state.appending)
            }
        }
    }

    @Test("under the scratch file does so too")
    func scratch() throws {
        for fault in Self.ofFiles {
            try check(fault, codes: [73, 74]) { [$0.stage.state + "/scratch.sqlite"] }
        }
    }

    @Test("under the state folder does so too")
    func folder() throws {
        for fault in Self.ofTheFolder {
            try check(fault, codes: [73, 74, 77]) { sweep in
                ["", "/identity", "/lock"].map { sweep.stage.state + $0 }
            }
        }
    }

    @Test("under the token database ends with a code that says so, and the next completes it")
    func tokens() throws {
        for fault in Self.ofFiles {
            try check(fault, codes: [69, 74, 75, 77, 78]) { sweep in
                guard case .sqlite(let path) = sweep.stage.database.settings.location else {
                    return []
                }
                return [path, path + "-wal"]
            }
        }
    }

    @Test("with no descriptor left ends with a code that says so, and the next completes it")
    func descriptors() throws {
        for call in ["openat", "socket"] {
            try check(Fault(call, "EMFILE"), codes: [69, 73, 74, 75, 77, 78, 127], most: 12) { _ in [] }
        }
    }

    /// Lets the call fail from each of some occurrences on, at the paths alone if there are any.
    private func check(
        _ fault: Fault, codes: Set<Int32>, most: Int = 3, at paths: (MixedSweep) -> [String]
    ) throws {
        var random = SeededGenerator("\(fault)")
        let whole = try MixedSweep.inTwoPieces(.sqlite, random: &random)
        let log = whole.stage.folder.file("calls")
        let count = try countOf(fault.call, whole, paths(whole), log)
        var ends: [Int32: Int] = [:]
        for number in Sample.occurrences(of: count, most: most, &random) {
            let sweep = try MixedSweep.inTwoPieces(.sqlite, random: &random)
            let result = try sweep.stage.start(
                ["sweep"],
                under: Strace.failing(
                    fault.call, with: fault.error, from: number, at: paths(sweep))
            ).wait()
            ends[result.exit, default: 0] += 1
            let problem = try wrongEnd(result, sweep, codes) ?? sweep.recover()
            #expect(
                problem == nil,
                "seed \(random.seed), \(fault) from \(number) of \(count): \(problem ?? "")")
        }
        print("\(fault), \(count) calls: exits \(ends.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" })")
    }

    private func countOf(
        _ call: String, _ sweep: MixedSweep, _ paths: [String], _ log: String
    ) throws -> Int {
        let result = try sweep.stage.start(
            ["sweep"], under: Strace.recording([call], into: log, at: paths)
        ).wait()
        #expect(result.exit == 0, "\(result.error)")
        return try Strace.counts(in: log)[call] ?? 0
    }

    /// Success means that all is done; anything else is said, in the words for scripts.
    private func wrongEnd(
        _ result: ToolResult, _ sweep: MixedSweep, _ codes: Set<Int32>
    ) throws -> String? {
        if result.exit == 0 { return try sweep.wrongEnd(after: sweep.feed.count * 38) }
        guard codes.contains(result.exit) else { return "exit \(result.exit): \(result.error)" }
        let closing = "code=\(result.exit) stage="
        let isSaid = result.closingLine.hasPrefix(closing) && result.error.contains("error: ")
        return isSaid ? nil : "exit \(result.exit) without a word: \(result.error)"
    }
}

/// A file system in memory that is nearly full from the start.
final class TinyDisk {
    let path: String
    private let folder: TemporaryFolder

    /// Said by tests that are skipped.
    static let absence = "mounting a tmpfs takes root"

    init?(mebibytes: Int) throws {
        folder = try TemporaryFolder()
        path = folder.path
        guard try Self.run("/bin/mount", "-t", "tmpfs", "-o", "size=\(mebibytes)m,mode=700", "tmpfs", path)
        else { return nil }
    }

    deinit { _ = try? Self.run("/bin/umount", path) }

    private static func run(_ program: String, _ words: String...) throws -> Bool {
        try RunningTool(program: URL(fileURLWithPath: program), words).wait().exit == 0
    }
}

@Suite("A disk with too little room")
struct FullDiskTests {
    @Test(
        "is refused before the gateway is asked for its only copy",
        .enabled(if: getuid() == 0, Comment(rawValue: TinyDisk.absence)))
    func refused() throws {
        var random = SeededGenerator("a full disk")
        let sweep = try MixedSweep.inTwoPieces(.sqlite, random: &random)
        // A container may have root and forbid it all the same.
        guard let disk = try TinyDisk(mebibytes: 63) else { return print("skipped: \(TinyDisk.absence)") }
        let result = try sweep.stage.start(
            ["sweep"], environment: ["PUSHSWEEP_STATE": disk.path + "/state"]
        ).wait()
        #expect(result.exit == 73, "\(result.error)")
        #expect(result.closingLine.hasPrefix("code=73 stage=state pending=0 applied=0"))
        #expect(result.error.contains("MiB free") && result.error.contains(disk.path))
        #expect(sweep.stage.gateway.records.isEmpty)
        #expect(try sweep.recover() == nil)
    }
}

import Foundation
import SecureTransport
import TestSupport
import Testing

@testable import EvidenceJournal
@testable import Operations

@Suite("Files and pipes that are handed in")
struct GivenSourceTests {
    private func source(_ path: String) throws -> GivenSource {
        try GivenSource(path, doing: "importing", at: .read, Interrupt())
    }

    @Test(
        "a file that changes while it is read is refused, also where its size stays",
        arguments: ["", "b\n", "b\nc\n"])
    func changed(_ text: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "a\n")
        let before = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
        #expect(utimensat(AT_FDCWD, path, before, 0) == 0)
        let unchanged = try source(path)
        while try unchanged.next({ _ in }) {}
        let source = try source(path)
        var first: [UInt8] = []
        #expect(try source.next { first += $0 })
        #expect(first == Array("a\n".utf8))
        // As `copytruncate` of logrotate and a writer after it do, in the same file.
        let writer = try #require(FileHandle(forWritingAtPath: path))
        try writer.truncate(atOffset: 0)
        try writer.write(contentsOf: Data(text.utf8))
        try writer.close()
        let failure = #expect(throws: RunFailure.self) { while try source.next({ _ in }) {} }
        #expect("\(try #require(failure))".contains("the file changed while it was read"))
    }

    @Test("a log that only grows while it is read counts as far as it was read")
    func grown() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("log", "a\n")
        let before = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
        #expect(utimensat(AT_FDCWD, path, before, 0) == 0)
        let source = try source(path)
        var read: [UInt8] = []
        #expect(try source.next { read += $0 })
        let writer = try #require(FileHandle(forWritingAtPath: path))
        try writer.seekToEnd()
        try writer.write(contentsOf: Data("b\n".utf8))
        try writer.close()
        while try source.next({ read += $0 }) {}
        #expect(read.starts(with: Array("a\n".utf8)))
    }

    @Test("two pipes of one state folder never share a file, also with one process number")
    func apart() throws {
        let state = try TemporaryFolder().file("state")
        let spools = [try SpoolFile(in: state), try SpoolFile(in: state)]
        for (spool, text) in zip(spools, ["one", "second"]) {
            try Array(text.utf8).withUnsafeBytes { try spool.append($0) }
        }
        let contents = try spools.map { try String(contentsOfFile: $0.path, encoding: .utf8) }
        #expect(contents == ["one", "second"])
    }

    @Test("a file with the bytes of a pipe is gone with its run unless it is kept, and named then")
    func kept() throws {
        let temporary = try TemporaryFolder()
        let state = temporary.file("state")
        func spool() throws -> SpoolFile {
            let spool = try SpoolFile(in: state)
            try Array("bytes".utf8).withUnsafeBytes { try spool.append($0) }
            return spool
        }
        var path = try spool().path
        #expect(!FileManager.default.fileExists(atPath: path))
        let folder = try StateFolder(state)
        do {
            let spool = try spool()
            path = spool.path
            try spool.keep()
            // It is in use.
            #expect(try folder.keptSpools.isEmpty)
        }
        #expect(try folder.keptSpools.map(folder.file) == [path])
        let other = try temporary.write(try folder.keptSpools[0], "of another folder")
        folder.removeSpool(other)
        #expect(FileManager.default.fileExists(atPath: other))
        folder.removeSpool(path)
        #expect(try folder.keptSpools.isEmpty)
    }
}

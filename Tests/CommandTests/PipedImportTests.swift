import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("Pipes that a run reads")
struct PipedImportTests {
    /// A pipe with a name, and both of its ends.
    private static func pipe(_ stage: IntakeStage) throws -> (path: String, ends: FileHandle) {
        let path = stage.folder.file("pipe")
        guard mkfifo(path, 0o600) == 0 else { throw POSIXError(.EIO) }
        return (path, try #require(FileHandle(forUpdatingAtPath: path)))
    }

    private static let list = FeedbackTuple.bytes([.dead(0, at: 1_700_000_000)])

    @Test(
        "a run that is refused leaves every byte in the pipe",
        arguments: ["lock", "lease", "mapping", "database"], ["replay", "csv"])
    func refused(_ cause: String, _ form: String) throws {
        let stage = try IntakeStage(.sqlite)
        try stage.run("sweep").ends(0)
        let lock = try #require(FileHandle(forUpdatingAtPath: stage.folder.file("state") + "/lock"))
        let exit: Int32
        switch cause {
        case "lock":
            #expect(flock(lock.fileDescriptor, LOCK_EX) == 0)
            exit = 4
        case "lease":
            try stage.database.execute(
                "UPDATE pushsweep_lease SET owner = 'b:1', expires_at = '2999-01-01 00:00:00.000'")
            exit = 4
        case "mapping":
            try stage.database.execute("ALTER TABLE active_users RENAME device_token TO token")
            exit = 78
        default:
            try stage.database.execute("DROP TABLE active_users")
            exit = 78
        }
        let (path, ends) = try Self.pipe(stage)
        try ends.write(contentsOf: Data(Self.list))
        let words =
            form == "replay" ? ["replay", path] : ["import", path, "--from", form]
        let result = try stage.run(words).ends(exit)
        #expect(try ends.read(upToCount: Self.list.count) == Data(Self.list))
        result.lacks("is kept")
    }

    @Test(
        "bytes that were read are kept where the run cannot go on, and the printed command takes them",
        arguments: [true, false])
    func kept(_ isList: Bool) throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        try stage.run("sweep").ends(0)
        let (path, ends) = try Self.pipe(stage)
        let rows = Array("device_token,status,timestamp_ms\n\(hex(0)),410,1700000000000\n".utf8)
        let words = isList ? ["replay", path] : ["import", path, "--from", "csv"]
        let run = try stage.start(words)
        try ends.write(contentsOf: Data(isList ? Self.list : rows))
        let state = stage.folder.file("state")
        let count = isList ? Self.list.count : rows.count
        try eventually { try Self.spooled(state) == count }
        // It holds no lock while it waits for the pipe.
        try stage.run("sweep").ends(0)
        let lock = try #require(FileHandle(forUpdatingAtPath: state + "/lock"))
        #expect(flock(lock.fileDescriptor, LOCK_EX) == 0)
        try ends.close()
        run.signal(SIGTERM)
        let result = run.wait()
        #expect([4, 75].contains(result.exit), "\(result.error)")
        try lock.close()
        // Each run names what is left.
        try stage.run("sweep").says("has bytes of a pipe that no run has taken")
        let told = try #require(result.error.firstMatch(of: /take it with: pushsweep (.*)/)?.1)
        let command = told.split(separator: " ").map(String.init)
        #expect(command.first == words[0])
        let settings = try #require(command.firstIndex(of: "--config"))
        try stage.run(Array(command[..<settings])).ends(0)
        #expect(try stage.marked == 1)
        #expect(try Self.spooled(state) == nil)
        #expect(try !stage.run("sweep").error.contains("bytes of a pipe"))
    }

    @Test("a pipe waits for its turn where another run came between, and loses nothing")
    func waitsForTurn() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        try stage.run("sweep").ends(0)
        let (path, ends) = try Self.pipe(stage)
        let run = try stage.start(["replay", path])
        try ends.write(contentsOf: Data(Self.list))
        let state = stage.folder.file("state")
        try eventually { try Self.spooled(state) == Self.list.count }
        let lock = try #require(FileHandle(forUpdatingAtPath: state + "/lock"))
        #expect(flock(lock.fileDescriptor, LOCK_EX) == 0)
        try ends.close()
        try lock.close()
        run.wait().ends(0)
        #expect(try stage.marked == 1)
        #expect(try Self.spooled(state) == nil)
    }

    @Test(
        "a pipe that does not fit its options is kept, and the printed command reads it by others")
    func misread() throws {
        let line = #"{"device_token":"\#(hex(0))","status":410,"timestamp_ms":1700000000}"#
        for (options, text) in [
            (["--from", "jsonl"], line), (["--from=csv"], line),
            (["--from", "jsonl", "--map", "token=.a", "--time-unit", "iso"], line),
        ] {
            let stage = try IntakeStage(.sqlite)
            try stage.database.register(0..<1, at: 1_600_000_000_000)
            try stage.run("sweep").ends(0)
            let (path, ends) = try Self.pipe(stage)
            let run = try stage.start(["import", path] + options)
            try ends.write(contentsOf: Data((text + "\n").utf8))
            let state = stage.folder.file("state")
            try eventually { try Self.spooled(state) == text.utf8.count + 1 }
            try ends.close()
            let result = run.wait().ends(64, "nothing of")
            let told = try #require(result.error.firstMatch(of: /take it with: pushsweep (.*)/)?.1)
            let command = told.split(separator: " ").map(String.init)
            let settings = try #require(command.firstIndex(of: "--config"))
            try stage.run(Array(command[..<settings])).ends(0, for: "\(options)")
            #expect(try stage.marked == 1)
            #expect(try Self.spooled(state) == nil)
        }
    }

    @Test("a pipe that no known option reads is kept, and its file can be corrected")
    func unreadable() throws {
        let stage = try IntakeStage(.sqlite)
        try stage.run("sweep").ends(0)
        let (path, ends) = try Self.pipe(stage)
        let run = try stage.start(["import", path, "--from", "csv"])
        let text = "device_token,status,timestamp_ms\n\(hex(0)),410\n"
        try ends.write(contentsOf: Data(text.utf8))
        try eventually { try Self.spooled(stage.folder.file("state")) == text.utf8.count }
        try ends.close()
        run.wait().ends(65, "correct the options or the file, then take it with: pushsweep import")
        #expect(try Self.spooled(stage.folder.file("state")) == text.utf8.count)
    }

    /// The size of the file that holds the bytes of a pipe; nil where there is none.
    private static func spooled(_ state: String) throws -> Int? {
        let files = FileManager.default
        let name = try files.contentsOfDirectory(atPath: state).first { $0.hasPrefix("pipe-") }
        return try name.map {
            try #require(files.attributesOfItem(atPath: state + "/" + $0)[.size] as? Int)
        }
    }
}

import Database
import Foundation
import TestSupport
import Testing

@Suite("Others at a file of SQLite")
struct SQLiteSharingTests {
    private static let reader = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1])
        connection.execute('SELECT * FROM t').fetchall()
        print('open', flush=True)
        sys.stdin.read()
        """

    private static func connection(_ path: String, _ mode: String) throws -> SQLiteConnection {
        let connection = SQLiteConnection(
            path: path, .creating, busySeconds: 1, "PRAGMA journal_mode = \(mode)")
        try connection.connect()
        try connection.run("CREATE TABLE IF NOT EXISTS t (a)")
        return connection
    }

    @Test("another process is seen while it has the file open, also by a link, and this one is not")
    func processes() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/a.db"
        let link = folder.path + "/link.db"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        let connection = try Self.connection(link, "WAL")
        #expect(!connection.hasOtherWriters)
        let python = Process()
        let (input, output) = (Pipe(), Pipe())
        python.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        python.arguments = ["-c", Self.reader, path]
        (python.standardInput, python.standardOutput) = (input, output)
        try python.run()
        #expect(output.fileHandleForReading.availableData.starts(with: Data("open".utf8)))
        #expect(connection.hasOtherWriters)
        try input.fileHandleForWriting.close()
        python.waitUntilExit()
        #expect(!connection.hasOtherWriters)
        // What is locked by this process is so still.
        try connection.run("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT")
    }

    @Test("another connection of this process is seen until it is closed")
    func connections() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/b.db"
        let connection = try Self.connection(path, "WAL")
        let second = try Self.connection(path, "WAL")
        #expect(connection.hasOtherWriters && second.hasOtherWriters)
        second.close()
        #expect(!connection.hasOtherWriters)
        // The file beside the database is another one after its last connection was closed.
        connection.close()
        let third = try Self.connection(path, "WAL")
        #expect(!third.hasOtherWriters)
    }

    @Test("where the log is no write-ahead log, others may be there")
    func otherModes() throws {
        let folder = try TemporaryFolder()
        #expect(try Self.connection(folder.path + "/c.db", "DELETE").hasOtherWriters)
    }
}

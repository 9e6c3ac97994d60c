import Foundation

/// A server for one test, for cases that would disturb the shared server: a MariaDB, or a MySQL.
/// scripts/lib/mariadb.sh or mysql.sh starts it; it ends with the object.
package final class PrivateServer {
    /// The server with its administrator's account.
    package let server: MariaDBServer
    private let process = Process()
    private let input = Pipe()

    /// Starts a server with options of mariadbd or mysqld.
    package init(_ options: [String], isMariaDB: Bool = true) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../..").standardizedFileURL.path
        let output = Pipe()
        process.executableURL = URL(filePath: "/bin/bash")
        // The server runs until its standard input ends, at the latest with this process.
        process.arguments =
            [
                "-c",
                """
                cd "$1" && . scripts/lib/mariadb.sh && . scripts/lib/mysql.sh && "$2" 32M "${@:3}" || exit 1
                for name in HOST PORT SOCKET CA USER PASSWORD; do
                  v=PUSHSWEEP_TEST_MARIADB_$name; echo "$name=${!v}"
                done
                echo; read -r _; mariadb_stop
                """, "bash", root, isMariaDB ? "mariadb_start" : "mysql_start",
                isMariaDB
                    ? "--innodb-log-file-size=32M" : "--innodb-redo-log-capacity=32M",
            ] + options
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        var text = ""
        while !text.hasSuffix("\n\n") {
            let data = output.fileHandleForReading.availableData
            if data.isEmpty { throw TestFailure("a private server did not start: \(text)") }
            text += String(decoding: data, as: UTF8.self)
        }
        var facts: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let halves = line.split(separator: "=", maxSplits: 1).map(String.init)
            if halves.count == 2 { facts[halves[0]] = halves[1] }
        }
        guard let port = facts["PORT"].flatMap({ Int($0) }), let password = facts["PASSWORD"] else {
            throw TestFailure("a private server did not say where it is: \(facts.keys)")
        }
        server = MariaDBServer(
            host: facts["HOST"] ?? "", port: port, socket: facts["SOCKET"] ?? "",
            ca: facts["CA"] ?? "", user: facts["USER"] ?? "", password: password)
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }
}

// A Galera node that is killed while a replay works on it, without a proxy. The run goes on with the next
// address of `store.url`. The other nodes commit nothing until they have given the dead one up, which is
// five seconds by Galera's default (evs.suspect_timeout); what is above it is ours and the rest of the work.

import APNsProtocol
import Database
import Foundation
import Synchronization
import TokenHygiene

/// The figure `failover-galera`.
struct FailoverBenchmark {
    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    /// Seconds from the kill to the end of the run, compared with the same run undisturbed.
    func run() throws -> Figure {
        let table = try LargeTable(rows: context.scaled(500_000), context)
        var waits: [Double] = []
        var whole: [Double] = []
        for run in 1...context.runs {
            let undisturbed = try replay(table, killing: nil)
            whole.append(undisturbed)
            let marks = try table.marks()
            waits.append(try replay(table, killing: undisturbed / 4))
            guard try table.marks() == marks else {
                throw BenchmarkFailure(description: "the marks differ after the kill")
            }
            context.note(
                "run \(run): \(waits[run - 1]) s after the kill, undisturbed \(whole[run - 1]) s in all"
            )
        }
        let value = median(waits)
        return Figure(
            name: "failover-galera", value: value, unit: "s after the kill",
            reference: median(whole), target: "exit 0 within 10 s", met: value <= 10,
            extra: ["longest": waits.max() ?? 0])
    }

    /// Seconds of a replay; with a kill after some seconds those since the kill.
    private func replay(_ table: LargeTable, killing after: Double?) throws -> Double {
        try table.restore()
        let feed = place.file("feed")
        try FeedFile.write(table.evidence, to: feed)
        let settings = try settingsFile(table)
        let result = Mutex<(exit: Int32, ended: UInt64)?>(nil)
        let group = DispatchGroup()
        let began = DispatchTime.now().uptimeNanoseconds
        group.enter()
        Thread.detachNewThread {
            defer { group.leave() }
            let finished = try? FinishedProcess(
                "pushsweep", ["replay", feed, "--app", "chat", "--config", settings])
            let ended = DispatchTime.now().uptimeNanoseconds
            result.withLock { $0 = (finished?.exit ?? -1, ended) }
        }
        var from = began
        if let after {
            usleep(UInt32(after * 1e6))
            try cluster("kill")
            from = DispatchTime.now().uptimeNanoseconds
        }
        group.wait()
        if after != nil { try cluster("start") }
        guard let end = result.withLock({ $0 }), end.exit == 0 else {
            throw BenchmarkFailure(description: "the replay did not end with 0")
        }
        guard end.ended > from else {
            throw BenchmarkFailure(description: "the replay ended before the kill")
        }
        return Double(end.ended - from) / 1e9
    }

    /// The second node is the one to kill; the benchmark itself is connected to the first.
    private func cluster(_ action: String) throws {
        let process = try FinishedProcess(
            path: "scripts/cluster", ["galera", "node", "2", action])
        guard process.exit == 0 else {
            throw BenchmarkFailure(description: "scripts/cluster galera node 2 \(action) failed")
        }
    }

    private func settingsFile(_ table: LargeTable) throws -> String {
        let environment = ProcessInfo.processInfo.environment
        func value(_ name: String) -> String { environment["PUSHSWEEP_TEST_" + name] ?? "" }
        let hosts = ["2", "3", "1"].map { "localhost:" + value("CLUSTER_\($0)_PORT") }
        let password = place.file("password")
        _ = FileManager.default.createFile(
            atPath: password, contents: Data((table.settings.password?.reveal() ?? "").utf8),
            attributes: [.posixPermissions: 0o600])
        let file = place.file("pushsweep.yaml")
        let state = place.file("state")
        try? FileManager.default.removeItem(atPath: state)
        try """
        state: \(state)
        store:
          url: mysql://\(value("MARIADB_USER"))@\(hosts.joined(separator: ","))/\(table.database)
          password-file: \(password)
          tls: {ca: \(value("MARIADB_CA"))}
        guard: {floor: 1000000000}
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """.write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }
}

/// The bytes of a feed, as a gateway sends them.
enum FeedFile {
    /// Writes evidence as feedback tuples of 6 bytes and a token.
    static func write(_ evidence: [TokenEvidence], to path: String) throws {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(evidence.count * 38)
        for item in evidence {
            let time = UInt32(item.time.rawValue / 1_000)
            for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: time >> shift)) }
            bytes += [0, UInt8(item.token.count)] + item.token.bytes
        }
        try Data(bytes).write(to: URL(filePath: path))
    }
}

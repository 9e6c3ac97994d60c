// Three senders that empty one queue together: on three nodes of a Galera cluster, compared with all three
// on one node. On different nodes two senders that want the same rows learn it at their commit only, so
// each begins at a part of the queue of its own. Each sender is a process with a state folder of its own;
// gateway and nodes share the processors of this machine.

import APNsSimulator
import Database
import Foundation
import Synchronization

/// The figure `senders-galera`.
struct ClusterSendersBenchmark {
    private let context: BenchmarkContext
    private let rows: Int
    private let place: BenchmarkFolder
    private let certificates: SimulatorCertificates

    init(_ context: BenchmarkContext) throws {
        self.context = context
        rows = context.scaled(60_000)
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    /// Rows per second of three senders together.
    func run() throws -> Figure {
        let queue = try QueueTable(rows: rows, context)
        let nodes = BenchmarkServer.nodes
        guard nodes.count >= 3 else {
            throw BenchmarkFailure(description: "the cluster has fewer than three nodes")
        }
        var spread: [Double] = []
        var together: [Double] = []
        for run in 1...context.runs {
            together.append(Double(rows) / (try send(queue, [nodes[0], nodes[0], nodes[0]])))
            spread.append(Double(rows) / (try send(queue, Array(nodes.prefix(3)))))
            context.note(
                "run \(run): one node \(together[run - 1]) rows/s, three nodes \(spread[run - 1])")
        }
        let ratio = median(zip(spread, together).map { $0 / $1 })
        return Figure(
            name: "senders-galera", value: median(spread), unit: "rows/s",
            reference: median(together), ratio: ratio, target: "at least 1", met: ratio >= 1)
    }

    /// Seconds until senders on the given nodes have emptied the queue.
    private func send(_ queue: QueueTable, _ nodes: [String]) throws -> Double {
        try queue.refill()
        let gateway = try GatewayProcess(
            certificates, command: "provider",
            ["--client-certificate", "--share", "1=Unregistered@1700000000123"])
        let settings = try nodes.enumerated().map { number, node in
            try self.settings(queue, sender: number, on: node, port: gateway.port)
        }
        let exits = Mutex<[Int32]>([])
        let time = seconds {
            DispatchQueue.concurrentPerform(iterations: settings.count) { number in
                let finished = try? FinishedProcess(
                    "pushsweep", ["send", "--config", settings[number], "--format", "json"])
                exits.withLock { $0.append(finished?.exit ?? -1) }
            }
        }.0
        let ends = exits.withLock { $0 }
        guard ends.allSatisfy({ $0 == 0 }) else {
            throw BenchmarkFailure(description: "the senders ended with \(ends)")
        }
        let left = try queue.unsent()
        guard left == 0 else {
            throw BenchmarkFailure(description: "\(left) rows have no answer")
        }
        return time
    }

    private func settings(
        _ queue: QueueTable, sender: Int, on node: String, port: UInt16
    ) throws -> String {
        let state = place.file("state-\(sender)")
        try? FileManager.default.removeItem(atPath: state)
        let password = place.file("password")
        let own = try BenchmarkServer.settings(database: queue.database, on: .node(node))
        _ = FileManager.default.createFile(
            atPath: password, contents: Data((own.settings.password?.reveal() ?? "").utf8),
            attributes: [.posixPermissions: 0o600])
        let file = place.file("sender-\(sender).yaml")
        try """
        state: \(state)
        store: {url: "\(own.address)", password-file: "\(password)", tls: {mode: "off"}}
        guard: {floor: 1000000000}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: \(certificates.certificate(.client)), \
        key: \(certificates.key(.client))}
            provider: {host: 127.0.0.1, port: \(port), ca: \(certificates.authority), \
        connections: 1}

        """.write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }
}

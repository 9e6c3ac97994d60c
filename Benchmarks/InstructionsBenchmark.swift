// The instructions that whole processes of the program carry out, with their libraries, counted by
// valgrind. A count differs by one or two hundredths between two runs, however busy the machine is, so it
// shows what became worse where a ratio of two times is too noisy. It is no time: it knows no disk, no
// network and no server. So the works are small, and their store is SQLite, whose instructions are in it.
//
// Counts of other compilers, libraries and processors differ: memory is copied with other instructions.

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Looks
import Operations
import Settings
import TokenHygiene

/// The figures `instructions-...`.
struct InstructionsBenchmark {
    /// What the program does.
    enum Work: String, CaseIterable, Sendable {
        /// A sweep of a gateway with an empty list.
        case start
        /// A sweep of a list whose tokens no row has.
        case feed
        /// An import of a log.
        case `import`
        /// A replay that marks.
        case mark
        /// A replay that deletes.
        case delete
        /// An explanation of one token.
        case explain
        /// A filter of all tokens, of which some have a mark.
        case filter
        /// The sending of a queue over HTTP/2.
        case send

        var summary: String {
            switch self {
            case .start: "a sweep of an empty list"
            case .feed: "a sweep of 20,000 tuples over TLS"
            case .import: "an import of 20,000 lines"
            case .mark: "a replay that marks 5,000 of 20,000 rows"
            case .delete: "a replay that deletes 5,000 of 20,000 rows"
            case .explain: "an explanation of one of 20,000 rows"
            case .filter: "a filter of 20,000 tokens"
            case .send: "the sending of 2,000 notifications over HTTP/2"
            }
        }
    }

    private static let rows = 20_000
    private static let dead = 5_000
    private static let queued = 2_000

    private let work: Work
    private let context: BenchmarkContext
    private let place: BenchmarkFolder
    private let certificates: SimulatorCertificates

    init(_ work: Work, _ context: BenchmarkContext) throws {
        (self.work, self.context) = (work, context)
        place = try BenchmarkFolder()
        certificates = try SimulatorCertificates(directory: place.file("certificates"))
    }

    /// Millions of instructions; the size is always the same.
    func run() throws -> Figure {
        let program = place.file("pushsweep")
        // Valgrind cannot read the newest form of what debuggers need.
        try require("strip", ["-o", program, BuiltProgram.url("pushsweep").path])
        let counts = try (0..<context.runs).map { _ in try count(program) }
        return Figure(
            name: "instructions-\(work.rawValue)", value: median(counts),
            unit: "million instructions",
            extra: ["least": counts.min() ?? 0, "most": counts.max() ?? 0])
    }

    private func count(_ program: String) throws -> Double {
        let gateway = try gateway()
        let settings = try prepare(port: gateway?.port ?? 1)
        let log = place.file("valgrind.log")
        try? FileManager.default.removeItem(atPath: log)
        let words = [
            "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
            "--log-file=\(log)", program,
        ]
        try require("valgrind", words + arguments() + ["--config", settings])
        let text = try String(contentsOfFile: log, encoding: .utf8)
        guard let line = text.split(separator: "\n").first(where: { $0.contains("refs:") }),
            let refs = Double(line.split(separator: ":").last?.filter(\.isNumber) ?? "")
        else { throw BenchmarkFailure(description: "valgrind counted nothing: \(text)") }
        return refs / 1e6
    }

    /// Runs a program that has to end with 0.
    private func require(_ program: String, _ arguments: [String]) throws {
        let path = "/usr/bin/\(program)"
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw BenchmarkFailure(
                description: "\(path) is missing; apt-get install valgrind binutils")
        }
        let finished = try FinishedProcess(path: path, arguments)
        guard finished.exit == 0 else {
            throw BenchmarkFailure(description: "\(work.rawValue) ended with \(finished.exit)")
        }
    }

    private func gateway() throws -> GatewayProcess? {
        switch work {
        case .start: try GatewayProcess(certificates, ["--hex", ""])
        case .feed: try GatewayProcess(certificates, ["--generate", "\(Self.rows)"])
        case .send:
            try GatewayProcess(
                certificates, command: "provider",
                ["--client-certificate", "--share", "1=Unregistered@1700000000123"])
        default: nil
        }
    }

    private func arguments() throws -> [String] {
        switch work {
        case .start, .feed: return ["sweep"]
        case .import:
            let log = place.file("push.log")
            try SenderLog.write(Self.rows, to: log)
            return ["import", log, "--from", "jsonl", "--again", "--map", SenderLog.map]
        case .mark, .delete:
            let feed = place.file("feed")
            let evidence = (0..<Self.dead).map {
                TokenEvidence(
                    token: SpreadToken.token($0 * 4),
                    time: EpochMilliseconds(1_717_200_000_000 + Int64($0) * 1_000))
            }
            try FeedFile.write(evidence, to: feed)
            return ["replay", feed, "--app", "chat"]
        case .explain: return ["explain", SpreadToken.token(Self.rows / 2).hex]
        case .filter:
            let list = place.file("tokens")
            let lines = (0..<Self.rows).map { SpreadToken.token($0).hex + "\n" }.joined()
            try Data(lines.utf8).write(to: URL(filePath: list))
            return ["preflight", "--filter", "--read-only", "--tokens-from", list]
        case .send: return ["send"]
        }
    }

    /// Makes the settings, the tables and their rows anew; the state folder has a journal.
    private func prepare(port: UInt16) throws -> String {
        for name in ["state", "tokens.sqlite", "tokens.sqlite-wal", "tokens.sqlite-shm"] {
            try? FileManager.default.removeItem(atPath: place.file(name))
        }
        let settings = place.file("pushsweep.yaml")
        let gateway = "{host: 127.0.0.1, port: \(port), ca: \(certificates.authority)}"
        try """
        state: \(place.file("state"))
        store: {url: "sqlite://tokens.sqlite"}
        guard: {floor: 1000000000}
        policy: {action: \(work == .delete ? "delete" : "mark")}
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            certificate: {file: \(certificates.certificate(.client)), \
        key: \(certificates.key(.client))}
            \(work == .send ? "provider" : "feedback"): \(gateway)

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        let sql = try SQLiteConnection.withTables(settings: settings)
        try sql.transaction { try fill(sql) }
        return settings
    }

    private func fill(_ sql: SQLiteConnection) throws {
        for number in 0..<Self.rows {
            let isMarked = work == .filter && number % 10 == 0 || work == .explain
            let mark: SQLValue = isMarked ? .text("2024-06-01 00:00:00.000") : .null
            _ = try sql.execute(
                "INSERT INTO active_users (id, user_id, app_id, device_token, registered_at, "
                    + "invalidated_at) VALUES (?, 'user', 'chat', ?, '2023-01-01 00:00:00.000', ?)",
                [.integer(Int64(number)), .bytes(SpreadToken.token(number).bytes), mark])
        }
        guard work == .send else { return }
        for number in 0..<Self.queued {
            _ = try sql.execute(
                "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) "
                    + "VALUES ('chat', 'production', ?, '{\"aps\":{\"alert\":\"x\"}}', "
                    + "strftime('%Y-%m-%d %H:%M:%f', 'now'))",
                [.bytes(SpreadToken.token(number).bytes)])
        }
    }
}

extension SQLiteConnection {
    /// A connection to the SQLite file that a settings file names, with all tables.
    static func withTables(settings: String) throws -> SQLiteConnection {
        let loaded = try Settings.load(configFile: settings, environment: [:])
        _ = try SchemaWork.apply(loaded, creatingTokens: true)
        guard case .sqlite(let path) = loaded.store.location else {
            throw BenchmarkFailure(description: "the settings name no SQLite file")
        }
        let sql = SQLiteConnection(
            path: path, creates: false, StoreSettings(location: .sqlite(path: path)))
        try sql.connect()
        return sql
    }
}

/// Tokens spread over all values, as APNs' are.
enum SpreadToken {
    static func token(_ number: Int) -> DeviceToken {
        var state = UInt64(truncatingIfNeeded: number)
        var bytes: [UInt8] = []
        for _ in 0..<4 {
            // SplitMix64.
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            word ^= word >> 31
            withUnsafeBytes(of: word) { bytes += $0 }
        }
        guard let token = DeviceToken(bytes) else { preconditionFailure("32 bytes are a token") }
        return token
    }
}

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import SecureTransport

/// The environment of a sweep for one test: a gateway with its list, a separate database, a state
/// folder, settings, and the real program.
package final class SweepStage: ToolStage {
    /// The certificates for all tests of this process; making them takes longer than most tests.
    package static let certificates = Result {
        try SimulatorCertificates(directory: certificateFolder.file("certificates"))
    }
    // The folder lives as long as the process, so the certificates exist while tests run.
    private static let certificateFolder = Result { try TemporaryFolder() }.unwrapped

    /// The test's folder.
    package let folder: TemporaryFolder
    /// The gateway that the settings name.
    package let gateway: FeedbackGateway
    /// The database that the settings name, with the full schema.
    package let database: TokenDatabase
    /// The lines that replace settings, by name.
    package var lines: Lines
    private var written = ""

    /// A guard setting that permits any number of removals, for tests of other parts.
    package static let anyNumber = "guard: {floor: 1000000000}"

    /// The parts of the settings file that tests change.
    package struct Lines {
        package var policy = "policy: {action: mark}"
        /// The limits of the guard; empty for the default limits.
        package var limits = ""
        /// More apps, as items of the list.
        package var apps = ""
        package var hostName = ""
        package var ca = ""
        package var certificate = ""
        package var feedbackOptions = ""
        package var activeUsers = ""
        package var store = ""
    }

    /// Starts the gateway, makes the database and prepares the settings.
    package init(
        _ engine: TestEngine = .sqlite, feeds: [ListSource] = [],
        behaviour: FeedbackBehaviour = FeedbackBehaviour(), schema: Bool = true,
        on server: MariaDBServer? = MariaDBServer.fromEnvironment
    ) throws {
        let certificates = try Self.certificates.get()
        folder = try TemporaryFolder()
        gateway = try FeedbackGateway(
            certificates: certificates, feeds: feeds, behaviour: behaviour)
        database = try TokenDatabase(engine, on: server)
        if schema { try database.createOwnSchema() }
        lines = Lines()
        lines.ca = certificates.authority
        lines.certificate =
            "certificate: {file: \(certificates.certificate(.client)), "
            + "key: \(certificates.key(.client))}"
        lines.store = try database.settingsLines(in: folder)
    }

    /// Prepares one list that calls the first `count` numbered tokens dead, all of them registered
    /// before, and a guard that permits any number of removals.
    package convenience init(
        _ engine: TestEngine, dead count: Int, behaviour: FeedbackBehaviour = FeedbackBehaviour(),
        on server: MariaDBServer? = MariaDBServer.fromEnvironment
    ) throws {
        try self.init(
            engine,
            feeds: [.tuples((0..<count).map { .dead($0, at: 1_700_000_000 + UInt32($0 % 10)) })],
            behaviour: behaviour, on: server)
        lines.limits = Self.anyNumber
        try database.register(0..<count, at: 1_600_000_000_000)
    }

    /// Prepares one list about four tokens, of which one is due, one registered again, one is marked
    /// already and one is unknown.
    package static func mixed(
        _ engine: TestEngine = .sqlite, behaviour: FeedbackBehaviour = FeedbackBehaviour()
    ) throws -> SweepStage {
        let stage = try SweepStage(
            engine, feeds: [.tuples((1...4).map { .dead($0, at: 1_700_000_000) })],
            behaviour: behaviour)
        let (before, after): (Int64, Int64) = (1_600_000_000_000, 1_800_000_000_000)
        try stage.database.register(.numbered(1), at: before)
        try stage.database.register(.numbered(2), at: after)
        try stage.database.register(.numbered(3), at: before, mark: after)
        return stage
    }

    /// Writes the present settings and returns the path of the file. Unchanged settings are not
    /// written again, since a run may be reading them.
    package func settings() throws -> String {
        let text = self.text
        if text != written { _ = try folder.write("pushsweep.yaml", text) }
        written = text
        return folder.file("pushsweep.yaml")
    }

    private var text: String {
        """
        state: \(state)
        store:
          \(lines.store)
        \(lines.activeUsers)
        \(lines.policy)
        \(lines.limits)
        apps:
          - name: chat
            topic: com.example.chat
            environment: production
            \(lines.certificate)
            feedback:
              host: 127.0.0.1
              port: \(gateway.port)
              ca: \(lines.ca)
              \(lines.hostName)
              \(lines.feedbackOptions)
        \(lines.apps)

        """
    }

    /// The environment variables that make a run one of another host: a separate state folder.
    package func host(_ name: String) -> [String: String] {
        ["PUSHSWEEP_STATE": folder.file("state-of-\(name)")]
    }

    /// Waits until the journal has bytes of a feed; false if none came in 20 seconds.
    @discardableResult
    package func awaitJournal() -> Bool {
        eventually(seconds: 20) { (try? journaledBytes().isEmpty) == false }
    }

    /// Number of bytes that a killed run had read of its list; 0 where it had closed the feed.
    package var arrivedBytes: Int {
        let file = FileManager.default.contents(atPath: state + "/arriving") ?? Data()
        return file.count < 88 ? 0 : file[80..<88].reduce(0) { $0 << 8 | Int($1) }
    }

    /// All durable bytes in the journal, feed by feed in the order of reading.
    package func journaledBytes() throws -> [UInt8] { try journaledBytes(journal) }

    /// The same for a copy of the journal.
    package func journaledBytes(_ path: String) throws -> [UInt8] {
        let rows = try rows(of: path, "SELECT bytes FROM chunk ORDER BY id")
        return (0..<rows.count).flatMap { index -> [UInt8] in
            if case .bytes(let bytes) = rows[index, 0] { return bytes }
            return []
        }
    }

    /// The state of every feed in the journal.
    package func feedStates() throws -> [String] {
        let rows = try rows(of: journal, "SELECT state FROM feed ORDER BY rowid")
        return (0..<rows.count).map { rows[$0, 0].testText }
    }

    private func rows(of path: String, _ query: String) throws -> SQLRows {
        let connection = SQLiteConnection(
            path: path, creates: false, StoreSettings(location: .sqlite(path: path)))
        try connection.connect()
        return try connection.query(query)
    }
}

extension TokenDatabase {
    /// The lines below `store:` in a settings file for this database.
    package func settingsLines(in folder: TemporaryFolder) throws -> String {
        switch settings.location {
        case .sqlite(let path): return "url: sqlite://\(path)"
        case .server(let server):
            guard case .tcp(let host, let port) = server.address,
                case let ca? = settings.tls.ca
            else { throw TestFailure("the test server is reached over TCP") }
            try folder.write("db-password", settings.password?.reveal() ?? "")
            return """
                url: mysql://\(server.user)@\(host):\(port)/\(server.database)
                  password-file: \(folder.file("db-password"))
                  tls: {ca: \(ca)}
                """
        }
    }
}

extension Result {
    fileprivate var unwrapped: Success {
        switch self {
        case .success(let value): value
        case .failure(let error): preconditionFailure("\(error)")
        }
    }
}

extension FeedbackTuple {
    /// A tuple that reports a numbered token dead at a second.
    package static func dead(_ number: Int, at seconds: UInt32, count: Int = 32) -> FeedbackTuple {
        FeedbackTuple(time: EpochSeconds(seconds), token: .numbered(number, count: count))
    }

    /// The wire form of several tuples.
    package static func bytes(_ tuples: [FeedbackTuple]) -> [UInt8] {
        var bytes: [UInt8] = []
        for tuple in tuples { tuple.encode(into: &bytes) }
        return bytes
    }
}

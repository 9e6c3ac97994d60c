import APNsProtocol
import APNsSimulator
import Database
import EvidenceJournal
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

    /// Waits until the state folder has bytes of a list; false if none came in 20 seconds.
    @discardableResult
    package func awaitJournal() -> Bool {
        eventually(seconds: 20) { (try? journaledBytes().isEmpty) == false }
    }

    /// Number of bytes that a killed run had read of its list; 0 where it had closed it.
    package var arrivedBytes: Int {
        (try? lists().filter { $0.state == .reading }.reduce(0) { $0 + $1.bytes }) ?? 0
    }

    /// All bytes of lists in the state folder, or in another one, list by list in the order of reading.
    package func journaledBytes(in state: String? = nil) throws -> [UInt8] {
        let folder = try look(at: state)
        var bytes: [UInt8] = []
        for list in try lists(in: state) {
            try folder.readBytes(of: list) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    /// The state of every list in the state folder.
    package func feedStates() throws -> [String] {
        try lists().map(\.state.rawValue)
    }

    /// Leaves applied lists as a run does that is killed before it notes them as applied.
    package func forgetApplied() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: state)
        where name.hasPrefix("applied-") {
            rename("\(state)/\(name)", "\(state)/list-\(name.dropFirst(8))")
        }
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

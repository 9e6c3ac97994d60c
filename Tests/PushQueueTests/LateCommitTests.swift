import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

/// A connection to a server that is held up while it commits a claim: the client loses its patience and
/// tries again, and the claim takes effect later, without a lock that the later tries could meet. So it is
/// on a cluster whose nodes do not know each other's locks.
private final class LateCommitConnection: PassingConnection {
    /// Where the claim takes effect.
    private let server: any SQLConnection
    private var changes: [(sql: String, values: [SQLValue])] = []
    private var late: [(sql: String, values: [SQLValue])]?
    /// Whether a claim was held up already.
    private(set) var wasHeldUp = false
    /// Called before each statement after that, with its text.
    var afterwards: (LateCommitConnection, String) throws(SQLFailure) -> Void = { _, _ in }

    init(_ real: any SQLConnection, _ server: any SQLConnection) {
        self.server = server
        super.init(real)
    }

    /// Lets the late claim take effect, if it is still to come.
    func takeEffect() throws(SQLFailure) {
        guard let changes = late else { return }
        late = nil
        try server.begin()
        do throws(SQLFailure) {
            for change in changes { _ = try server.execute(change.sql, change.values) }
            try server.commit()
        } catch {
            server.rollBack()
            throw error
        }
    }

    override func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        if wasHeldUp { try afterwards(self, sql) }
        return try real.query(sql, parameters)
    }

    override func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        if wasHeldUp { try afterwards(self, sql) }
        changes.append((sql, parameters))
        return try real.execute(sql, parameters)
    }

    override func run(_ sql: String) throws(SQLFailure) {
        if wasHeldUp { try afterwards(self, sql) }
        if sql == dialect.begin { changes = [] }
        let isClaim = changes.contains { $0.sql.hasPrefix("INSERT INTO pushsweep_claim") }
        guard sql == "COMMIT", isClaim, !wasHeldUp else { return try real.run(sql) }
        wasHeldUp = true
        late = changes
        real.rollBack()
        throw SQLFailure(kind: .lost, code: 2_013, message: "no answer in time")
    }

    /// Lets the late claim take effect, and refuses the open transaction in its favour, as certification
    /// does.
    func loseAgainstIt() throws(SQLFailure) {
        guard late != nil else { return }
        real.rollBack()
        try takeEffect()
        throw SQLFailure(kind: .conflict, code: 1_213, message: "Deadlock found")
    }
}

@Suite(
    "Claims whose commits take effect after their answers were lost",
    .needsServer)
struct LateCommitTests {
    private struct Sender {
        let stage: QueueStage
        let connection: LateCommitConnection
        let queue: PushQueue

        init(rows: Range<Int>) throws {
            stage = try QueueStage(QueueCase(engine: .mariaDB, tables: .own), rows)
            connection = LateCommitConnection(stage.database.driver(), stage.database.sql)
            queue = try stage.queue(over: connection)
        }

        /// The states of the claims that exist, with their keys.
        func claims() throws -> [String] {
            let rows = try stage.database.sql.query(
                "SELECT state, row_keys, id FROM pushsweep_claim ORDER BY state")
            return try (0..<rows.count).map { row in
                let keys = try ClaimRecord.keys(rows[row, 1], of: 0)
                return "\(rows[row, 0].text ?? "") \(keys.count)"
            }
        }
    }

    @Test(
        "the rows are those of the try that took effect, whether more are due or none",
        arguments: [10, 25])
    func seen(_ rows: Int) throws {
        let sender = try Sender(rows: 0..<rows)
        sender.connection.afterwards = { connection, sql throws(SQLFailure) in
            if sql.hasPrefix("SELECT row_keys, id, run FROM pushsweep_claim") {
                try connection.takeEffect()
            }
        }
        let claim = try #require(try sender.queue.claim(10))
        #expect(sender.connection.wasHeldUp)
        #expect(claim.keys == Array(1...10))
        #expect(try sender.claims() == ["held 10"])
        #expect(try sender.queue.drain(claim, limit: 10).keys == Array(1...Int64(rows)))
        #expect(try sender.stage.counts() == [.sent: rows])
    }

    @Test("a later try with other rows that loses against it hands out none of them")
    func certified() throws {
        let sender = try Sender(rows: 0..<25)
        try sender.stage.database.execute(
            "UPDATE push_queue SET not_before = '2100-01-01' WHERE id = 7")
        let database = sender.stage.database
        sender.connection.afterwards = { connection, sql throws(SQLFailure) in
            // Row 7 becomes due between the two tries.
            if sql == connection.dialect.begin {
                _ = try database.sql.execute(
                    "UPDATE push_queue SET not_before = NULL WHERE id = 7", [])
            }
            if sql == "COMMIT" { try connection.loseAgainstIt() }
        }
        let claim = try #require(try sender.queue.claim(10))
        #expect(claim.keys == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11])
        sender.connection.afterwards = { _, _ in }
        #expect(try sender.claims() == ["held 10"])
        let keys = try sender.queue.drain(claim, limit: 10).keys
        #expect(keys.count == 25 && Set(keys).count == 25)
        #expect(try sender.stage.counts() == [.sent: 25])
    }

    @Test("where nothing is due any more, it can take effect no more")
    func excluded() throws {
        let sender = try Sender(rows: 0..<10)
        let other = try sender.stage.queue(run: "run-b")
        var isClaimed = false
        var others: Batch?
        sender.connection.afterwards = { connection, sql throws(SQLFailure) in
            guard sql == connection.dialect.begin, !isClaimed else { return }
            isClaimed = true
            others = try? other.claim(10)
        }
        #expect(try sender.queue.claim(10) == nil)
        #expect(others?.keys == Array(1...10))
        #expect(try sender.claims() == ["done 0", "held 10"])
        #expect(throws: SQLFailure.self) { try sender.connection.takeEffect() }
        #expect(try sender.claims() == ["done 0", "held 10"])
    }
}

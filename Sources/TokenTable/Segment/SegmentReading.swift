import APNsProtocol
import Database
import TokenHygiene

// A segment is the result of a query that a person gives. It is read over a connection of its own: the
// tokens are looked up over the other one while the result still comes in.

extension TokenTable {
    /// Rows in one block of a segment.
    private static let segmentBlock = 5_000

    /// Runs a query in a transaction that can change nothing, and passes on what its first column
    /// holds: the tokens, and nil for a value that is no token. `seconds` limits the query with the
    /// reading of its result.
    ///
    /// - Throws: `unreachable` and similar failures of the connection; `configuration` where the query
    ///   is wrong or takes too long; `permission`; the errors of `body`.
    package func readSegment(
        _ query: SelectStatement, within seconds: Int,
        _ body: ([DeviceToken?]) throws -> Void
    ) throws {
        let column = try layout().token
        var settings = settings
        // The limit of the statement is to be met before that of the connection.
        settings.timeouts.read = max(settings.timeouts.read, seconds + 10)
        let session = try DatabaseSession(settings, pacing: pacing)
        do {
            try session.connection.read(query, within: seconds, block: Self.segmentBlock) { rows in
                try body((0..<rows.count).map { column.segmentToken(rows[$0, 0]) })
            }
        } catch let failure as SQLFailure {
            throw StoreFailure(segment: failure, seconds: seconds)
        }
    }
}

extension TokenColumn {
    /// The token in a value of a segment, whose column need not be that of the token table: text is hex,
    /// and bytes are what the token table holds as bytes.
    fileprivate func segmentToken(_ value: SQLValue) -> DeviceToken? {
        if case .text(let text) = value { return try? DeviceToken(spelling: text) }
        return token(value)
    }
}

extension StoreFailure {
    /// Error numbers of a statement that took longer than its limit: MariaDB, MySQL, SQLite.
    private static let timeouts = [1_969, 3_024, 9]
    /// The number of a change in a read-only transaction, of a server and of SQLite.
    private static let changes = [1_792, 8]

    fileprivate init(segment failure: SQLFailure, seconds: Int) {
        let doing = "reading the segment of --query"
        if Self.timeouts.contains(failure.code) {
            self.init(
                .configuration,
                "\(doing): it took longer than \(seconds) s; narrow it, give it an index, or raise "
                    + "--query-limit")
        } else if Self.changes.contains(failure.code) {
            self.init(
                .configuration,
                "\(doing): it changes something (\(failure.message)); give a query that only reads")
        } else if failure.kind == .configuration || failure.kind == .refused {
            self.init(
                .configuration, "\(doing): \(failure.message) (\(failure.code)); correct the query")
        } else {
            self.init(failure, while: doing)
        }
    }
}

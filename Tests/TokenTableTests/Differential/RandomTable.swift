import APNsProtocol
import TestSupport
import TokenHygiene

@testable import Database
@testable import TokenTable

/// An unusual table of tokens: keys of any kind, columns of any type with values at
/// their edges, generated columns, other collations, partitions, triggers, foreign keys, engines;
/// filled by its own statements.
struct RandomTable {
    /// The action of a trigger or a foreign key.
    enum Obstacle: CaseIterable {
        case none, refusesMarks, checks, endsTransaction, leavesHalf, restricts, defers
        case cascades, logsRemovals, isWithoutTransactions
    }

    /// The form of times in a column.
    enum Clock: CaseIterable {
        case none, clock0, clock3, clock6, stamp, seconds, milliseconds
    }

    let engine: TestEngine
    let name: String
    let key: RandomKey
    let obstacle: Obstacle
    let token: RandomTokens
    let app: String?
    let environment: String?
    let platform: String?
    /// The columns that the table computes from others of the same values, which are named `b_` and the
    /// column.
    let computed: Set<String>
    /// Whether the values of computed columns are stored.
    let isStored: Bool
    /// Whether the rows of a server's table are in several partitions.
    let isPartitioned: Bool
    let registration: Clock
    let mark: Clock
    let reason: String?
    let extra: [RandomColumn]
    private(set) var statements: [String] = []
    private(set) var rows: [ModelRow] = []

    init(_ engine: TestEngine, _ name: String, _ random: inout SeededGenerator) {
        self.engine = engine
        self.name = name
        key = RandomKey.random(engine, &random)
        obstacle =
            Bool.random(using: &random) ? .none : Obstacle.allCases.one(&random)
        token = RandomTokens.random(engine, &random)
        app = [
            nil, "VARCHAR(30)",
            "VARCHAR(30) COLLATE \(engine == .sqlite ? "NOCASE" : "utf8mb4_general_ci")",
            engine == .sqlite ? nil : RandomColumn.unpadded,
        ]
        .one(&random)
        environment = [nil, "VARCHAR(20)"].one(&random)
        platform = [nil, nil, "VARCHAR(20)"].one(&random)
        let roles = ["device_token", "app_id", "environment", "platform", "registered_at"]
        computed =
            Int.random(in: 0...2, using: &random) > 0
            ? [] : Set(roles.filter { _ in Bool.random(using: &random) })
        // MyISAM of MySQL has no index on a virtual column.
        isStored = Bool.random(using: &random) || obstacle == .isWithoutTransactions
        isPartitioned =
            engine == .mariaDB && [.none, .refusesMarks, .checks].contains(obstacle)
            && Int.random(in: 0...2, using: &random) == 0
        registration = Clock.allCases.one(&random)
        mark = Clock.allCases.one(&random)
        let reasons = [nil, "VARCHAR(32)", engine == .sqlite ? "TEXT" : "ENUM('x', 'y')", "INT"]
        reason = reasons.one(&random)
        extra = (0..<Int.random(in: 0...4, using: &random)).map { _ in
            RandomColumn.random(engine, &random)
        }
        create()
        for number in 0..<Int.random(in: 1...14, using: &random) { insert(number, &random) }
    }

    /// The settings that fit the table.
    func map(_ mapping: inout TableMapping) {
        mapping.table = name
        mapping.key = key.columns.map(\.name)
        mapping.longestToken = 32
        mapping.app = app == nil ? .absent : .named("app_id")
        mapping.environment = environment == nil ? .absent : .named("environment")
        if platform != nil {
            mapping.platform = PlatformMapping(column: "platform", value: "ios")
        }
        mapping.registeredAt = Self.mapping(registration, "registered_at", engine)
        mapping.invalidatedAt = Self.mapping(mark, "invalidated_at", engine)
        mapping.reason = reason != nil ? .detect("invalid_reason") : .absent
    }

    /// Every column, each printed so that any two different values differ.
    var prints: [(name: String, sql: String)] {
        var prints: [(String, String)] = key.columns.map { ($0.name, $0.column.print($0.name)) }
        let bytes = engine == .sqlite ? RandomColumn.stored : RandomColumn.bytes
        prints.append(("device_token", bytes("device_token")))
        if app != nil { prints.append(("app_id", bytes("app_id"))) }
        if environment != nil { prints.append(("environment", bytes("environment"))) }
        if platform != nil { prints.append(("platform", bytes("platform"))) }
        if registration != .none { prints.append(("registered_at", bytes("registered_at"))) }
        if mark != .none { prints.append(("invalidated_at", bytes("invalidated_at"))) }
        if reason != nil { prints.append(("invalid_reason", bytes("invalid_reason"))) }
        for (index, column) in extra.enumerated() {
            prints.append(("x\(index)", column.print("x\(index)")))
        }
        return prints + [("holds", bytes("holds"))]
    }

    /// The rows as the server prints them, by number.
    func printed(on database: TokenDatabase) throws -> [Int: [String: String]] {
        let prints = self.prints
        let list = prints.map { "COALESCE(\($0.sql), 'NULL')" }.joined(separator: ", ")
        let found = try database.sql.query("SELECT number, \(list) FROM \(name)")
        var rows: [Int: [String: String]] = [:]
        for row in 0..<found.count {
            guard let number = found[row, 0].count else { continue }
            var values: [String: String] = [:]
            for (index, print) in prints.enumerated() {
                values[print.name] = found[row, index + 1].testText
            }
            rows[number] = values
        }
        return rows
    }

    /// The columns that a row is inserted with.
    var writable: [String] {
        var columns = key.columns.map(\.name) + [written("device_token")]
        if app != nil { columns.append(written("app_id")) }
        if environment != nil { columns.append(written("environment")) }
        if platform != nil { columns.append(written("platform")) }
        if registration != .none { columns.append(written("registered_at")) }
        if mark != .none { columns.append("invalidated_at") }
        if reason != nil { columns.append("invalid_reason") }
        return columns + extra.indices.map { "x\($0)" } + ["number", "holds"]
    }

    /// The column to which the value of a column is written.
    func written(_ column: String) -> String { computed.contains(column) ? "b_\(column)" : column }

    /// Whether the settings or the table are to be refused before a row changes; nil where both is
    /// right.
    func isToBeRefused(_ policy: RemovalPolicy, _ rows: [ModelRow]) -> Bool? {
        if engine == .mariaDB && (obstacle == .isWithoutTransactions || key.isUnfit) { return true }
        if TableObstacles.mayWriteRow(self), mark != .none || policy.action == .delete {
            return true
        }
        let unreadable = rows.count { $0.registration == .unreadable }
        // The examination looks at rows of the platform in any case of letters.
        if platform != nil, unreadable > 0 || !rows.contains(where: \.isApple) { return nil }
        if unreadable > 0 && unreadable * 2 >= rows.count { return true }
        guard policy.action == .delete else { return false }
        return obstacle == .logsRemovals
            || obstacle == .cascades && TableObstacles.hasChildren(self)
    }

    /// A time as the mark's column has it, printed; nil where marks are in the side table.
    func printedMark(_ time: Int64) -> String? {
        guard mark != .none else { return nil }
        let text = Self.literal(mark, time, engine).trimmed
        let hex = text.utf8.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return digits.count == 1 ? "0\(digits)" : digits
        }.joined()
        guard engine == .sqlite else { return hex }
        return (text.first == "2" && text.contains("-") ? "text" : "integer") + hex
    }

    /// The reason of a list, printed.
    var printedReason: String { (engine == .sqlite ? "text" : "") + "666565646261636B" }

    /// Whether the column of reasons holds words.
    var storesReason: Bool { engine == .sqlite ? reason != nil : reason == "VARCHAR(32)" }

    /// The unit of marks in milliseconds.
    var unit: Int64 {
        switch mark {
        case .clock0, .stamp: engine == .sqlite ? 1 : 1_000
        case .seconds: 1_000
        default: 1
        }
    }

    private static func mapping(_ clock: Clock, _ name: String, _ engine: TestEngine) -> TimeMapping
    {
        switch clock {
        case .none: TimeMapping(column: .absent)
        case .seconds: TimeMapping(column: .named(name), type: .epochSeconds)
        case .milliseconds: TimeMapping(column: .named(name), type: .epochMilliseconds)
        default: TimeMapping(column: .named(name))
        }
    }

    private static func type(_ clock: Clock, _ engine: TestEngine) -> String {
        switch (clock, engine) {
        case (.seconds, _), (.milliseconds, _): "BIGINT NULL"
        case (_, .sqlite): "DATETIME NULL"
        case (.clock0, _): "DATETIME NULL"
        case (.clock3, _): "DATETIME(3) NULL"
        case (.clock6, _): "DATETIME(6) NULL"
        default: "TIMESTAMP NULL DEFAULT NULL"
        }
    }

    /// A time as SQL writes it for a column.
    static func literal(_ clock: Clock, _ time: Int64, _ engine: TestEngine) -> String {
        let wall = WallClock(microseconds: time * 1_000)
        switch (clock, engine) {
        case (.seconds, _): return String(time / 1_000)
        case (.milliseconds, _): return String(time)
        case (_, .sqlite), (.clock3, _): return "'\(wall.text(fraction: 3))'"
        case (.clock6, _): return "'\(wall.text(fraction: 6))'"
        default: return "'\(wall.text(fraction: 0))'"
        }
    }

    // MARK: Making

    private mutating func create() {
        var columns = key.columns.map { "\($0.name) \($0.column.type) NOT NULL" }
        columns += definition("device_token", token.type)
        if let app { columns += definition("app_id", app) }
        if let environment { columns += definition("environment", environment) }
        if let platform { columns += definition("platform", platform) }
        if registration != .none {
            columns += definition("registered_at", Self.type(registration, engine))
        }
        if mark != .none { columns.append("invalidated_at \(Self.type(mark, engine))") }
        if let reason { columns.append("invalid_reason \(reason) NULL") }
        for (index, column) in extra.enumerated() { columns.append("x\(index) \(column.type)") }
        columns += ["number INTEGER", "holds INTEGER DEFAULT 0"]
        if obstacle == .checks && mark != .none {
            columns.append("CHECK (holds = 0 OR invalidated_at IS NULL)")
        }
        columns.append("PRIMARY KEY (\(key.columns.map(\.name).joined(separator: ", ")))")
        let storage =
            obstacle == .isWithoutTransactions && engine == .mariaDB
            ? (key.columns.count == 1 || RandomColumn.isMySQL ? "MyISAM" : "Aria") : "InnoDB"
        statements.append(
            "CREATE TABLE \(name) (\(columns.joined(separator: ", ")))"
                + (engine == .mariaDB ? " ENGINE=\(storage) CHARACTER SET utf8mb4" : "")
                + (isPartitioned ? " PARTITION BY KEY (id) PARTITIONS 3" : ""))
        if token.isIndexed { statements.append("CREATE INDEX \(name)_t ON \(name) (device_token)") }
        statements += TableObstacles.statements(self)
    }

    /// A column, with the one that it is computed from.
    private func definition(_ column: String, _ type: String) -> [String] {
        guard computed.contains(column) else { return ["\(column) \(type)"] }
        let plain = type.replacing(" NULL DEFAULT NULL", with: "").replacing(" NULL", with: "")
        return [
            "b_\(column) \(type)",
            "\(column) \(plain) AS (b_\(column)) \(isStored ? "STORED" : "VIRTUAL")",
        ]
    }

    private mutating func insert(_ number: Int, _ random: inout SeededGenerator) {
        let keys = key.literals(number, &random)
        var values: [(String, String)] = zip(key.columns, keys).map {
            ($0.name, $1)
        }
        let (literal, spelled) = token.value(number, &random)
        values.append((written("device_token"), literal))
        var isOurs = true
        if app != nil {
            let word = ["chat", "chat", "chat", "Chat", "chat ", "other"].one(&random)
            isOurs = isOurs && word == "chat"
            values.append((written("app_id"), "'\(word)'"))
        }
        if environment != nil {
            let word = ["production", "production", "sandbox"].one(&random)
            isOurs = isOurs && word == "production"
            values.append((written("environment"), "'\(word)'"))
        }
        var isApple = true
        if platform != nil {
            let word = ["'ios'", "'ios'", "'ios'", "'IOS'", "'ios '", "'web'", "NULL"].one(&random)
            isApple = word == "'ios'"
            values.append((written("platform"), word))
        }
        let registered = registrationValue(&random)
        if registration != .none { values.append((written("registered_at"), registered.literal)) }
        var marked: Int64?
        if mark != .none {
            let offsets: [Int64?] = [nil, nil, -3_600_000, 500_000]
            marked = offsets.one(&random).map { start + $0 }
            if let time = marked, time % unit != 0 { marked = time - time % unit }
            values.append(
                ("invalidated_at", marked.map { Self.literal(mark, $0, engine) } ?? "NULL"))
        }
        for (index, column) in extra.enumerated() {
            values.append(("x\(index)", column.literals.one(&random)))
        }
        let holds = Int.random(in: 0...3, using: &random) == 0
        values += [("number", "\(number)"), ("holds", holds ? "1" : "0")]
        let ignore = engine == .mariaDB ? "IGNORE " : "OR IGNORE "
        statements.append(
            "INSERT \(ignore)INTO \(name) (\(values.map(\.0).joined(separator: ", "))) VALUES "
                + "(\(values.map(\.1).joined(separator: ", ")))")
        if holds, let child = TableObstacles.child(of: self, number) { statements.append(child) }
        let marksInRow = mark != .none
        rows.append(
            ModelRow(
                number: number, token: spelled, isOurs: isOurs && isApple,
                isApple: isApple,
                registration: registered.model,
                mark: marked,
                refusesMark: marksInRow && TableObstacles.refusesMark(obstacle, holds),
                refusesRemoval: TableObstacles.refusesRemoval(self, holds),
                isOdd: extra.contains(where: \.isOdd) || key.columns.contains { $0.column.isOdd },
                isUnnameable: RandomKey.isUnnameable(keys)))
    }

    private func registrationValue(
        _ random: inout SeededGenerator
    ) -> (literal: String, model: ModelRow.Registration) {
        guard registration != .none else { return ("NULL", .absent) }
        let odd = Int.random(in: 0...9, using: &random)
        switch (odd, registration, engine) {
        case (0, _, _): return ("NULL", .absent)
        case (1, .seconds, _): return ("\(start)", .unreadable)
        case (1, .milliseconds, _): return ("\(start / 1_000)", .unreadable)
        case (1, .stamp, .mariaDB): return ("'0000-00-00 00:00:00'", .absent)
        case (1, _, .mariaDB): return ("'2024-05-00 11:22:33'", .unreadable)
        case (1, _, .sqlite): return ("'soon'", .unreadable)
        case (2, .clock0, .mariaDB), (2, .clock3, .mariaDB):
            return ("'0000-00-00 00:00:00'", .absent)
        default:
            let time =
                start
                + [-7_200_000, -3_600_000, 0, 58_000, 59_000, 60_000, 61_000, 3_600_000]
                .one(&random)
            return (Self.literal(registration, time, engine), .at(time))
        }
    }
}

extension String {
    /// The text without the quotes of a literal.
    fileprivate var trimmed: String { hasPrefix("'") ? String(dropFirst().dropLast()) : self }
}

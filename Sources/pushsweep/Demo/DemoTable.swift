import APNsProtocol
import Database
import Operations
import Settings
import TokenHygiene

/// The token table and the queue of the demo, in an embedded database.
struct DemoTable {
    private let connection: SQLiteConnection
    private let now: EpochMilliseconds

    /// Creates the schema as `pushsweep schema apply` does, and opens the file.
    init(_ settings: Settings, now: EpochMilliseconds) throws {
        _ = try SchemaWork.apply(settings, creatingTokens: true)
        let store = StoreSettings(settings)
        guard case .sqlite(let path) = store.location else {
            preconditionFailure("the demo's store is a file")
        }
        connection = SQLiteConnection(path: path, creates: false, store)
        try connection.connect()
        self.now = now
    }

    /// Inserts the devices that have a row.
    func fill(_ cast: [DemoDevice]) throws {
        for device in cast {
            guard let days = device.registered else { continue }
            let time = now.advanced(by: -Int64(days * 86_400_000))
            _ = try connection.execute(
                """
                INSERT INTO active_users
                    (user_id, app_id, environment, device_token, registered_at)
                VALUES (?, 'chat', 'production', ?, ?)
                """,
                [
                    .text(device.user), .bytes(device.token.bytes),
                    .text(WallClock(milliseconds: time.rawValue).text(fraction: 3)),
                ])
        }
    }

    /// The rows of the token table as lines, tokens redacted.
    func rows(explaining cast: [DemoDevice] = []) throws -> [String] {
        let rows = try connection.query(
            "SELECT user_id, device_token, registered_at, invalidated_at FROM active_users")
        let reasons = Dictionary(
            cast.map { ($0.user, $0.why) }, uniquingKeysWith: { first, _ in first })
        return (0..<rows.count).map { index in
            let user = rows[index, 0].text ?? ""
            var token = ""
            if case .bytes(let bytes) = rows[index, 1] {
                token = DeviceToken(bytes).map { "\($0)" } ?? ""
            }
            let mark = rows[index, 3].text.map { "invalid since \($0.prefix(16))" } ?? "valid"
            let registered = (rows[index, 2].text ?? "").prefix(16)
            let line = "\(user)  \(token)  registered \(registered)  \(mark)"
            return reasons[user].map { Self.explained(line, 76, $0) } ?? line
        }
    }

    /// The rows of the queue as lines, with their results.
    func queue(explaining cast: [DemoDevice]) throws -> [String] {
        let rows = try connection.query(
            "SELECT device_token, state, reason FROM push_queue ORDER BY id")
        return (0..<rows.count).map { index in
            guard case .bytes(let bytes) = rows[index, 0],
                let device = cast.first(where: { $0.token.bytes == bytes })
            else { return "" }
            let reason = rows[index, 2].text.map { " (\($0))" } ?? ""
            let line = "\(device.user)  \(device.token)  \(rows[index, 1].text ?? "")\(reason)"
            return Self.explained(line, 36, device.sending ?? "")
        }
    }

    private static func explained(_ line: String, _ width: Int, _ words: String) -> String {
        line + String(repeating: " ", count: max(0, width - line.count)) + "  " + words
    }
}

/// One device of the demo: its row in the table and the evidence of the gateway.
struct DemoDevice {
    let user: String
    let token: DeviceToken
    /// Days before now at which the token was registered; nil for a token that is in no row.
    let registered: Double?
    /// Days before now at which the gateway saw it dead, oldest first.
    let dead: [Double]
    /// The expected action of the sweep, in words.
    let why: String
    /// Hours before now at which APNs found the app gone; nil when its answer is not 410.
    var gone: Double?
    /// The expected result of its notification, in words; nil when none is queued.
    var sending: String?

    /// A token of a repeated byte pattern, `count` bytes long.
    private static func token(_ first: UInt8, count: Int = 32) -> DeviceToken {
        let bytes = (0..<count).map { first &+ UInt8(truncatingIfNeeded: $0 &* 7) }
        guard let token = DeviceToken(bytes) else { preconditionFailure("a token has bytes") }
        return token
    }

    /// The devices of the demo, in printing order.
    static let cast: [DemoDevice] = [
        DemoDevice(
            user: "ada", token: token(0x11), registered: 90, dead: [2],
            why: "registered 90 days ago, gone 2 days ago: stale",
            sending: "marked by the sweep: never sent"),
        DemoDevice(
            user: "ben", token: token(0x27), registered: 1, dead: [2],
            why: "gone 2 days ago, but registered again yesterday: alive",
            sending: "APNs took it"),
        DemoDevice(
            user: "cho", token: token(0x3c), registered: 40, dead: [9, 3],
            why: "reported twice, the later time counts: stale"),
        DemoDevice(
            user: "dee", token: token(0x52, count: 54), registered: 30, dead: [1],
            why: "a token of 54 bytes is a token like any other: stale"),
        DemoDevice(
            user: "eve", token: token(0x6a), registered: 10, dead: [],
            why: "the gateway says nothing about it", gone: 1,
            sending: "APNs answered 410: its token is marked, as by a sweep"),
        DemoDevice(
            user: "(nobody)", token: token(0x80), registered: nil, dead: [5],
            why: "no row carries this token"),
    ]
}

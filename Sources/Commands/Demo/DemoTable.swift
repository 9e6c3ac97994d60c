import APNsProtocol
import Database
import Looks
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

    /// Inserts the rows of the devices.
    func fill(_ cast: [DemoDevice]) throws {
        for device in cast {
            let time = now.advanced(by: -Int64(device.registered * 86_400_000))
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

    /// Inserts the answer of APNs about a token, as a sender does.
    func report(_ token: DeviceToken, _ time: EpochMilliseconds) throws {
        _ = try connection.execute(
            """
            INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)
            VALUES ('chat', ?, 410, 'Unregistered', ?)
            """, [.text(token.hex), .integer(time.rawValue)])
    }

    /// Inserts a notification to a token, as the application does.
    func queue(_ token: DeviceToken) throws {
        _ = try connection.execute(
            """
            INSERT INTO push_queue (app_id, device_token, payload)
            VALUES ('chat', ?, '{"aps":{"alert":"Hello"}}')
            """, [.bytes(token.bytes)])
    }

    /// Whether the row of a device has no mark.
    func isLiving(_ device: DemoDevice) throws -> Bool {
        try connection.query(
            "SELECT COUNT(*) FROM active_users WHERE user_id = ? AND invalidated_at IS NULL",
            [.text(device.user)]
        ).scalar?.count == 1
    }
}

/// One device of the demo: its row in the table and what APNs says.
struct DemoDevice {
    /// Days for which the dead devices are gone.
    static let deadFor = 2.0

    let user: String
    let token: DeviceToken
    /// Days before now at which the token was registered.
    let registered: Double
    /// Whether an answer and a list call it dead.
    var isDead = false
    /// Whether APNs finds the app gone when it is sent to.
    var isGone = false

    /// A token of a repeated byte pattern.
    private static func token(_ first: UInt8) -> DeviceToken {
        let bytes = (0..<32).map { first &+ UInt8(truncatingIfNeeded: $0 &* 7) }
        guard let token = DeviceToken(bytes) else { preconditionFailure("a token has bytes") }
        return token
    }

    /// The devices of the demo, in printing order.
    static let cast: [DemoDevice] = [
        DemoDevice(user: "ada", token: token(0x11), registered: 90, isDead: true),
        DemoDevice(user: "ben", token: token(0x27), registered: 1, isDead: true),
        DemoDevice(user: "eve", token: token(0x6a), registered: 10, isGone: true),
    ]
}

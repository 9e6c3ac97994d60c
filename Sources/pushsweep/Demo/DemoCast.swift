import APNsProtocol
import TokenHygiene

/// One device of the demo: its row in the table and the evidence of the gateway.
struct DemoDevice {
    /// Its user.
    let user: String
    /// Its token.
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

// Limits a sender's memory.
//
// A fast database returns rows faster than a slow gateway takes them, and a fast gateway answers
// faster than a slow database writes. Neither may make memory grow. So rows without an outcome are
// limited in number and in bytes, whichever side is slow, and only outcomes make room. Payloads take
// the most memory: 4 KiB each, 5 KiB for VoIP, against some 200 bytes for the rest of a row. A
// payload is freed when its row has an outcome; results wait for the database without payloads.
//
//   claimed, not given yet   at most `mostBytes` and one claim, which the scan of the queue bounds
//   given to connections     at most the window's rows and `mostBytes`, and one payload
//   with outcomes            at most the window's open rows and one claim, without payloads

/// Counts the rows without an outcome of one app, and their bytes.
struct SendLoad: Sendable {
    /// The limits of an interface.
    struct Window: Hashable, Sendable {
        /// The most rows that the connections may have at once.
        var rows: Int
        /// The most rows of claims and slices of which some row has no result yet. One may wait for its answer long after
        /// all others of its slice.
        var openRows: Int

        /// HTTP/2 answers each notification at once.
        static let provider = Window(rows: 2_000, openRows: 32_000)

        /// The binary interface answers with silence, which takes `errorWait`; so ten times as many
        /// rows wait for it.
        static let binary = Window(rows: 20_000, openRows: 48_000)
    }

    /// The limits of the gateway's interface.
    let window: Window
    /// The most bytes of payload that wait, and the most with the connections: a thousand of the
    /// largest.
    static let mostBytes = 4 << 20

    /// Number of rows that the connections have.
    private(set) var rows = 0
    /// Bytes of their payloads.
    private(set) var bytes = 0
    /// Bytes of payloads that are claimed and that no connection has.
    private(set) var waiting = 0
    /// The maximum of each so far.
    private(set) var peak = (rows: 0, bytes: 0, waiting: 0)

    init(_ window: Window = .provider) { self.window = window }

    /// Whether more rows may be claimed.
    var mayClaim: Bool { waiting < Self.mostBytes }

    /// How many payloads of the given sizes, in this order, the connections may have, with at most
    /// `rows` more rows.
    func fitting(_ sizes: some Sequence<Int>, rows most: Int) -> Int {
        let room = min(most, window.rows - rows)
        var (count, total) = (0, bytes)
        for size in sizes {
            guard count < room, total < Self.mostBytes else { break }
            count += 1
            total += size
        }
        return count
    }

    /// Adds the bytes of claimed payloads.
    mutating func claimed(_ bytes: Int) {
        waiting += bytes
        peak.waiting = max(peak.waiting, waiting)
    }

    /// Subtracts the bytes of waiting payloads that are freed.
    mutating func dropped(_ bytes: Int) { waiting -= bytes }

    /// Moves waiting rows to the connections.
    mutating func given(_ count: Int, _ size: Int) {
        rows += count
        bytes += size
        waiting -= size
        peak = (max(peak.rows, rows), max(peak.bytes, bytes), peak.waiting)
    }

    /// Moves rows without an outcome from the connections back to the waiting ones.
    mutating func withdrawn(_ count: Int, _ size: Int) {
        rows -= count
        bytes -= size
        waiting += size
    }

    /// Subtracts a row that has an outcome.
    mutating func release(_ size: Int) {
        rows -= 1
        bytes -= size
    }
}

/// A limit on notifications per second. Unused allowance is kept for a tenth of a second at most, so
/// that no burst follows a pause.
package struct RateLimit: Hashable, Sendable {
    /// Seconds for which unused allowance is kept.
    static let reserve = 0.1

    private let perSecond: Double
    private var credit = 0.0
    private var last: Double?

    /// Limits the rate; at least one per second.
    package init(perSecond: Double) { self.perSecond = max(1, perSecond) }

    /// How many notifications may be sent at a time, in seconds of a monotonic clock.
    package mutating func allowance(at now: Double) -> Int {
        if let last { credit += max(0, now - last) * perSecond }
        last = now
        credit = min(credit, max(1, perSecond * Self.reserve))
        return Int(credit)
    }

    /// Subtracts the notifications that were sent.
    package mutating func spend(_ count: Int) { credit -= Double(count) }
}

// What a sender holds in memory, and where that ends.
//
// Rows come out of a fast database faster than a slow gateway takes them, and answers of a fast gateway
// come faster than a slow database writes them. Neither may grow: rows without an outcome are bounded
// in number and in bytes, whoever is the slow one, and only what comes back makes room. Payloads are
// what counts: 4 KiB each, 5 KiB for VoIP, against some 200 bytes of everything else about a row. They
// are let go when a row has its outcome; results wait for the database without them.
//
//   claimed, not given yet   at most `mostBytes` and one claim, which the scan of the queue bounds
//   given to connections     at most `mostRows` and `mostBytes`, and one payload
//   with outcomes            at most the four claims' rows, without payloads

/// Counts what an app's rows without an outcome take.
struct SendLoad: Sendable {
    /// Rows with the connections at once.
    static let mostRows = 2_000
    /// Bytes of payload that wait, and as many with the connections: a thousand of the largest.
    static let mostBytes = 4 << 20

    /// Rows with the connections.
    private(set) var rows = 0
    /// Bytes of their payloads.
    private(set) var bytes = 0
    /// Bytes of payload that are claimed and with no connection.
    private(set) var waiting = 0
    /// The most of each so far.
    private(set) var peak = (rows: 0, bytes: 0, waiting: 0)

    /// Whether more rows may be claimed.
    var mayClaim: Bool { waiting < Self.mostBytes }

    /// How many of some payloads the connections may have, in this order, if they may have `rows` more.
    func fitting(_ sizes: some Sequence<Int>, rows most: Int) -> Int {
        let room = min(most, Self.mostRows - rows)
        var (count, total) = (0, bytes)
        for size in sizes {
            guard count < room, total < Self.mostBytes else { break }
            count += 1
            total += size
        }
        return count
    }

    /// Payloads of so many bytes are claimed.
    mutating func claimed(_ bytes: Int) {
        waiting += bytes
        peak.waiting = max(peak.waiting, waiting)
    }

    /// Payloads that waited are let go.
    mutating func dropped(_ bytes: Int) { waiting -= bytes }

    /// Rows go to the connections.
    mutating func given(_ count: Int, _ size: Int) {
        rows += count
        bytes += size
        waiting -= size
        peak = (max(peak.rows, rows), max(peak.bytes, bytes), peak.waiting)
    }

    /// Rows come back from the connections without an outcome, and wait again.
    mutating func withdrawn(_ count: Int, _ size: Int) {
        rows -= count
        bytes -= size
        waiting += size
    }

    /// A row has its outcome.
    mutating func release(_ size: Int) {
        rows -= 1
        bytes -= size
    }
}

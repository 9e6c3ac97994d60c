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
//   with outcomes            at most the rows of the window's claims, without payloads

/// Counts the rows without an outcome of one app, and their bytes.
struct SendLoad: Sendable {
    /// The limits of an interface.
    struct Window: Hashable, Sendable {
        /// The most rows that the connections may have at once.
        var rows: Int
        /// The most claims on their way at once.
        var claims: Int

        /// HTTP/2 answers each notification at once. One claim is being answered, one is on the wire,
        /// one is being claimed.
        static let provider = Window(rows: 2_000, claims: 4)

        /// The binary interface answers with silence, which takes `errorWait`; so ten times as many
        /// rows wait for it.
        static let binary = Window(rows: 20_000, claims: 24)
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
struct RateLimit: Hashable, Sendable {
    private static let reserve = 0.1

    private let perSecond: Double
    private var credit = 0.0
    private var last: Double?

    /// Limits the rate; at least one per second.
    init(perSecond: Double) { self.perSecond = max(1, perSecond) }

    /// How many notifications may be sent at a time, in seconds of a monotonic clock.
    mutating func allowance(at now: Double) -> Int {
        if let last { credit += max(0, now - last) * perSecond }
        last = now
        credit = min(credit, max(1, perSecond * Self.reserve))
        return Int(credit)
    }

    /// Subtracts the notifications that were sent.
    mutating func spend(_ count: Int) { credit -= Double(count) }
}

// Limits the notifications that a gateway without answers may cost.
//
// A notification that was on the wire and got no answer is closed as unknown: it may have been
// delivered, so it is not sent again. A gateway that resets every stream, never answers, or cuts
// every connection would close a whole queue that way. So a gateway has to answer before it gets
// more. Until its first answer, three notifications are on the wire at once; after nine without an
// answer it has failed. Sending stops, and all other rows are back in the queue.
//
// Later, an unknown outcome puts the gateway in doubt. The sender waits for the notifications that
// are on the wire then, and any answer clears the gateway. When all of them stay without an answer,
// the gateway is tried again as at the start: three at once, nine in all. The notifications that were
// on the wire when the doubt began do not count, because a single broken connection leaves that many
// unknown and the next connection may be good.
//
// A gateway that answers some notifications and loses many, connection after connection, has failed
// too: after the third doubt, with fifty unknown outcomes and at least one for two answers.
//
// A gateway that failed and is tried again has three notifications.

/// Counts unknown outcomes since the last answer, and limits the notifications on the wire.
struct GatewaySilence: Hashable, Sendable {
    /// Notifications on the wire at once before an answer, and the most that a renewed try may cost.
    static let probe = 3
    /// Unknown outcomes in a row after which the gateway has failed.
    static let most = 9

    /// The least number of doubts and of unknown outcomes before their share counts.
    private static let (leastDoubts, leastUnknown) = (3, 50)

    private enum Phase: Hashable {
        /// The last outcome was an answer.
        case answering
        /// The last outcome was unknown. The sender waits for the others on the wire.
        case doubted
        /// A few notifications are tried at a time. The number counts those without an answer.
        case tried(Int)
    }

    private var phase = Phase.tried(0)
    private var limit = GatewaySilence.most
    private var doubts = 0
    private var answers = 0
    private var unknowns = 0
    /// Whether the gateway has answered anything in this run.
    private(set) var hasAnswered = false
    /// Whether the last unknown outcome was a violation of HTTP/2.
    private(set) var isGarbled = false
    /// The last unknown outcome in a few words.
    private(set) var reason = ""

    /// Counts an answer.
    mutating func answered() {
        hasAnswered = true
        answers += 1
        phase = .answering
        limit = Self.most
    }

    /// Counts an unknown outcome.
    mutating func unknown(_ reason: String, isGarbled: Bool) {
        (self.reason, self.isGarbled) = (reason, isGarbled)
        unknowns += 1
        switch phase {
        case .answering:
            phase = .doubted
            doubts += 1
        case .doubted: break
        case .tried(let count): phase = .tried(count + 1)
        }
    }

    /// Takes the number of notifications on the wire.
    mutating func noteInFlight(_ count: Int) {
        if phase == .doubted && count == 0 { phase = .tried(0) }
    }

    /// Begins a new try of a gateway that has failed.
    mutating func startAgain() {
        phase = .tried(0)
        limit = Self.probe
        (doubts, answers, unknowns) = (0, 0, 0)
    }

    /// How many notifications may be on the wire now; nil for any number.
    var allowance: Int? {
        switch phase {
        case .answering: nil
        case .doubted: 0
        case .tried(let count): min(Self.probe, max(0, limit - count))
        }
    }

    /// Why the gateway has failed, in a clause; nil when it has not failed.
    var failure: String? {
        if case .tried(let count) = phase, count >= limit {
            return "left \(count.counting("notification")) in a row without an answer (\(reason)) "
                + (hasAnswered ? "after it had answered others" : "and answered none")
        }
        if phase != .answering, doubts >= Self.leastDoubts, unknowns >= Self.leastUnknown,
            unknowns * 2 > answers
        {
            return
                "left \(unknowns) of \((unknowns + answers).counting("notification")) without an "
                + "answer (\(reason))"
        }
        return nil
    }

    /// The exit code of a run that ends because of such a gateway. It tells a script what to do about
    /// it.
    var exit: ExitStatus {
        if isGarbled { .protocolBroken } else { hasAnswered ? .pending : .unreachable }
    }
}

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

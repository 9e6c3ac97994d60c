// What a gateway that answers nothing may cost.
//
// A notification that was on the wire and got no answer is closed as unknown: it may have been
// delivered, so it is not sent again. A gateway that resets every stream, says nothing, or cuts every
// connection would close a whole queue that way. So a gateway has to answer before it gets more: until
// its first answer three notifications are on the wire at once, and after nine without an answer it has
// failed. Sending stops, and everything else is back in the queue.
//
// Later an unknown outcome puts the gateway in doubt. What is on the wire then is waited for, and
// any answer clears the gateway. Where all of it stays without an answer, the gateway is tried again
// as at the start: three at once, nine in all. What was on the wire when the doubt began does not count,
// because a single broken connection leaves that much behind and the next one may be good.
//
// A gateway that answers some and leaves many, connection after connection, has failed too: when the
// doubt came back for the third time, fifty outcomes are unknown, and there is one for two answers.
//
// A gateway that was left and is tried again has three.

/// Counts unknown outcomes since the last answer, and says how many more notifications may be risked.
struct GatewaySilence: Hashable, Sendable {
    /// Notifications on the wire at once before an answer; all that a renewed try may cost.
    static let probe = 3
    /// Unknown outcomes without an answer between them at which the gateway has failed.
    static let most = 9

    /// Doubts, and unknown outcomes, before their share is looked at.
    private static let (leastDoubts, leastUnknown) = (3, 50)

    private enum Phase: Hashable {
        /// The last outcome was an answer.
        case answering
        /// The last outcome was unknown; others that were on the wire with it are waited for.
        case doubted
        /// Single notifications are tried; so many of them were left without an answer.
        case tried(Int)
    }

    private var phase = Phase.tried(0)
    private var limit = GatewaySilence.most
    private var doubts = 0
    private var answers = 0
    private var unknowns = 0
    /// Whether it has answered anything in this run.
    private(set) var hasAnswered = false
    /// Whether the last unknown outcome was a breach of HTTP/2.
    private(set) var isGarbled = false
    /// The last unknown outcome in a few words.
    private(set) var reason = ""

    /// An answer came.
    mutating func answered() {
        hasAnswered = true
        answers += 1
        phase = .answering
        limit = Self.most
    }

    /// An outcome is unknown.
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

    /// So many notifications are on the wire now.
    mutating func noteInFlight(_ count: Int) {
        if phase == .doubted && count == 0 { phase = .tried(0) }
    }

    /// The gateway was left, and is tried again.
    mutating func startAgain() {
        phase = .tried(0)
        limit = Self.probe
        (doubts, answers, unknowns) = (0, 0, 0)
    }

    /// How many may be on the wire now; nil for any number.
    var allowance: Int? {
        switch phase {
        case .answering: nil
        case .doubted: 0
        case .tried(let count): min(Self.probe, max(0, limit - count))
        }
    }

    /// Why the gateway has failed, in a clause; nil while it has not.
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

    /// The exit code of a run that such a gateway ends: what a script can do about it.
    var exit: ExitStatus {
        if isGarbled { .protocolBroken } else { hasAnswered ? .pending : .unreachable }
    }
}

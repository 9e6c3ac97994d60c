// Limits the notifications that a gateway may cost which serves none.
//
// Two kinds of outcomes say nothing about their row. One that was on the wire and got no answer is closed as
// unknown: it may have been delivered, so it is not sent again. One that was refused for the sake of the
// credential or of the gateway itself (429 TooManyProviderTokenUpdates, 5xx, a refused stream) is sent again,
// ten times at most; what is no answer of APNs, such as the page of a proxy, is no attempt at all. A gateway that resets every stream, or has an outage, would close a whole queue that
// way. So a gateway has to serve before it gets more. Until then three notifications are on the wire at
// once; after nine such outcomes it has failed. Sending stops, and all other rows are back in the queue.
//
//   tried --served--> serving --such an outcome--> doubted --none is on the wire--> tried
//     |                  ^                            |
//     |                  +---------- served ----------+
//     +--nine such outcomes--> failed
//
// Later, such an outcome puts the gateway in doubt. The sender waits for the notifications that are on the
// wire then, and any served one clears the gateway. When none is served, the gateway is tried again as at
// the start: three at once, nine in all. The notifications that were on the wire when the doubt began do not
// count, because a single broken connection leaves that many and the next connection may be good.
//
// A gateway that answers some notifications and loses many, connection after connection, has failed
// too: after the third doubt, with fifty unknown outcomes and at least one for two answers.
//
// A queue may end before nine were tried. A gateway that served nothing at all has failed then, and one that
// refused nine without serving any in between.
//
// A gateway that failed and is tried again has three notifications.

import APNsProtocol

/// Counts the outcomes since the last one that tells something about its row, and limits the
/// notifications on the wire.
struct GatewayDoubt: Hashable, Sendable {
    /// Notifications on the wire at once before one is served, and the most that a renewed try may cost.
    static let probe = 3
    /// Such outcomes in a row after which the gateway has failed.
    static let most = 9

    /// The least number of doubts and of unknown outcomes before their share counts.
    private static let (leastDoubts, leastUnknown) = (3, 50)

    private enum Phase: Hashable {
        /// The last outcome told something about its row.
        case serving
        /// The last outcome did not. The sender waits for the others on the wire.
        case doubted
        /// A few notifications are tried at a time. The number counts those that were not served.
        case tried(Int)
    }

    private var phase = Phase.tried(0)
    private var limit = GatewayDoubt.most
    private var doubts = 0
    private var answers = 0
    private var unknowns = 0
    /// Refusals since the last notification that was served.
    private var refusals = 0
    /// Whether the last outcome that tells nothing was a refusal.
    private var isRefusal = false
    /// Whether the credential was refused then, not the gateway out of order.
    private(set) var isOfCredential = false
    /// Whether the last refusal was no answer of APNs.
    private(set) var isForeign = false
    /// Whether the gateway has answered anything in this run.
    private(set) var hasAnswered = false
    /// Whether the last unknown outcome was a violation of HTTP/2.
    private(set) var isGarbled = false
    /// The last outcome that tells nothing, in a few words.
    private(set) var reason = ""

    /// Counts an answer about a row.
    mutating func served() {
        hasAnswered = true
        answers += 1
        refusals = 0
        phase = .serving
        limit = Self.most
    }

    /// Counts an unknown outcome.
    mutating func unknown(_ reason: String, isGarbled: Bool) {
        (self.reason, self.isGarbled, isRefusal) = (reason, isGarbled, false)
        unknowns += 1
        if phase == .serving { doubts += 1 }
        noteUnserved()
    }

    /// Counts a refusal that is about the gateway or the credential, and not about its row.
    mutating func refused(_ reason: String, isOfCredential: Bool, isForeign: Bool = false) {
        (self.reason, self.isOfCredential, isRefusal) = (reason, isOfCredential, true)
        self.isForeign = isForeign
        hasAnswered = true
        refusals += 1
        noteUnserved()
    }

    private mutating func noteUnserved() {
        switch phase {
        case .serving: phase = .doubted
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
        (doubts, answers, unknowns, refusals) = (0, 0, 0, 0)
    }

    /// Whether the last outcome told something about its row.
    var isServing: Bool { phase == .serving }

    /// How many notifications may be on the wire now; nil for any number.
    var allowance: Int? {
        switch phase {
        case .serving: nil
        case .doubted: 0
        case .tried(let count): min(Self.probe, max(0, limit - count))
        }
    }

    /// Why the gateway has failed, in a clause; nil when it has not failed.
    var failure: String? {
        if case .tried(let count) = phase, count >= limit {
            guard !isRefusal else { return refusal }
            let refused = refusals > 0 ? "refused or " : ""
            return
                "\(refused)left \(count.counting("notification")) in a row without an answer (\(reason)) "
                + (hasAnswered ? "after it had answered others" : "and answered none")
        }
        if phase != .serving, doubts >= Self.leastDoubts, unknowns >= Self.leastUnknown,
            unknowns * 2 > answers
        {
            return
                "left \(unknowns) of \((unknowns + answers).counting("notification")) without an "
                + "answer (\(reason))"
        }
        return nil
    }

    /// The same where nothing more is to be sent for now, so that no other notification can be tried.
    var failureAtEnd: String? {
        if let failure { return failure }
        guard !isServing, isRefusal, refusals > 0, answers == 0 || refusals >= Self.most else {
            return nil
        }
        return refusal
    }

    private var refusal: String {
        "refused \(refusals.counting("notification")) in a row (\(reason)) "
            + (answers > 0 ? "after it had served others" : "and served none")
    }

    /// What becomes of the rows of a gateway that has failed, and what to do, in clauses.
    var cure: String {
        guard isRefusal else {
            return
                "what was not on the wire is back in the queue; run again once the gateway answers"
        }
        return "the refused ones have had no attempt, and wait in the queue; "
            + (isForeign
                ? "something else than APNs answers there, such as a proxy: correct the host and the port of the "
                    + "provider, or what stands between, then run again"
                : isOfCredential
                    ? "APNs takes a new provider token of a key once in 20 minutes, and each run makes one: let "
                        + "one sender of this key run with --follow, or let 20 minutes pass between runs, on all "
                        + "hosts"
                    : "this is a fault of the gateway, so run again in 15 minutes")
    }

    /// The exit code of a run that ends because of such a gateway. It tells a script what to do about
    /// it.
    var exit: ExitStatus {
        if isRefusal { return .pending }
        return isGarbled ? .protocolBroken : hasAnswered ? .pending : .unreachable
    }
}

import APNsProtocol

// The decisions about a connection to APNs, as a value: outcomes in, decisions out. The thread that
// owns the socket performs them.
//
// A notification is sent again at once only when APNs certainly has not processed it: its stream
// was refused or had a number above the last one of a GOAWAY, its last byte was never sent, or the
// credential was refused and another one is available. Every other outcome goes to the caller,
// which applies the settings.
//
// States of a connection: probing (one stream, until APNs has accepted the provider token once:
// Apple, "Sending notification requests to APNs"), open, draining (no new notification is sent;
// those in flight are completed), ended.
//
// A notification without an answer is lost: it may have been delivered, so it is not sent again.
// The cost of a gateway that answers nothing is therefore bounded by the notifications on the wire.
// A connection begins with three streams and gains one with each answer, so a gateway never costs
// many more notifications than it answers. An unknown outcome takes the connection back to three
// streams, and three of these in a row end it. So does what the gateway never let become whole: it costs no
// notification, but time.
//
// Between two connections there is a pause, because APNs treats rapid connecting as an attack. The
// pause doubles while no connection brings an answer, and after some of these the provider is given
// up.

/// The state machine for one connection after another.
struct ProviderConversation: Hashable, Sendable {
    /// The highest number of streams used on a connection.
    static let fullStreams = 1_000
    /// The highest number of times a notification is put on a stream before it goes back to the
    /// caller.
    static let mostSends = 5
    /// Connections in a row without an answer before the provider is given up.
    static let mostFailures = 3
    /// Pauses in a row on a connection that refuses all streams before it counts as failed.
    static let mostRefusalPauses = 5
    /// The number of streams before a connection's first answer, and after an unknown outcome.
    static let firstStreams = 3
    /// Notifications in a row without an answer after which a connection is left.
    static let mostUnanswered = 3
    /// The number of answers on a connection from which on the next one may follow its end at once.
    static let answersOfGoodConnection = 10

    /// The next step for a notification.
    enum Decision: Hashable, Sendable {
        /// Its outcome goes to the caller.
        case deliver
        /// It is sent again, on this connection or the next.
        case sendAgain
        /// It is sent again with a provider token other than the one it was sent with.
        case sendWithNewToken
    }

    private let usesToken: Bool
    /// Whether no new notification may be put on this connection.
    private(set) var isDraining = false
    private var isProven: Bool
    /// The number of answers on the present connection.
    private var answers = 0
    private var failures = 0
    private var refusals = 0
    private var window = ProviderConversation.firstStreams
    /// Notifications that the present connection left without an answer since its last one.
    private var unanswered = 0
    private var refusalPauses = 0

    /// Begins before the first connection. Only connections with a provider token begin with
    /// probing.
    init(usesToken: Bool) {
        self.usesToken = usesToken
        isProven = !usesToken
    }

    /// The number of streams that may be used now.
    var streams: Int {
        guard isProven else { return 1 }
        return max(1, min(window, Self.fullStreams >> min(refusals, 10)))
    }

    /// Resets the state for a new connection.
    mutating func connected() {
        isDraining = false
        isProven = !usesToken
        (answers, refusals, refusalPauses, unanswered) = (0, 0, 0, 0)
        window = Self.firstStreams
    }

    /// Whether the connection is left because it answered nothing.
    var isUnanswering: Bool { unanswered >= Self.mostUnanswered }

    /// Stops new notifications on this connection.
    mutating func drain() { isDraining = true }

    /// Decides after an answer to a notification that was sent `sends` times.
    mutating func answered(_ meaning: AnswerMeaning, sends: Int) -> Decision {
        let mayRepeat = sends < Self.mostSends
        switch meaning {
        case .credentialFault(let remedy):
            guard usesToken, mayRepeat else { return .deliver }
            switch remedy {
            case .newToken: return .sendWithNewToken
            case .newConnection where answers > 0:
                isDraining = true
                return .sendAgain
            default: return .deliver
            }
        case .reconnect:
            isDraining = true
            return mayRepeat ? .sendAgain : .deliver
        default:
            answers += 1
            if meaning != .refusedByGateway { isProven = true }
            (failures, refusals, refusalPauses, unanswered) = (0, 0, 0, 0)
            window = min(window + 1, Self.fullStreams)
            return .deliver
        }
    }

    /// Counts a notification that was on the wire and got no answer.
    mutating func outcomeUnknown() {
        unanswered += 1
        window = Self.firstStreams
        if isUnanswering { isDraining = true }
    }

    /// Why APNs did not process a notification.
    enum Unprocessed: Hashable, Sendable {
        /// Its connection ended before.
        case connectionEnded
        /// Its stream was refused.
        case refused
        /// Its stream ended before its last byte was sent.
        case incomplete
    }

    /// Decides after APNs did not process a notification that was sent `sends` times.
    mutating func notProcessed(_ why: Unprocessed, sends: Int) -> Decision {
        switch why {
        case .connectionEnded: break
        case .refused: refusals = min(refusals + 1, 10)
        case .incomplete: outcomeUnknown()
        }
        return sends < Self.mostSends ? .sendAgain : .deliver
    }

    /// Milliseconds to wait before sending on a connection that has refused streams and answered
    /// nothing since; 0 for none.
    var refusalPause: Int { refusals == 0 ? 0 : min(10 << refusals, 5_000) }

    /// Counts one `refusalPause`.
    mutating func pausedForRefusals() {
        refusalPauses += 1
        if refusalPauses >= Self.mostRefusalPauses { isDraining = true }
    }

    /// Decides after the connection has ended or could not be made: milliseconds to the next one, before
    /// jitter; nil to give the provider up.
    mutating func ended() -> Int? {
        defer { answers = 0 }
        guard answers == 0 else { return answers < Self.answersOfGoodConnection ? 250 : 0 }
        failures += 1
        return failures >= Self.mostFailures ? nil : 250 << failures
    }

    /// Allows one more connection after the provider was given up; more follow only if it brings an
    /// answer.
    mutating func startAgain() { failures = Self.mostFailures - 1 }
}

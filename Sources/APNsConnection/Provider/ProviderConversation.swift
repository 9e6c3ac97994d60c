// What a connection to APNs decides, as a value: outcomes in, decisions out. The thread that owns
// the socket performs them.
//
// A notification is sent again, here and at once, only when APNs certainly has not acted on it: its
// stream was refused or lay above the last one of a GOAWAY, the connection was at its end, or the
// credential was refused and another one can be had. All else goes back to the caller, who knows
// what the settings say about it.
//
// States of a connection: probing (one stream, until APNs has taken our provider token once: Apple,
// "Sending notification requests to APNs"), open, draining (nothing new is sent; what is in flight
// comes home), ended.
//
// A notification without an answer is lost to us: it may have been delivered, so it is not sent again.
// What a gateway that answers nothing can cost is therefore bounded by what we put on the wire. A
// connection begins with three streams and gains one with each answer, so that a gateway never costs
// many more notifications than it answers. An outcome that is unknown takes the
// connection back to three streams, and three of these in a row end it.
//
// Between two connections there is a pause that doubles while none of them
// brings an answer, because rapid connecting counts as an attack, and after some of these the
// provider is given up.

import APNsProtocol

/// Decides for one connection after another.
struct ProviderConversation: Hashable, Sendable {
    /// Streams we want on a connection.
    static let fullStreams = 1_000
    /// Times a notification is put on a stream before it goes back to the caller.
    static let mostSends = 5
    /// Connections in a row without an answer before the provider is given up.
    static let mostFailures = 3
    /// Pauses in a row on a connection that refuses all streams before it counts as failed.
    static let mostRefusalPauses = 5
    /// Streams of a connection before its first answer, and after an unknown outcome.
    static let firstStreams = 3
    /// Streams that each answer adds.
    static let streamsPerAnswer = 1
    /// Unknown outcomes in a row after which a connection is left.
    static let mostUnknown = 3
    /// Answers on a connection after whose end the next one may follow at once.
    static let answersOfGoodConnection = 10

    /// What happens to a notification.
    enum Decision: Hashable, Sendable {
        /// Its outcome goes to the caller.
        case deliver
        /// It is sent again, on this connection or the next.
        case sendAgain
        /// It is sent again with a provider token other than the one it was sent with.
        case sendWithNewToken
    }

    /// What happens after a connection ended.
    enum Pause: Hashable, Sendable {
        /// Connect again after so many milliseconds, before jitter.
        case milliseconds(Int)
        /// Give the provider up.
        case giveUp
    }

    private let usesToken: Bool
    /// Whether nothing new is to be put on this connection.
    private(set) var isDraining = false
    private var isProven: Bool
    /// Answers on the present connection.
    private var answers = 0
    private var failures = 0
    private var refusals = 0
    private var window = ProviderConversation.firstStreams
    /// Unknown outcomes on the present connection since its last answer.
    private var unknowns = 0
    private var refusalPauses = 0

    /// Begins before the first connection.
    init(usesToken: Bool) {
        self.usesToken = usesToken
        isProven = !usesToken
    }

    /// How many streams may be used now.
    var streams: Int {
        guard isProven else { return 1 }
        return max(1, min(window, Self.fullStreams >> min(refusals, 10)))
    }

    /// A new connection is up.
    mutating func connected() {
        isDraining = false
        isProven = !usesToken
        answers = 0
        refusals = 0
        refusalPauses = 0
        window = Self.firstStreams
        unknowns = 0
    }

    /// Whether the connection is left because it answered nothing.
    var isUnanswering: Bool { unknowns >= Self.mostUnknown }

    /// Nothing new is to be put on this connection.
    mutating func drain() { isDraining = true }

    /// An answer came to a notification that was sent so often.
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
            isProven = true
            failures = 0
            refusals = 0
            refusalPauses = 0
            unknowns = 0
            window = min(window + Self.streamsPerAnswer, Self.fullStreams)
            return .deliver
        }
    }

    /// A notification was on the wire and nobody can say what became of it.
    mutating func outcomeUnknown() {
        unknowns += 1
        window = Self.firstStreams
        if isUnanswering { isDraining = true }
    }

    /// APNs did not process a notification that was sent so often.
    mutating func notProcessed(refused: Bool, sends: Int) -> Decision {
        if refused { refusals = min(refusals + 1, 10) }
        return sends < Self.mostSends ? .sendAgain : .deliver
    }

    /// Milliseconds to wait before sending on a connection that has refused streams and answered
    /// nothing since; 0 for none.
    var refusalPause: Int { refusals == 0 ? 0 : min(10 << refusals, 5_000) }

    /// Such a pause was made.
    mutating func pausedForRefusals() {
        refusalPauses += 1
        if refusalPauses >= Self.mostRefusalPauses { isDraining = true }
    }

    /// The connection has ended or could not be made.
    mutating func ended() -> Pause {
        defer { answers = 0 }
        guard answers == 0 else {
            return .milliseconds(answers < Self.answersOfGoodConnection ? 250 : 0)
        }
        failures += 1
        return failures >= Self.mostFailures ? .giveUp : .milliseconds(250 << failures)
    }

    /// The caller wants another try after the provider was given up: a single one, until it answers.
    mutating func startAgain() { failures = Self.mostFailures - 1 }
}

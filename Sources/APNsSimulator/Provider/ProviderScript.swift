import APNsProtocol
import Encodings
import SecureTransport

/// The action of a scripted gateway on one notification.
package protocol GatewayAction: Sendable, Equatable {
    /// The action where the script names no other: the notification is accepted.
    static var usual: Self { get }

    /// Reads the spelling of the command line. Throws `Refusal`.
    init(_ text: String) throws(Refusal)
}

/// The actions of a gateway: by token, by number, by share of tokens; all others are accepted.
///
/// The tokens of a share follow from the token and the seed. A token gets the same answer on every
/// connection and in every run, and a test can compute it in advance.
package struct GatewayScript<Action: GatewayAction>: Sendable {
    /// A share of all tokens, in millionths.
    package struct Share: Sendable, Equatable {
        /// The number of tokens among a million.
        package let millionths: Int
        /// The action on their notifications.
        package let action: Action

        package init(millionths: Int, action: Action) {
            (self.millionths, self.action) = (millionths, action)
        }
    }

    /// The actions by token.
    package var tokens: [DeviceToken: Action] = [:]
    /// The actions by the number of the valid notification at the gateway, counted from 1.
    package var sequence: [Int: Action] = [:]
    /// The actions by share; the shares are disjoint.
    package var shares: [Share] = []
    /// The action on all others.
    package var usual = Action.usual
    /// Chooses the tokens of the shares.
    package var seed: UInt64 = 1

    package init() {}

    /// The action on a token in the valid notification with this number.
    package func action(for token: DeviceToken, number: Int) -> Action {
        if !tokens.isEmpty, let action = tokens[token] {
            return action
        }
        if !sequence.isEmpty, let action = sequence[number] {
            return action
        }
        guard !shares.isEmpty else {
            return usual
        }
        var place = draw(token)
        for share in shares {
            if place < share.millionths {
                return share.action
            }
            place -= share.millionths
        }
        return usual
    }

    /// A number below a million that follows from token and seed: FNV-1a, then the output function
    /// of SplitMix64, without which similar tokens would get similar numbers.
    private func draw(_ token: DeviceToken) -> Int {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ seed
        for byte in token.bytes {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
        }
        hash = (hash ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
        hash = (hash ^ (hash >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((hash ^ (hash >> 31)) % 1_000_000)
    }
}

extension ScriptedReply {
    /// The notification is accepted.
    package static let accepted = ScriptedReply(status: 200)

    /// Makes the answer of APNs with a reason; `timestamp`, in milliseconds, belongs to a 410.
    package init(
        _ reason: ProviderReason, timestamp: Int64? = nil, retryAfter: String? = nil
    ) {
        let time = timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        self.init(
            status: reason.status ?? 400,
            fields: retryAfter.map { [HTTP2Field("retry-after", $0)] } ?? [],
            body: Array(#"{"reason":"\#(reason)"\#(time)}"#.utf8))
    }
}

/// The action on a valid request.
package enum ScriptedAction: GatewayAction {
    /// It is answered.
    case reply(ScriptedReply)
    /// Its stream is reset; with `refusedStream` it counts as unprocessed.
    case reset(HTTP2ErrorCode)
    /// It is never answered.
    case stall

    /// The action for a request for which a script names none: a 200.
    package static let usual = ScriptedAction.reply(.accepted)

    /// Reads the spelling of the command line: `ok`, a reason of APNs with `@` and milliseconds
    /// where it has a time, `stall`, `reset:` and a number of RFC 9113 section 7, or `body:` with
    /// a status, `:` and any text. Throws `Refusal`.
    package init(_ text: String) throws(Refusal) {
        let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        switch parts[0] {
        case "ok" where parts.count == 1: self = .reply(.accepted)
        case "stall" where parts.count == 1: self = .stall
        case "reset" where parts.count == 2:
            guard let code = UInt32(parts[1]) else {
                throw Self.failure(text)
            }
            self = .reset(HTTP2ErrorCode(rawValue: code))
        case "body" where parts.count == 3:
            guard let status = Int(parts[1]), (200...599).contains(status) else {
                throw Self.failure(text)
            }
            self = .reply(ScriptedReply(status: status, body: Array(parts[2].utf8)))
        default:
            let halves = text.split(separator: "@", omittingEmptySubsequences: false)
            let reason = ProviderReason(String(halves[0]))
            let time = halves.count == 2 ? Int64(halves[1]) : nil
            guard reason.status != nil, halves.count == 1 || time != nil && halves.count == 2
            else {
                throw Self.failure(text)
            }
            self = .reply(ScriptedReply(reason, timestamp: time))
        }
    }

    private static func failure(_ text: String) -> Refusal {
        Refusal(
            "reading the answer \"\(text)\": give ok, a reason of APNs such as "
                + "Unregistered@1700000000123, stall, reset:CODE or body:STATUS:TEXT")
    }
}

/// The actions on valid requests to a provider gateway.
package typealias ProviderScript = GatewayScript<ScriptedAction>

// A scenario says in advance what a gateway does to each connection, and to each complete request
// on it. It is data, so a test can draw one from a seed, print it and run it again. The gateway
// never misreports: a request that it calls unprocessed (REFUSED_STREAM, or a stream above the last
// one of a GOAWAY) was not processed, because a client has no way to check that.

/// The actions of a gateway, connection by connection.
package struct ProviderScenario: Sendable, Equatable {
    /// The beginning of a connection, before the first request.
    package enum Opening: Sendable, Equatable {
        /// TLS and HTTP/2.
        case normal
        /// A TCP reset before TLS.
        case reset
        /// Bytes that are not TLS.
        case plaintext
        /// No byte is sent.
        case silent
        /// TLS, then the connection is closed.
        case close
        /// TLS with a certificate of a foreign authority.
        case foreignAuthority
        /// TLS with a certificate for another host.
        case otherHost
        /// TLS without a protocol in it.
        case noProtocol

        /// The certificate and the protocols that it shows; nil without TLS.
        var credentials: (certificate: SimulatorCertificates.Name, protocols: [String])? {
            switch self {
            case .normal, .close: (.server, ["h2"])
            case .foreignAuthority: (.foreignServer, ["h2"])
            case .otherHost: (.wrongHostServer, ["h2"])
            case .noProtocol: (.server, [])
            case .reset, .plaintext, .silent: nil
            }
        }
    }

    /// The action on one complete request.
    package enum Action: Sendable, Equatable {
        /// The gateway's script decides.
        case serve
        /// It gets this answer.
        case answer(ScriptedReply)
        /// It is processed, and answered after the next request that is answered on this
        /// connection.
        case answerLate
        /// It is processed and never answered.
        case noAnswer
        /// It is neither processed nor answered; a GOAWAY follows that says so.
        case leave
        /// It is processed; its answer has a header list and no end.
        case partialAnswer
        /// Its stream is reset; only with `refusedStream` it was not processed.
        case reset(HTTP2ErrorCode)
        /// It is not processed: GOAWAY names the last stream before it, and the connection ends.
        case goAway
        /// It is processed. The connection is reset, and later requests on it get no answer.
        case resetConnection
        /// It is processed. The connection is closed in good order without an answer to it.
        case closeConnection
        /// It is processed. These bytes are sent instead of an answer, and the connection stays
        /// open.
        case rawBytes([UInt8])
        /// SETTINGS_MAX_CONCURRENT_STREAMS changes, then the script decides.
        case changeStreams(UInt32)
    }

    /// A GOAWAY, after which the connection is closed (RFC 9113 section 6.8).
    package struct GoAway: Sendable, Equatable {
        /// The request at which it is sent.
        package let atRequest: Int
        /// The number of requests up to then that are not processed; GOAWAY names the last stream
        /// that was processed.
        let unprocessed: Int
        /// The number of requests before those that are processed and never answered: their outcome
        /// is unknown.
        let unanswered: Int
        /// The last stream that GOAWAY names instead of the true one.
        package var lastStreamID: Int32?
        /// The error code.
        package var code = HTTP2ErrorCode.noError

        package init(atRequest: Int, unprocessed: Int = 0, unanswered: Int = 0) {
            self.atRequest = atRequest
            (self.unprocessed, self.unanswered) = (unprocessed, unanswered)
        }
    }

    /// The course of one connection, request by request.
    package struct Connection: Sendable, Equatable {
        /// Its beginning.
        package var opening: Opening
        /// The actions on its first requests.
        package var actions: [Action]
        /// The action on all further requests.
        package var rest: Action
        /// A GOAWAY, whose requests have no other action; nil for none.
        package var goAway: GoAway?

        /// Makes a connection; by default one that the script serves.
        package init(
            _ opening: Opening = .normal, actions: [Action] = [], rest: Action = .serve,
            goAway: GoAway? = nil
        ) {
            (self.opening, self.actions) = (opening, actions)
            (self.rest, self.goAway) = (rest, goAway)
        }

        /// Sets the action on the request with this number, counted from 1; those before it that have
        /// none are served.
        package mutating func set(_ action: Action, at number: Int) {
            while actions.count < number { actions.append(.serve) }
            actions[number - 1] = action
        }

        /// The action on the request with this number, counted from 1.
        func action(_ number: Int) -> Action {
            if let goAway {
                let firstUnprocessed = goAway.atRequest - goAway.unprocessed + 1
                if number >= firstUnprocessed { return .leave }
                if number >= firstUnprocessed - goAway.unanswered { return .noAnswer }
            }
            return number <= actions.count ? actions[number - 1] : rest
        }
    }

    /// The connections in the order of their arrival; the last one repeats.
    package var connections: [Connection]

    /// Makes a scenario; one without connections serves each connection by the script.
    package init(_ connections: [Connection] = []) {
        self.connections = connections.isEmpty ? [Connection()] : connections
    }

    /// The connection with this number, counted from 1.
    package func connection(_ number: Int) -> Connection {
        connections[min(number, connections.count) - 1]
    }
}

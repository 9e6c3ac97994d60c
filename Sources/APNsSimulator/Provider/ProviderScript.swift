import APNsProtocol
import SecureTransport

/// An answer of a script, encoded in advance so that serving it is cheap.
package struct ScriptedReply: Sendable, Equatable {
    /// The status.
    package let status: Int
    /// The body, which may differ from any body of APNs.
    package let body: [UInt8]
    /// The value of `retry-after`.
    package let retryAfter: String?
    /// The most bytes of body in one DATA frame; nil for as many as fit.
    package let largestPiece: Int?

    /// Makes an answer of any kind.
    package init(
        status: Int, body: [UInt8] = [], retryAfter: String? = nil, largestPiece: Int? = nil
    ) {
        (self.status, self.body) = (status, body)
        (self.retryAfter, self.largestPiece) = (retryAfter, largestPiece)
    }

    /// The notification is accepted.
    package static let accepted = ScriptedReply(status: 200)

    /// Makes the answer of APNs with a reason; `timestamp`, in milliseconds, belongs to a 410.
    package init(
        _ reason: ProviderReason, timestamp: Int64? = nil, retryAfter: String? = nil
    ) {
        let time = timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        self.init(
            status: reason.status ?? 400, body: Array(#"{"reason":"\#(reason)"\#(time)}"#.utf8),
            retryAfter: retryAfter)
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
    /// a status, `:` and any text. Throws `SimulatorFailure`.
    package init(_ text: String) throws(SimulatorFailure) {
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

    private static func failure(_ text: String) -> SimulatorFailure {
        SimulatorFailure(
            "reading the answer \"\(text)\": give ok, a reason of APNs such as "
                + "Unregistered@1700000000123, stall, reset:CODE or body:STATUS:TEXT")
    }
}

/// The actions on valid requests to a provider gateway.
package typealias ProviderScript = GatewayScript<ScriptedAction>

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
package enum ScriptedAction: Sendable, Equatable {
    /// It is answered.
    case reply(ScriptedReply)
    /// Its stream is reset; with `refusedStream` it counts as unprocessed.
    case reset(HTTP2ErrorCode)
    /// It is never answered.
    case stall

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

/// The actions on valid requests: by token, by number, by share of tokens; all others are accepted.
///
/// The tokens of a share follow from the token and the seed. A token gets the same answer on every
/// connection and in every run, and a test can compute it in advance.
package struct ProviderScript: Sendable {
    /// A share of all tokens, in millionths.
    package struct Share: Sendable, Equatable {
        /// The number of tokens among a million.
        package let millionths: Int
        /// The action on their requests.
        package let action: ScriptedAction

        /// Makes a share.
        package init(millionths: Int, action: ScriptedAction) {
            (self.millionths, self.action) = (millionths, action)
        }
    }

    /// The actions by token.
    package var tokens: [DeviceToken: ScriptedAction] = [:]
    /// The actions by the number of the valid request at the gateway, counted from 1.
    package var sequence: [Int: ScriptedAction] = [:]
    /// The actions by share; the shares are disjoint.
    package var shares: [Share] = []
    /// The action on all others.
    package var usual = ScriptedAction.reply(.accepted)
    /// Chooses the tokens of the shares.
    package var seed: UInt64 = 1

    /// Makes a script that accepts everything.
    package init() {}

    /// The action on a token in the valid request with this number.
    package func action(for token: DeviceToken, number: Int) -> ScriptedAction {
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

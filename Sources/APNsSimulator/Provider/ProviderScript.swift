import APNsProtocol
import SecureTransport

/// An answer as a script holds it, spelled out beforehand so that serving costs nothing.
package struct ScriptedReply: Sendable, Equatable {
    /// The status.
    package let status: Int
    /// The body, which need not be what APNs would send.
    package let body: [UInt8]
    /// The value of `retry-after`.
    package let retryAfter: String?
    /// Most bytes of body in one DATA frame.
    package let largestPiece: Int?

    /// Makes an answer of any kind.
    package init(
        status: Int, body: [UInt8] = [], retryAfter: String? = nil, largestPiece: Int? = nil
    ) {
        (self.status, self.body) = (status, body)
        (self.retryAfter, self.largestPiece) = (retryAfter, largestPiece)
    }

    /// The notification is taken.
    package static let accepted = ScriptedReply(status: 200)

    /// The answer that APNs gives with a reason; `timestamp` in milliseconds goes with a 410.
    package init(
        _ reason: ProviderReason, timestamp: Int64? = nil, retryAfter: String? = nil
    ) {
        let time = timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        self.init(
            status: reason.status ?? 400, body: Array(#"{"reason":"\#(reason)"\#(time)}"#.utf8),
            retryAfter: retryAfter)
    }
}

/// What is done with a valid request.
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

/// Which valid request meets which answer: by token, by its number, by share; else it is accepted.
///
/// Shares are drawn from the token and the seed, not from chance: a token meets the same answer on
/// every connection and in every run, and a test can ask beforehand which one.
package struct ProviderScript: Sendable {
    /// A share of all tokens, in millionths.
    package struct Share: Sendable, Equatable {
        /// Of a million tokens, so many.
        package let millionths: Int
        /// Meet this.
        package let action: ScriptedAction

        /// Makes a share.
        package init(millionths: Int, action: ScriptedAction) {
            (self.millionths, self.action) = (millionths, action)
        }
    }

    /// What single tokens meet.
    package var tokens: [DeviceToken: ScriptedAction] = [:]
    /// What the n-th valid request of the gateway meets, counted from 1.
    package var sequence: [Int: ScriptedAction] = [:]
    /// What shares of the tokens meet, one after the other of the same whole.
    package var shares: [Share] = []
    /// What all others meet.
    package var usual = ScriptedAction.reply(.accepted)
    /// Chooses the tokens of the shares.
    package var seed: UInt64 = 1

    /// Everything is accepted.
    package init() {}

    /// What a token meets as the n-th valid request.
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

    /// A number below a million that follows from token and seed: FNV-1a, then the finish of
    /// SplitMix64, without which similar tokens would get similar numbers.
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

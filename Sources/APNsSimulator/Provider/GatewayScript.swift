import APNsProtocol

/// The action of a scripted gateway on one notification.
package protocol GatewayAction: Sendable, Equatable {
    /// The action where the script names no other: the notification is accepted.
    static var usual: Self { get }

    /// Reads the spelling of the command line. Throws `SimulatorFailure`.
    init(_ text: String) throws(SimulatorFailure)
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

        /// Makes a share.
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

    /// Makes a script that accepts everything.
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

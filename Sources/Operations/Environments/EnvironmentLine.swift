import APNsProtocol
import TokenHygiene
import TokenTable

/// One row in the list of `environments`. Fields may be added, never renamed.
package struct EnvironmentLine: Encodable, Hashable, Sendable {
    /// `move` where the row is proven to be under the wrong environment, else `none`.
    let action: String
    /// The app as the token table names it, and the environment: that in which APNs knows the token, else that of the row.
    let app: String
    let environment: String
    /// The environment of the row; absent without a proof.
    let from: String?
    /// What is known: `accepted`, `dead`, `neither`, `not-asked`, `known-here` or `other-topic`.
    let known: String
    /// The row's key as the ledger spells it.
    let key: String
    /// The token in hex, shortened unless whole tokens were asked for.
    let token: String
    /// When APNs last called it bad here, RFC 3339 in UTC.
    let bad: String
    /// When the device registered; absent where the table does not say.
    let registered: String?
    /// The app's name in the settings.
    let name: String

    init(
        _ pair: EnvironmentPair, _ token: MisplacedToken, _ row: TokenRow, wholeTokens: Bool
    ) {
        let isProof = token.knowledge.isProof
        action = isProof ? LedgerEntry.move : "none"
        let here = pair.stored.environment
        app = pair.stored.app
        environment = isProof ? pair.stored.elsewhere?.environment ?? here : here
        from = isProof ? here : nil
        known = token.knowledge.rawValue
        key = row.key.text(wholeTokens: wholeTokens)
        self.token = wholeTokens ? token.token.hex : token.token.redacted
        bad = token.suspect.last.rfc3339
        registered = row.registeredAt?.rfc3339
        name = pair.app.name
    }
}

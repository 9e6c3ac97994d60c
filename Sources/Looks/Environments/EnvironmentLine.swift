import APNsProtocol
import TokenHygiene
import TokenTable

/// One row that is proven to be under the wrong environment, in the list of `environments`. Fields may be added, never
/// renamed.
package struct EnvironmentLine: Encodable, Hashable {
    /// The app as the token table names it, and its name in the settings.
    let app: String
    let name: String
    /// The environment that the row names, and the one in which APNs knows the token.
    let environment: String
    let elsewhere: String
    /// What APNs said there: `accepted` or `dead`, and when, RFC 3339 in UTC.
    let known: String
    let at: String
    /// The row's key as the ledger spells it.
    let key: String
    /// The token in hex, shortened unless whole tokens were asked for.
    let token: String
    /// When APNs last called it bad here, RFC 3339 in UTC.
    let bad: String
    /// When the device registered; absent where the table does not say.
    let registered: String?
    /// Whether a row of the other environment has the token too.
    let taken: Bool

    init(_ pair: EnvironmentPair, _ token: MisplacedToken, _ row: MisplacedRow, wholeTokens: Bool) {
        (app, name) = (pair.stored.app, pair.app.name)
        environment = pair.stored.environment
        elsewhere = pair.stored.elsewhere?.environment ?? ""
        known = token.standing.rawValue
        at = token.suspect.elsewhere?.time.rfc3339 ?? ""
        key = row.key.text(wholeTokens: wholeTokens)
        self.token = wholeTokens ? token.token.hex : token.token.redacted
        bad = token.suspect.last.rfc3339
        registered = row.registered?.rfc3339
        taken = token.isElsewhereToo
    }
}

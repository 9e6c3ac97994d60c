import Database
import Findings
import TokenTable

/// The living tokens that APNs called bad with one reason.
package struct AuditedSuspects: Codable, Hashable, Sendable {
    /// `BadDeviceToken` or `DeviceTokenNotForTopic`.
    package var reason: String
    package var tokens: Int
    /// Those that APNs had accepted or called dead before, so that credentials or settings are to blame.
    package var known = 0
    /// Those that APNs knows in the other environment, so that their rows are under the wrong one; absent for none.
    package var elsewhere: Int?
    /// Those that it calls bad in both environments; absent for none.
    package var neither: Int?
    /// The first and the last time at which APNs said so, RFC 3339 in UTC.
    package var first: String
    package var last: String
}

extension AuditedSuspects {
    init(_ count: SuspectCount) {
        self.init(
            reason: count.reason, tokens: count.tokens, known: count.accepted,
            elsewhere: count.elsewhere > 0 ? count.elsewhere : nil,
            neither: count.neither > 0 ? count.neither : nil,
            first: count.first.rfc3339, last: count.last.rfc3339)
    }
}

extension MisplacedShare {
    /// What to look at where values or gateways may be exchanged.
    static let cureOfExchange =
        "compare store.active-users.environment.values, apps[].environment and provider.host: they may be exchanged, and "
        + "then the rows are right; once they are corrected, forget what was heard: DELETE FROM pushsweep_suspect"

    /// What follows for an app from its suspects that APNs knows in the other environment; nil where there are none.
    func finding(of app: String) -> Finding? {
        guard elsewhere > 0, let other = partition.elsewhere?.environment else { return nil }
        let known =
            "APNs calls \(answered.counting("token")) bad here that were asked about in the \(other), and knows "
            + "\(elsewhere) of them there"
        return mayBeExchanged
            ? Finding(
                .high, app, "\(known), so values or gateways may be exchanged",
                cause: "nearly all are of the other environment, where rows go wrong one by one",
                cure: Self.cureOfExchange)
            : Finding(
                .medium, app, "\(known), so their rows are under the wrong environment",
                cure: "look at them with: pushsweep environments")
    }
}

/// How many of the tokens of one app APNs called bad.
struct SuspectShare {
    /// Above this share sending loses more than a little; a fifth of it is worth a look.
    static let usualLimit = 0.05

    let suspects: [AuditedSuspects]
    /// The living tokens among which they are, of the app or of a send, and how many of a send's are suspected.
    let tokens: Int
    var among: Int?
    /// The app and environment.
    let object: String
    var limit = usualLimit

    /// A note where they are few, medium above a fifth of the limit, high above it; nil for none.
    var finding: Finding? {
        let bad = among ?? suspects.reduce(0) { $0 + $1.tokens }
        guard bad > 0, tokens > 0 else { return nil }
        let share = Double(bad) / Double(tokens)
        let last = suspects.map(\.last).max().map { ", the last at \($0)" } ?? ""
        return Finding(
            share > limit ? .high : share > limit / 5 ? .medium : .note, object,
            "APNs called \(bad) of \(tokens.counting("living token")) \(among == nil ? "" : "of the send ")bad\(last)",
            cause: cause, cure: cure)
    }

    private var cause: String {
        (among == nil ? "" : "of all of the app: ")
            + suspects.map {
                "\($0.tokens) \($0.reason)"
                    + ($0.known > 0 ? " (\($0.known) of them it had known before)" : "")
                    + ($0.elsewhere.map { " (\($0) of them it knows in the other environment)" }
                        ?? "")
            }.joined(separator: ", ")
    }

    /// Most of what APNs knew before is no fault of the tokens.
    private var cure: String {
        let (bad, known) = suspects.reduce((0, 0)) { ($0.0 + $1.tokens, $0.1 + $1.known) }
        let fault =
            known * 2 > bad
            ? "it had known most of them before, so look at the credentials and the topic of the sender"
            : known > 0
                ? "either they are of another environment or app, or the credentials are"
                : "it knew none of them, so they are probably of another environment or app, which pushsweep environments "
                    + "--probe tells"
        if suspects.contains(where: { $0.elsewhere != nil }) {
            return "look at those of the other environment first: pushsweep environments"
        }
        return fault
            + "; audit --suspects FILE lists the rows, preflight --filter --without-suspects leaves recent "
            + "ones out that it never knew"
    }
}

import APNsProtocol
import Encodings
import PushQueue
import TokenHygiene

/// The formats in which notifications are listed.
package enum DeliveryFormat: String, Hashable, Sendable, CaseIterable {
    /// A line for people.
    case text
    /// One JSON object.
    case json
    /// Comma-separated fields (RFC 4180) with a line of names first.
    case csv
}

/// One notification as `pushsweep deliveries` lists it. Fields may be added, never renamed; a field
/// without a value is left out of JSON and empty in CSV.
package struct DeliveryLine: Codable, Hashable, Sendable {
    /// The row's key in the queue.
    package let id: Int64
    /// The app's name in the settings; nil where they do not name the row's app, or the queue does not.
    package let app: String?
    /// `production` or `sandbox`; nil like `app`.
    package let environment: String?
    /// The users in the token table's rows of the token; nil where they are not known.
    package let users: [String]?
    /// The token in hex, shortened unless whole tokens were asked for; nil where the row has none.
    package let token: String?
    /// The state, see `DeliveryState`; any other word is as the table has it.
    package let state: String
    /// APNs' reason, or the reason for which the row was skipped.
    package let reason: String?
    /// Number of attempts.
    package let attempts: Int
    /// When it was queued, RFC 3339 in UTC.
    package let queued: String?
    /// Not to be sent before this time, RFC 3339 in UTC.
    package let notBefore: String?
    /// When it got its final state, RFC 3339 in UTC.
    package let answered: String?

    /// Describes a row of the queue; `app` is the partition of the settings.
    init(_ row: QueuedRow, app: Partition?, users: [String]?, wholeTokens: Bool) {
        id = row.key
        (self.app, environment) = (app?.app, app?.environment)
        self.users = users
        token = row.token.map { wholeTokens ? $0.hex : $0.redacted }
        (state, reason, attempts) = (row.state, row.reason, row.attempts)
        queued = row.queued?.rfc3339
        notBefore = row.notBefore?.rfc3339
        answered = row.answered?.rfc3339
    }

    /// The line for people.
    var text: String {
        var parts = ["\(id)", state + (reason.map { " (\($0))" } ?? "")]
        if let app, let environment { parts.append("\(app)/\(environment)") }
        parts.append(token ?? "no token")
        if let users, !users.isEmpty { parts.append("user \(users.joined(separator: ", "))") }
        parts.append(attempts.counting("attempt"))
        if let queued { parts.append("queued \(queued)") }
        if let notBefore, answered == nil { parts.append("not before \(notBefore)") }
        if let answered { parts.append("answered \(answered)") }
        return parts.joined(separator: "  ")
    }

    /// The first line of CSV.
    static let csvHeading = CSVRecord.line([
        "id", "app", "environment", "users", "token", "state", "reason", "attempts", "queued",
        "notBefore", "answered",
    ])

    /// The line of CSV, with its line break. Texts of the database are no formulas.
    var csv: String {
        let texts = [
            app, environment, users?.joined(separator: ", "), token, state, reason,
        ].map { ($0 ?? "").inert }
        return CSVRecord.line(
            ["\(id)"] + texts + ["\(attempts)", queued ?? "", notBefore ?? "", answered ?? ""])
    }
}

/// The fields of the JSON document after its list.
struct DeliveryEnd: Encodable {
    /// The exit code.
    let exit: Int32
    /// What could not be read, and why.
    let gaps: [String]
    /// Whether more notifications match than were listed.
    let more: Bool
    /// Limits that were reached.
    let notes: [String]
}

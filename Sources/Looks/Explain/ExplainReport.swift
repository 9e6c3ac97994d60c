// The result of an explanation: for each token what happened to it, in the order of time, and what is
// true now. A pure value: `TokenStory` makes it.

import APNsProtocol
import Encodings
import FoundationEssentials
import Operations
import TokenHygiene

/// The result of `pushsweep explain`: one JSON object for scripts. Fields may be added, never renamed.
package struct ExplainReport: PrintedLines, Codable, Hashable, Sendable {
    /// The time of the database at which it was made, RFC 3339 in UTC.
    package var generated = ""
    /// The user whose tokens are explained; absent where a token was named.
    package var user: String?
    /// The tokens, in byte order for a user.
    package var tokens: [ExplainedToken] = []
    /// What could not be read, and why.
    package var gaps: [String] = []
    /// Where a limit was reached, and what this host cannot know.
    package var notes: [String] = []
    package var exit: Int32 = 0
    package static var form: PrintedForm { .exact }

    package var lines: [String] {
        var lines: [String] = []
        if let user {
            lines.append(
                tokens.isEmpty
                    ? "no row of the token table has a token of user \(user)"
                    : "user \(user): \(tokens.count.counting("token"))")
        }
        lines += tokens.flatMap(\.lines)
        lines += gaps.map { "not read: \($0)" }
        lines += notes.map { "note: \($0)" }
        return lines
    }
}

/// What is known about one token.
package struct ExplainedToken: PrintedLines, Codable, Hashable, Sendable {
    /// The token in hex, shortened unless whole tokens were asked for.
    package var token: String
    /// The number of its bytes.
    package var bytes: Int
    /// Whether anything that was read has it.
    package var known = false
    /// What happened, in the order of time; events of unknown time first.
    package var events: [ExplainedEvent] = []
    /// The present state, by app and environment.
    package var apps: [PresentState] = []
    /// The present state in one sentence.
    package var now = ""
    /// What the next sweep would do, in one sentence.
    package var next = ""

    package var lines: [String] {
        let unknown = "(time unknown)".padded(24)
        return ["token \(token), \(bytes.counting("byte"))"]
            + events.map { "  \($0.time ?? unknown)  \($0.kind.rawValue.padded(12))  \($0.text)" }
            + ["  now: \(now)", "  next sweep: \(next)"]
    }
}

extension String {
    fileprivate func padded(_ width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}

/// One event in the history of a token.
package struct ExplainedEvent: Codable, Hashable, Sendable {
    /// What kind of event it is. Events of one time are listed in this order.
    package enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// The device registered, as a row of the token table says.
        case registered
        /// A row, or `pushsweep_invalid`, has a mark of this time.
        case mark
        /// The time since which evidence calls the token dead.
        case evidence
        /// The guard held a batch with evidence about it.
        case hold
        /// A person released or discarded a held batch.
        case decision
        /// A run changed a row, or a row refused a change.
        case change
        /// A row was deleted when the period of `policy.delete-after` was over.
        case expiry
        /// A person took a change back.
        case undo
        /// A row of the queue.
        case notification
    }

    /// The rule that decided about a piece of evidence.
    package enum Rule: String, Codable, Hashable, Sendable, CaseIterable {
        /// The row registered before it and is marked.
        case marked
        /// Registration and evidence have the same time, or nearly, so their order is unknown: the
        /// row is marked, and never deleted.
        case undecided = "marked-undecided"
        /// The row has no registration time: it is marked.
        case undated = "marked-undated"
        /// The row was marked, and the mark moves to this later time.
        case moved
        /// The row is deleted.
        case deleted
        /// The row registered later and is kept.
        case newer
        /// The row was invalid already.
        case already
        /// No row has the token.
        case unknown
        /// Rows of another app or environment have it, none of this one.
        case otherApp = "other-app"
        /// The row refused the change, or cannot be judged.
        case refused
        /// It waits for a person's decision.
        case held
        /// A person discarded it.
        case discarded
        /// A person undid or discarded as much, so it changes nothing.
        case spared
        /// The bytes or the report cannot be used.
        case quarantined
        /// It calls the token bad, which removes no row.
        case suspect
        /// It says nothing about the token.
        case nothing
        /// The settings name no such app.
        case noApp = "no-app"
    }

    /// When, RFC 3339 in UTC; absent where it is unknown.
    package var time: String?
    /// What kind of event it is.
    package private(set) var kind: Kind
    /// The app's name in the settings.
    package var app: String?
    /// `production` or `sandbox`.
    package var environment: String?
    /// What happened, in one sentence.
    package var text = ""
    /// The rule that decided about evidence.
    package var rule: Rule?
    /// `ledger` where the ledger proves the rule, `report` where it is what became of a report, `waiting` where the
    /// next sweep decides.
    package var basis: String?
    /// The gateway, file or table that evidence came from, or what a change follows from.
    package var source: String?
    /// When a host heard the evidence, RFC 3339 in UTC.
    package var arrived: String?
    /// The batch's name.
    package var batch: String?
    /// The row's key, in the token table or in the queue.
    package var key: String?
    /// What was done to the row, or the state of a notification.
    package var action: String?
    /// The row before the change.
    package var before: String?
    /// The row after the change.
    package var after: String?
    /// Why: of a mark, an answer, a hold, a decision or a refusal.
    package var reason: String?
    /// The run.
    package var run: String?
    package var runKind: String?
    /// The person or service that ran it.
    package var `operator`: String?
    /// The host on which it ran.
    package var host: String?
    /// The attempts to send a notification.
    package var attempts: Int?

    /// Makes an event; the other fields are added where they are known.
    init(_ kind: Kind, of app: Partition?, at time: EpochMilliseconds?) {
        self.kind = kind
        place(at: time, of: app)
    }

    mutating func place(at time: EpochMilliseconds?, of app: Partition?) {
        self.time = time?.rfc3339
        if let app, app != .noApp { (self.app, environment) = (app.app, app.environment) }
    }
}

/// What is true now for one app and environment.
package struct PresentState: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `living`, `stale`, or `unknown` without a row.
    package var state: String
    /// Number of rows with the token.
    package var rows: Int
    /// Whether a sender would send to it.
    package var sends: Bool
    /// Why, in one clause.
    package var because: String
    /// What the next sweep would do, in one clause.
    package var next: String
    /// When `policy.delete-after` lets a sweep delete a row, RFC 3339 in UTC; absent where it does
    /// not.
    package var due: String?
    /// The hold that keeps evidence of this app from being applied.
    package var hold: String?
}

// Texts that a person or an application wrote may hold a whole token: the reason of a mark, the reason
// in the queue, the reason of a report that waits, the cause of a decision. So the finished report is
// searched for the tokens that it explains, and each spelling in hex is shortened.

extension ExplainReport {
    /// Shortens tokens in all texts. Tokens of four bytes or fewer are not searched for: other texts
    /// contain so few digits by chance.
    mutating func shorten(_ tokens: [DeviceToken]) throws {
        // Longer tokens come first, because one may begin with another.
        let spelled = tokens.filter { $0.count > 4 }.sorted { $0.count > $1.count }
            .map { ($0.hex, $0.redacted) }
        func shortened(_ value: JSONValue) -> JSONValue {
            switch value {
            case .text(let text):
                .text(
                    spelled.reduce(text) { text, token in
                        text.replacing(exactly: token.0, with: token.1, ignoringCase: true)
                    })
            case .list(let list): .list(list.map(shortened))
            case .object(let object): .object(object.mapValues(shortened))
            default: value
            }
        }
        guard let tree = JSONValue(document: Array(try JSONLine.bytes(self))) else {
            throw RunFailure(.invariant, .report, "shortening the tokens of an explanation")
        }
        self = try JSONDecoder().decode(Self.self, from: JSONLine.bytes(shortened(tree)))
    }
}

import APNsProtocol
import Encodings
import TokenTable

/// The formats in which changes are listed.
package enum ChangeFormat: String, Hashable, Sendable, CaseIterable {
    /// One JSON object per line.
    case jsonl
    /// Comma-separated fields (RFC 4180) with a line of names first.
    case csv
}

/// One change as `pushsweep changes` lists it. Fields may be added, never renamed; a field without
/// a value is left out of JSON and empty in CSV.
package struct ChangeLine: Codable, Hashable, Sendable {
    /// The place after this change, for `--since`.
    package let cursor: String
    /// The time of the change by the database's clock, RFC 3339 in UTC.
    package let changed: String?
    /// The app as the token table names it.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// What was done to the row, as the ledger names it.
    package let action: String
    /// What the row is after it: `valid`, `invalid` or `deleted`.
    package let state: String?
    /// The row's key as the ledger spells it.
    package let key: String
    /// The row's token in hex, shortened unless whole tokens were asked for.
    package let token: String?
    /// The time of the evidence, RFC 3339 in UTC.
    package let evidence: String?
    /// What the change follows from: `feedback`, a reason of APNs, `delete-after` or `undo`.
    package let source: String
    /// The reason of the row's mark.
    package let reason: String?
    /// The run that made the change.
    package let run: String
    /// The app's name in the settings; nil where they name no such app in the environment.
    package let name: String?

    /// Describes a change. `name` is the app's name in the settings.
    package init(_ change: FollowedChange, name: String?, wholeTokens: Bool) {
        let entry = change.entry
        cursor = "\(change.cursor)"
        changed = entry.changed.rfc3339
        app = entry.origin?.partition.app ?? ""
        environment = entry.origin?.partition.environment ?? ""
        action = entry.action
        state = entry.state
        key = entry.key.text(wholeTokens: wholeTokens)
        token = entry.token.map { wholeTokens ? $0.hex : $0.redacted }
        evidence = entry.evidence.rfc3339
        source = entry.origin?.source ?? ""
        reason = entry.reason
        run = entry.place.run
        self.name = name
    }

    /// The line in a format, with its line break. Control characters in it are escaped, so that
    /// every change is exactly one line.
    package func text(_ format: ChangeFormat) -> String {
        switch format {
        case .jsonl: documentLine.printableJSON + "\n"
        case .csv: CSVRecord.line(fields)
        }
    }

    /// The first line of a format; nil where there is none.
    package static func heading(_ format: ChangeFormat) -> String? {
        format == .csv ? CSVRecord.line(names) : nil
    }

    private static let names = [
        "cursor", "changed", "app", "environment", "action", "state", "key", "token", "evidence",
        "source", "reason", "run", "name",
    ]

    private var fields: [String] {
        [
            cursor, changed ?? "", app, environment, action, state ?? "", key, token ?? "",
            evidence ?? "", source, reason ?? "", run, name ?? "",
        ]
    }
}

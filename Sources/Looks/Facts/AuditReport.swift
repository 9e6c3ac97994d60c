// The result of an audit: what the table, the ledger, the journal and the credentials say, and the
// findings that follow from it. It is the one value that every format prints: text, JSON,
// Markdown and HTML. Fields may be added, never renamed.

import APNsProtocol
import Database
import Findings
import FoundationEssentials
import Glibc
import Operations
import Settings

/// The result of `pushsweep audit`.
package struct AuditReport: Codable, Hashable, Sendable {
    /// The version of the program.
    package var version = ""
    /// The host on which it ran.
    package var host = ""
    /// The person or service that ran it, as the run records name it.
    package var `operator` = ""
    /// When it ran, RFC 3339 in UTC.
    package var generated = ""
    /// The beginning of the period of history, RFC 3339 in UTC.
    package var since = ""
    /// The end of the period, RFC 3339 in UTC.
    package var until = ""
    /// SHA-256 over the settings that decide, the first 16 digits. Two audits with the same digest
    /// were made under the same rules.
    package var settings = ""
    /// The database and the token table, without the account.
    package var table = ""
    /// Whether nothing needs a person: no finding of severity high.
    package var healthy = true
    /// One sentence: healthy, or the gravest finding.
    package var headline = ""
    /// What needs attention, gravest first; then what is well.
    package var findings: [Finding] = []
    /// One entry per app and environment of the settings.
    package var apps: [AuditedApp] = []
    /// The runs of this host and of the database.
    package var runs = AuditedRuns()
    /// Holds of the period and open ones, newest first.
    package var holds: [AuditedHold] = []
    /// Parts of batches that could not be used.
    package var quarantine = AuditedQuarantine()
    /// The open questions of a first look, which knows the rows of the table and nothing else; absent for an audit.
    package var firstLook: Int?
    /// The changes since an earlier report; absent without `--baseline`.
    package var changes: [AuditChange]?
    /// What could not be examined, and why; for instance a right that the account lacks.
    package var gaps: [String] = []
}

/// What the audit found about one app and environment.
package struct AuditedApp: Codable, Hashable, Sendable {
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// The rows of the token table.
    package var tokens = AuditedTokens()
    /// The stale rows by the age of their mark, youngest first: `under 1 day` to `over 2 years`.
    package var staleAges: [NamedCount] = []
    /// The stale rows by the reason of their mark, most first.
    package var staleReasons: [NamedCount] = []
    /// The living rows by the age of their registration, youngest first.
    package var registrationAges: [NamedCount] = []
    /// Evidence of the period by day and source, oldest first.
    package var evidence: [EvidenceDay] = []
    /// The same of as many days before the period, summed up: `day` is the first of them, `source` is empty. Absent
    /// where nothing was heard then.
    package var earlier: EvidenceDay?
    /// What APNs called bad among the living tokens, by reason; absent where it called none. It marks
    /// nothing.
    package var suspects: [AuditedSuspects]?
    /// The queue; absent where the app does not send.
    package var queue: AuditedQueue?
    /// Its certificates and keys.
    package var credentials: [AuditedCredential] = []
    /// What a sweep would do now with what waits, without reading a gateway.
    package var forecast = SweepForecast()
    /// What needs sorting; absent without `--deep`.
    package var deep: DeepTokens?

    /// The name by which findings, holds and changes speak of it: `chat/production`.
    package var object: String { "\(app)/\(environment)" }
}

/// The rows of one app by what their tokens are. `rows` is the sum of `living`, `stale`, `empty` and
/// `malformed`.
package struct AuditedTokens: Codable, Hashable, Sendable {
    /// All rows of the app.
    package var rows = 0
    /// Rows that may be sent to.
    package var living = 0
    /// Rows with a mark and no later registration, or set dead by the application.
    package var stale = 0
    /// Among the living: rows with a mark and a later registration.
    package var revived = 0
    /// Rows without a time of registration.
    package var neverRegistered = 0
    /// Rows whose time of registration lies after the present.
    package var fromTheFuture = 0
    /// Rows without a token: NULL, nothing, spaces or `0`.
    package var empty = 0
    /// Rows whose value is not a token: it is not hex, has an odd length, or was cut off by the column.
    package var malformed = 0
    /// Among the malformed: shortened descriptions as iOS 13 and later print them.
    package var truncated = 0
    /// The rows with a token by its form: `32 bytes`, `80 bytes`, `upper-case hex`; most first.
    package var forms: [NamedCount] = []
}

/// What became of the evidence of one day from one source.
package struct EvidenceDay: Codable, Hashable, Sendable {
    /// The day in UTC, `2026-11-23`.
    package var day: String
    /// `feedback`, a reason of APNs, `delete-after` or `undo`.
    package var source: String
    /// Reports that made a row invalid.
    package var applied = 0
    /// Reports of a token whose rows were invalid before.
    package var already = 0
    /// Kept, because the token registered again after the evidence.
    package var newer = 0
    /// Reports of a token that no row has.
    package var unknown = 0
    /// Reports whose row did not take the change.
    package var refused = 0
    /// Among the applied: reports of runs that `undo RUN` has taken back as a whole since; absent for none.
    package var undone: Int?
}

/// The queue of one app.
package struct AuditedQueue: Codable, Hashable, Sendable {
    /// Rows without a result.
    package var open = 0
    /// Among the open: rows addressed to stale tokens, which `send` will skip.
    package var toStale = 0
    /// Among the open: rows whose token no row of the table has.
    package var toUnknown = 0
    /// Rows of the period by their result: `sent`, `gone`, `skipped (stale)`, most first.
    package var results: [NamedCount] = []
}

/// A certificate or key that the settings name.
package struct AuditedCredential: Codable, Hashable, Sendable {
    /// `certificate` or `token key`.
    package var kind: String
    /// The file's name without its folders.
    package var file: String
    /// When it ends, RFC 3339 in UTC; absent for a key, which does not end, or an unreadable file.
    package var ends: String?
    /// Days until then; negative after it.
    package var daysLeft: Int?
    /// Why it cannot be used; absent where it can.
    package var problem: String?

    /// Whole days from a time to an end in seconds since 1970, rounded down: an hour after the end it
    /// is -1, so that what has ended is never taken for what ends today.
    package static func days(from now: EpochMilliseconds, to end: Int64) -> Int {
        let seconds: Double = Double(end) - Double(now.rawValue) / 1_000
        return Int((seconds / 86_400).rounded(.down))
    }
}

/// What a sweep would do with the evidence that waits.
package struct SweepForecast: Codable, Hashable, Sendable {
    /// Tuples and reports that wait in lists or in `pushsweep_evidence`.
    package var waiting = 0
    /// Reports that would make a row invalid, or that the guard would hold back.
    package var applied = 0
    /// Reports of tokens that would be kept, because they registered again.
    package var newer = 0
    /// Reports of tokens that no row has.
    package var unknown = 0
    /// Rows whose grace period (`policy.delete-after`) has ended.
    package var removals = 0
    /// Whether the guard would hold them.
    package var held = false

    /// Whether all that waits was found and compared with the table. Otherwise the figures are
    /// incomplete, and 0 is no result.
    package var judged = false
}

/// What only sorting shows.
package struct DeepTokens: Codable, Hashable, Sendable {
    /// Tokens that more than one row has.
    package var duplicateTokens = 0
    /// Rows beyond the first of these.
    package var duplicateRows = 0
    /// Tokens that rows of several users have; absent where no column of users is known.
    package var tokensOfSeveralUsers: Int?
    /// Tokens that rows of both environments have.
    package var tokensInBothEnvironments = 0
    /// Users with at least one row; absent where no column of users is known.
    package var users: Int?
    /// Users whose every row is stale, empty or malformed.
    package var usersWithoutLivingToken: Int?
    /// Users by the number of their living tokens: `0`, `1`, `2`, `3 to 5`, `over 5`.
    package var tokensPerUser: [NamedCount] = []
}

/// The runs of the period.
package struct AuditedRuns: Codable, Hashable, Sendable {
    /// The end of the last sweep that ended with 0, RFC 3339 in UTC: of this host, or of another one where it changed
    /// rows. Absent where none is known.
    package var lastGoodSweep: String?
    /// Hours since then.
    package var hoursSince: Double?
    /// The longest time between two sweeps of the period, in hours.
    package var longestGap: Double?
    /// Runs of the period by kind and exit code, such as `sweep 0`, most first.
    package var endings: [NamedCount] = []
    /// Runs of the period that changed rows, newest first, at most 50.
    package var changing: [AuditedRun] = []
}

/// One run that changed rows.
package struct AuditedRun: Codable, Hashable, Sendable {
    /// The run's name, a UUID.
    package var run: String
    /// `sweep`, `replay`, `import`, `release` or `undo`.
    package var kind: String
    /// When it began, RFC 3339 in UTC.
    package var started: String
    /// Rows that it changed.
    package var rows: Int
    /// The host and the person or service, where the record names them.
    package var by: String
    /// Whether an undo took its changes back.
    package var undone = false
}

/// A mass removal that the guard stopped, and what became of it.
package struct AuditedHold: Codable, Hashable, Sendable {
    /// The name of the batch that was held first; absent once it is decided.
    package var hold: String?
    /// The app's name in the settings.
    package var app: String
    /// `production` or `sandbox`.
    package var environment: String
    /// `open`, `released` or `discarded`.
    package var state: String
    /// When it was held, RFC 3339 in UTC.
    package var held: String
    /// The rule that stopped it, such as `share` or `registered-later`.
    package var cause: String
    /// Tuples that it has.
    package var tuples: Int
    /// Living rows that would become invalid now; absent, as the next two, once it is decided and where
    /// it is not known.
    package var candidates: Int?
    /// Living rows of the app and environment now.
    package var living: Int?
    /// What the guard says of all its batches together now; absent where it would not stop them.
    package var judgement: String?
    /// Who decided, and when; absent while it is open.
    package var decision: String?
    /// The reason that was given with the decision.
    package var reason: String?

    package var object: String { "\(app)/\(environment)" }
}

/// What lies in quarantine.
package struct AuditedQuarantine: Codable, Hashable, Sendable {
    /// Batches with parts that could not be used and were not discarded.
    package var batches = 0
    /// Bytes in these parts.
    package var bytes = 0
    /// Their reasons, most first.
    package var reasons: [NamedCount] = []
}

/// A figure that differs from that of an earlier report.
package struct AuditChange: Codable, Hashable, Sendable {
    /// What it is about: `chat/production`.
    package var object: String
    /// The figure's name, such as `living`.
    package var figure: String
    /// Its value in the earlier report.
    package var before: Int
    /// Its value in this report.
    package var after: Int
}

extension AuditReport {
    /// Reads the JSON report of an earlier audit.
    ///
    /// - Throws: exit 64 for a file that cannot be read or is none.
    package init(file: String) throws(RunFailure) {
        func refusal(_ cause: String) -> RunFailure {
            RunFailure(
                .usage, .settings,
                "reading the earlier report \(file): \(cause); name a file that `pushsweep audit "
                    + "--output report.json` wrote")
        }
        guard let data = FileManager.default.contents(atPath: file) else {
            throw refusal(String(cString: strerror(errno)))
        }
        guard let report = try? JSONDecoder().decode(AuditReport.self, from: data) else {
            throw refusal("it is no report of an audit")
        }
        self = report
    }

    /// The figures that differ from those of an earlier report, app by app.
    func changes(since earlier: AuditReport) -> [AuditChange] {
        var changes: [AuditChange] = []
        for app in apps {
            let before =
                earlier.apps.first { $0.object == app.object }
                ?? AuditedApp(
                    app: app.app, environment: app.environment)
            for (was, figure) in zip(before.figures, app.figures) where was.count != figure.count {
                changes.append(
                    AuditChange(
                        object: app.object, figure: figure.name, before: was.count,
                        after: figure.count))
            }
        }
        return changes
    }
}

extension AuditedApp {
    /// The figures that are compared, in a fixed order.
    fileprivate var figures: [NamedCount] {
        [
            NamedCount("rows", tokens.rows), NamedCount("living", tokens.living),
            NamedCount("stale", tokens.stale), NamedCount("revived", tokens.revived),
            NamedCount("never registered", tokens.neverRegistered),
            NamedCount("empty", tokens.empty), NamedCount("malformed", tokens.malformed),
            NamedCount("waiting", forecast.waiting), NamedCount("queued", queue?.open ?? 0),
            NamedCount("queued to stale tokens", queue?.toStale ?? 0),
        ]
    }
}

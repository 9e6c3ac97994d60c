// Lists what runs have done to the token table, for programs that have to follow: caches, other
// databases, customer records. `ChangeFollower` has the order and the promise. The listing reads the
// database only; it takes no lock, so it works beside any run and on any host.

import APNsProtocol
import Database
import Encodings
import Settings
import TokenHygiene
import TokenTable

/// What a listing of changes is to contain.
package struct ChangeListing {
    /// A run, a time or a cursor, as it was typed.
    let since: String
    let format: ChangeFormat
    /// The most changes to list; nil for all.
    let limit: Int?
    /// Whether tokens are listed whole.
    let wholeTokens: Bool

    package init(since: String, format: ChangeFormat, limit: Int?, wholeTokens: Bool) {
        self.since = since
        self.format = format
        self.limit = limit
        self.wholeTokens = wholeTokens
    }

    /// The bytes of lines that are handed over together at least.
    private static let block = 32_768

    /// Lists the changes. `output` receives whole lines, and returns false when nobody reads them
    /// any more.
    ///
    /// - Throws: exit 64 for a run or cursor that the database does not have, 75 when it was
    ///   stopped; failures of the database. The lines handed over before are valid.
    package func run(
        _ settings: Settings, _ context: RunContext, output: (String) -> Bool
    ) throws(RunFailure) {
        let start = try start()
        try settings.reading { tokens in
            try tokens.requireFollowing()
            do {
                var follower = try ChangeFollower(tokens.session, from: start)
                try list(&follower, settings, context, output)
            } catch let obstacle as ChangeObstacle {
                throw refusal(obstacle)
            }
        }
    }

    private func list(
        _ follower: inout ChangeFollower, _ settings: Settings, _ context: RunContext,
        _ output: (String) -> Bool
    ) throws {
        let names = Dictionary(
            settings.apps.map { ($0.storedPartition, $0.name) }, uniquingKeysWith: { one, _ in one }
        )
        var waiting = ChangeLine.heading(format) ?? ""
        var count = 0
        // Lines that were made before an obstacle are still part of the listing.
        defer { if !waiting.isEmpty { _ = output(waiting) } }
        var last = "\(follower.cursor)"
        while limit.map({ count < $0 }) ?? true {
            guard !context.interrupt.isTripped else {
                throw RunFailure(
                    .pending, .report,
                    "listing changes: stopped after \(count); continue with --since \(last)")
            }
            let page = try follower.next().prefix(limit.map { $0 - count } ?? .max)
            if page.isEmpty { break }
            for change in page {
                let partition = change.entry.origin?.partition
                let line = ChangeLine(
                    change, name: partition.flatMap { names[$0] }, wholeTokens: wholeTokens)
                waiting += line.text(format)
                last = line.cursor
                count += 1
            }
            guard waiting.utf8.count >= Self.block else { continue }
            let isRead = output(waiting)
            waiting = ""
            if !isRead { return }
        }
        let end = count == 0 ? "\(follower.cursor)" : last
        context.log.notice("\(count.counting("change")), the cursor after them is \(end)")
    }

    // MARK: The beginning

    /// Reads `--since`.
    private func start() throws(RunFailure) -> ChangeStart {
        if let cursor = ChangeCursor(since) { return .cursor(cursor) }
        if let time = EpochMilliseconds(iso8601: since) { return .time(time) }
        let name = since.lowercased()
        let isName =
            name.utf8.count >= NameBeginning.least
            && name.unicodeScalars.allSatisfy { $0.properties.isASCIIHexDigit || $0 == "-" }
        guard isName else {
            throw RunFailure(
                .usage, .settings,
                "reading --since \(SettingText.quoted(since)): it is neither a cursor of an earlier "
                    + "line, nor a time such as 2026-11-22 or 2026-11-22T10:00:00Z, nor at least "
                    + "\(NameBeginning.least) characters of a run's name; see `pushsweep undo --list`"
            )
        }
        return .run(name)
    }

    private func refusal(_ obstacle: ChangeObstacle) -> RunFailure {
        let doing = "listing changes since \(since.prefix(64))"
        let why =
            switch obstacle {
            case .unknownRun:
                "the ledger has no change of such a run; see `pushsweep undo --list`, or give a "
                    + "time"
            case .severalRuns: "several runs begin like this; give more of its name"
            case .beyond(let last):
                "the cursor is beyond the last change, which is n\(last), so it is of another "
                    + "database, or this one lost changes when it was restored; compare the whole "
                    + "table, then continue with --since n\(last)"
            case .otherTransaction:
                "the cursor's change is another one here, so it is of another database, or this "
                    + "one lost changes when it was restored; compare the whole table, then begin "
                    + "with --since and a time"
            case .purged(let cursor, let next):
                "changes after \(cursor) were purged before they were listed "
                    + "(policy.keep-ledger); compare the whole table, then continue with --since "
                    + "\(next)"
            }
        return RunFailure(.usage, .store, "\(doing): \(why)")
    }
}

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
        let partition = entry.origin?.partition
        cursor = "\(change.cursor)"
        changed = entry.changed.rfc3339
        app = partition?.app ?? ""
        environment = partition?.environment ?? ""
        action = entry.action
        state = entry.state
        key = entry.key.text(wholeTokens: wholeTokens)
        token = entry.token.map { wholeTokens ? $0.hex : $0.redacted }
        evidence = entry.evidence.rfc3339
        source = entry.origin?.source ?? ""
        reason = entry.reason
        run = entry.part.run
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

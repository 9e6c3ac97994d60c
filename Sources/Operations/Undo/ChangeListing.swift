// Lists what runs have done to the token table, for programs that have to follow: caches, other
// databases, customer records. `ChangeFollower` has the order and the promise. The listing reads the
// database only; it takes no lock, so it works beside any run and on any host.

import APNsProtocol
import Database
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

    /// Describes a listing.
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
            try tokens.preflightFollowing()
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
                let name = change.entry.origin.flatMap { names[$0.partition] }
                let line = ChangeLine(change, name: name, wholeTokens: wholeTokens)
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

import APNsProtocol
import Database
import Encodings
import PushQueue
import Settings
import TokenHygiene
import TokenTable

// Lists what became of the queue's notifications, message by message. It reads the queue, the states and
// claims beside it, and the token table for the users. It takes no lock and writes nothing.
//
// Rows are read and printed page by page, so the memory does not grow with the list. The JSON document is
// printed in parts for that reason: the list first, then the other fields, whose names come after it in
// the order of the alphabet. When reading fails in between, the document still gets its end.

/// Which notifications are to be listed, and how.
package struct DeliveryWish: Sendable {
    /// The tokens that are meant; nil: all.
    package var subject: TokenSubject?
    /// The states that are meant; none: all.
    package var states: Set<DeliveryState> = []
    /// The apps that are meant, by their names in the settings; none: all.
    package var apps: [String] = []
    /// The environment that is meant; nil: both.
    package var environment: String?
    /// The earliest time of queueing.
    package var since: EpochMilliseconds?
    /// The most notifications that are listed.
    package var limit = DeliveryWish.usualLimit
    /// The most rows that are searched where no index leads to those that match.
    package var searched = TokenTable.mostQueueRowsSearched
    /// Whether tokens are listed whole.
    package var wholeTokens = false
    /// The format of the list.
    package var format = DeliveryFormat.text

    /// The most notifications without `--limit`.
    package static let usualLimit = 100

    /// Selects all notifications up to the usual limit, as text.
    package init() {}
}

/// Lists notifications.
package struct Deliveries {
    /// The bytes of lines that are handed over together at least.
    private static let block = 32_768
    /// The most notifications for whose users a token table without an index is read whole.
    private static let mostWithoutIndex = 500

    private let settings: Settings
    private let wish: DeliveryWish
    private let context: RunContext
    private let output: (String) -> Bool
    /// The apps of the settings by the partitions of the table's rows.
    private let apps: [Partition: Partition]

    private var waiting = ""
    private var count = 0
    private var hasBegun = false
    private var isRead = true
    private var more = false
    private var namesUsers = false
    private var gaps: [String] = []
    private var notes: [String] = []

    /// Lists the notifications. `output` receives whole lines, for JSON also parts of one, and returns
    /// false when nobody reads them any more.
    ///
    /// - Throws: exit 64 for an app that the settings do not name, 75 when it was stopped; failures of
    ///   the database. What was handed over before is valid; a JSON document has its end.
    package static func run(
        _ settings: Settings, _ wish: DeliveryWish, _ context: RunContext,
        output: @escaping (String) -> Bool
    ) throws(RunFailure) {
        var listing = Deliveries(settings, wish, context, output)
        do {
            try listing.list()
        } catch {
            let failure = RunFailure.wrapping(error, at: .store)
            listing.end(failure.exit)
            throw failure
        }
        listing.end(.done)
    }

    private init(
        _ settings: Settings, _ wish: DeliveryWish, _ context: RunContext,
        _ output: @escaping (String) -> Bool
    ) {
        (self.settings, self.wish, self.context, self.output) = (settings, wish, context, output)
        apps = Dictionary(
            settings.apps.map { ($0.storedPartition, $0.partition) },
            uniquingKeysWith: { one, _ in one })
    }

    private mutating func list() throws {
        var filter = QueueFilter()
        (filter.states, filter.since) = (wish.states, wish.since)
        filter.partitions = try partitions()
        try settings.ensureOwnStore()
        let store = try TokenTable(StoreSettings(settings, for: .reports))
        if let subject = wish.subject { filter.tokens = try tokens(subject, store) }
        var listing = try QueueListing(
            store, filter, in: settings.apps.map(\.storedPartition), mostSearched: wish.searched)
        prepare(listing, store)
        hasBegun = true
        if wish.format == .csv { waiting = DeliveryLine.csvHeading }
        if wish.format == .json { waiting = #"{"deliveries":["# }
        while isRead && !more {
            guard !context.interrupt.isTripped else {
                throw RunFailure(
                    .pending, .report, "listing notifications: stopped after \(count)")
            }
            let rows = try listing.next()
            if rows.isEmpty { break }
            more = rows.count > wish.limit - count
            add(rows.prefix(wish.limit - count), store)
        }
        if let newest = listing.newest {
            notes.append(
                "no index of the queue leads to these rows, so only its newest \(newest) rows were "
                    + "searched; --search looks at more")
        }
    }

    // MARK: What is meant

    /// The partitions of the chosen apps as the rows name them; nil for all rows.
    private func partitions() throws(RunFailure) -> [Partition]? {
        if wish.apps.isEmpty && wish.environment == nil { return nil }
        let chosen = try settings.apps(named: wish.apps).filter {
            wish.environment == nil || $0.environment.rawValue == wish.environment
        }
        guard !chosen.isEmpty else {
            throw RunFailure(
                .usage, .settings,
                "listing notifications: the settings have no such app in the environment "
                    + "\(SettingText.quoted(wish.environment ?? "")); check --app and --environment, "
                    + "which is production or sandbox")
        }
        return chosen.map(\.storedPartition)
    }

    private mutating func tokens(
        _ subject: TokenSubject, _ store: TokenTable
    ) throws -> [DeviceToken] {
        let found = try subject.tokens(store)
        if let note = found.note { notes.append(note) }
        guard case .user = subject else { return found.tokens }
        if found.isCut {
            notes.append(
                "the user has more than \(TokenSubject.mostTokens) tokens; only the notifications to "
                    + "so many are listed")
        }
        if found.tokens.isEmpty {
            notes.append(
                "no row of the token table has a token of this user, so no notification can be found; "
                    + "check --user")
        }
        return found.tokens
    }

    /// Notes what the listing cannot tell.
    private mutating func prepare(_ listing: QueueListing, _ store: TokenTable) {
        gaps += listing.gaps
        if !wish.apps.isEmpty, !listing.tellsApps, Set(settings.apps.map(\.name)).count > 1 {
            notes.append("the queue has no column for the app, so --app leaves no row out")
        }
        if wish.environment != nil, !listing.tellsEnvironments,
            Set(settings.apps.map(\.environment)).count > 1
        {
            notes.append(
                "the queue has no column for the environment, so --environment leaves no row out")
        }
        do {
            let hasIndex = try TokenHistory(store).hasTokenIndex
            namesUsers = hasIndex || wish.limit <= Self.mostWithoutIndex
            guard !hasIndex, wish.subject == nil, try store.userColumn() != nil else { return }
            notes.append(
                namesUsers
                    ? "the token table has no index over its tokens, so it is read whole to name users"
                    : "users are not named, because the token table has no index over its tokens; run "
                        + "`pushsweep schema apply --upgrade`, or list at most "
                        + "\(Self.mostWithoutIndex)")
        } catch {
            noteUnreadUsers(error)
        }
    }

    // MARK: Lines

    private mutating func add(_ rows: ArraySlice<QueuedRow>, _ store: TokenTable) {
        let users = users(of: rows, store)
        for row in rows {
            let line = DeliveryLine(
                row, app: row.partition.flatMap { apps[$0] }, users: users(row),
                wholeTokens: wish.wholeTokens)
            switch wish.format {
            case .text: waiting += line.text.printable + "\n"
            case .csv: waiting += line.csv
            case .json: waiting += (count == 0 ? "" : ",") + line.jsonLine.printableJSON
            }
            count += 1
        }
        if waiting.utf8.count >= Self.block { flush() }
    }

    private mutating func flush() {
        if !waiting.isEmpty && isRead { isRead = output(waiting) }
        waiting = ""
    }

    /// The users of rows, where the token table tells them.
    private mutating func users(
        of rows: ArraySlice<QueuedRow>, _ store: TokenTable
    ) -> (QueuedRow) -> [String]? {
        // A user that was asked for is the one of all rows found.
        if case .user(let user) = wish.subject { return { _ in [user] } }
        guard namesUsers else { return { _ in nil } }
        do {
            if let found = try store.users(of: Set(rows.compactMap(\.token))) {
                return { row in row.token.map { found[$0] ?? [] } }
            }
        } catch {
            noteUnreadUsers(error)
        }
        namesUsers = false
        return { _ in nil }
    }

    private mutating func noteUnreadUsers(_ error: any Error) {
        gaps.append("users: \(RunFailure.wrapping(error, at: .store))")
    }

    /// Ends the list, and says on stderr what it lacks.
    private mutating func end(_ exit: ExitStatus) {
        guard hasBegun else { return }
        if wish.format == .json {
            let end = DeliveryEnd(exit: exit.rawValue, gaps: gaps, more: more, notes: notes)
            waiting += "]," + end.documentLine.printableJSON.dropFirst() + "\n"
        }
        flush()
        for gap in gaps { context.log.warning("listing notifications: not read: \(gap)") }
        for note in notes { context.log.warning("listing notifications: \(note)") }
        if more {
            context.log.warning(
                """
                listing notifications: more than \(wish.limit) match; these are the newest, --limit \
                lists more
                """)
        }
        if count == 0 && exit == .done && wish.format == .text {
            context.log.notice("no notification of the queue matches")
        }
    }
}

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

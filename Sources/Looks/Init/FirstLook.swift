// The first look at a database that no settings file describes. It needs an address and SELECT, and writes
// nothing there: it finds the table, proposes the mapping, counts the rows by it as an audit does, and makes
// the settings file. That file is read by the same code as any other one before it is printed, so what is
// proposed is at least a settings file.

import Database
import Encodings
import FoundationEssentials
import Glibc
import Operations
import SchemaLook
import Settings
import TokenTable

/// What a first look is at.
package struct FirstLookWish: Hashable, Sendable {
    /// The database, as `store.url` takes it.
    package var address: String
    /// The parts of the mapping that a person names.
    package var answers = LookAnswers()
    package var passwordFile: String?
    package var ca: String?
    package var tls: String?
    /// Where to write the settings file; nil: nowhere.
    package var output: String?
    /// The file for the report on the table, for what is printed; nil: none is made.
    package var report: String?

    package init(address: String) { self.address = address }
}

/// Finds the token table of a database and proposes its settings.
package struct FirstLook {
    /// What came of a look.
    package struct Result {
        package let report: InitReport
        /// The report on the table, where one is wished and the rows were counted.
        package let audit: AuditReport?
        /// Why they were not.
        package let failure: RunFailure?
    }

    /// The rows among which tokens in several rows are looked for without an index.
    private static let fewRows = 200_000

    private let wish: FirstLookWish
    private let environment: [String: String]
    private let context: RunContext
    private let version: String
    private var report = InitReport()
    private var audit: AuditReport?
    /// Why the rows were not counted; nil where they were, or where statements have to run first.
    private var failure: RunFailure?

    /// Looks at the database, and writes the settings file where one is wished. The second value is the report on the
    /// table, where one is wished.
    ///
    /// - Throws: exit 64 for an address that is none; 69, 77 where the database cannot be used; 73 where the
    ///   file is there already or cannot be written.
    package static func run(
        _ wish: FirstLookWish, environment: [String: String], version: String,
        _ context: RunContext
    ) throws(RunFailure) -> Result {
        var look = FirstLook(
            wish: wish, environment: environment, version: version, context: context)
        defer { context.progress.clear() }
        do {
            try look.look()
        } catch {
            throw RunFailure.ofReading(error).naming(Self.options)
        }
        return Result(report: look.report, audit: look.audit, failure: look.failure)
    }

    /// What a failure of the database calls by its setting, as init calls it.
    private static let options = [
        "store.tls.ca": "--ca", "store.tls.mode": "--tls", "store.password-file": "--password-file",
        "store.url": "the address", "store.active-users.living.column": "--mark",
        "store.active-users.living.living": "--mark", "store.active-users.living.dead": "--mark",
        "store.active-users.living": "--mark",
    ]

    private init(
        wish: FirstLookWish, environment: [String: String], version: String, context: RunContext
    ) {
        (self.wish, self.environment, self.context) = (wish, environment, context)
        self.version = version
    }

    private mutating func look() throws {
        if let path = wish.output { try ensureFree(path) }
        let settings = try settings()
        let session = try DatabaseSession(StoreSettings(settings, for: .reports))
        report.database =
            "\(settings.store.location) (\(try session.describe().version))"
        var look = try DatabaseLook(session, answers: wish.answers)
        try look.search(
            shouldStop: { context.interrupt.isTripped },
            report: { context.progress.show("looking at tables", $0, of: nil) })
        guard !context.interrupt.isTripped else {
            throw RunFailure(.pending, .store, "looking at the database: stopped; run again")
        }
        (report.tables, report.unread) = (look.tables, look.unread)
        report.unnameable = look.unnameable
        report.candidates = look.found.map {
            InitReport.Candidate(
                table: $0.table.description, column: $0.column, form: $0.form, count: $0.count,
                filled: $0.filled, reasons: $0.reasons, doubts: $0.doubts)
        }
        guard let choice = look.choice(),
            let proposal = try look.proposal(choice)
        else {
            throw undecided(look.found)
        }
        report.choice = look.comparison(choice)
        let left = proposal.table.unnameable.map { "\(proposal.table.name).\($0.name)" }
        report.unnameable += left.filter { !report.unnameable.contains(exactly: $0) }
        try propose(proposal, settings)
    }

    /// The settings of the address alone: the machine's settings file is not read.
    private func settings() throws -> Settings {
        // The address is checked first, because an error in it is one of the command line.
        do {
            _ = try StoreLocation(
                wish.address, relativeTo: FileManager.default.currentDirectoryPath)
        } catch {
            throw RunFailure(.usage, .settings, "reading the address of the database: it \(error)")
        }
        var lines = ["store:", "  url: \(wish.address.yamlScalar)"]
        if let file = wish.passwordFile {
            lines.append("  password-file: \(file.yamlScalar)")
        }
        let tls = [
            wish.ca.map { "ca: \($0.yamlScalar)" },
            wish.tls.map { "mode: \($0.yamlScalar)" },
        ].compactMap { $0 }
        if !tls.isEmpty { lines.append("  tls: {\(tls.joined(separator: ", "))}") }
        // Variables of other settings are for a sweep.
        let own = ["PUSHSWEEP_STORE_PASSWORD", "HOME", "XDG_STATE_HOME"]
        return try Settings.load(
            text: lines.joined(separator: "\n") + "\n",
            environment: environment.filter { own.contains($0.key) })
    }

    private func undecided(_ found: [DatabaseLook.Found]) -> RunFailure {
        let tables = report.tables.counting("table")
        if let column = wish.answers.token {
            return RunFailure(
                .configuration, .store,
                "looking for Apple's tokens in \(report.database): no column \(column) of \(tables) has "
                    + "values like them; columns that have:",
                listing: report.candidates.prefix(10).map(\.line))
        }
        guard let first = found.first else {
            return RunFailure(
                .configuration, .store,
                "looking for Apple's tokens in \(report.database): none of \(tables) has a column whose "
                    + "values are 64 hex digits, bytes or another form of them; check the database in the "
                    + "address and that the account may read its tables, or run it again when devices have "
                    + "registered"
                    + (report.hidden.isEmpty
                        ? ""
                        : ", and grant SELECT on "
                            + report.hidden.prefix(8).joined(separator: ", "))
                    + (report.unnameable.isEmpty
                        ? "" : "; \(InitReport.leftOut(report.unnameable)): give each another name")
            )
        }
        return RunFailure(
            .configuration, .store,
            "looking for Apple's tokens in \(report.database): "
                + (!first.isLikely
                    ? "no column is likely to hold them" : "several columns may hold them")
                + "; choose one with --token TABLE.COLUMN",
            listing: report.candidates.prefix(10).map(\.line))
    }

    /// The reason of a line in one sentence, with what the text puts on lines of their own.
    private static func whole(_ line: MappingProposal.Line) -> String {
        guard let statement = line.statement, let setting = line.setting else { return line.reason }
        return "\(line.reason); run \(statement) and write \(line.part.rawValue): \(setting)"
    }

    private mutating func propose(_ proposal: MappingProposal, _ settings: Settings) throws {
        let draft = SettingsDraft(
            proposal: proposal, location: settings.store.location, ca: settings.store.tls.ca,
            tlsIsOff: wish.tls == "off")
        report.table = proposal.table.name.description
        report.parts = proposal.lines.map {
            InitReport.Part(
                part: $0.part.rawValue, column: $0.column, value: $0.value, reason: Self.whole($0),
                answer: $0.answer, statement: $0.statement, setting: $0.setting)
        }
        report.statements = proposal.statements
        report.settings = draft.text
        // The password file of the account that is yet to be made is not there.
        let proposed = try Settings.load(
            text: draft.text, environment: ["PUSHSWEEP_STORE_PASSWORD": "none yet"])
        if proposal.statements.isEmpty {
            count(proposed, settings)
        } else {
            report.uncounted = "it needs the statements below first"
        }
        report.audit = audit == nil ? nil : wish.report
        if let path = wish.output { try write(draft.text, to: path) }
        report.file = wish.output
        report.next = next(settings.store.location)
    }

    // MARK: Counting

    private mutating func count(_ proposed: Settings, _ settings: Settings) {
        var store = StoreSettings(settings, for: .reports)
        store.mapping = proposed.store.mapping
        do {
            let table = try TokenTable(store)
            let partitions = proposed.apps.map(\.storedPartition)
            let look = try TableAudit(table, partitions, at: table.session.databaseTime())
            guard
                let (tallies, others) = try look.tallies(
                    shouldStop: { context.interrupt.isTripped },
                    report: { context.progress.show("counting rows", $0, of: nil) })
            else { throw RunFailure(.pending, .store, "counting rows: stopped; run again") }
            var counts = InitReport.Counts()
            var all = RowTally()
            for tally in tallies.values { all.add(tally) }
            var app = AuditedApp(app: "", environment: "")
            app.enter(all)
            counts.rows = try table.countRows()
            // Without an index a large table would be sorted as a whole.
            let mayShare = try table.layout().hasTokenIndex || counts.rows <= Self.fewRows
            if mayShare {
                counts.duplicates = try DeepAudit(table, partitions, user: nil).sharedTokens().rows
            }
            counts.living = app.tokens.living
            counts.dead = app.tokens.stale
            counts.malformed = app.tokens.malformed
            counts.empty = app.tokens.empty
            counts.otherPlatforms = max(0, counts.rows - app.tokens.rows - others)
            counts.registered = app.registrationAges
            report.counts = counts
            // Before anything is made there are no marks of ours, and nothing of ours is seen.
            if try table.session.canRead(PushsweepTable.run.name, "id") {
                for gap in try table.unseenMarks() { context.log.warning("\(gap)") }
            }
            if wish.report != nil {
                audit = try Audit.firstLook(
                    at: table, under: proposed, sorting: mayShare, questions: report.questions,
                    version: version, context)
            }
        } catch {
            failure = .ofReading(error)
            report.uncounted = failure.map { "\($0)" }
        }
    }

    // MARK: The file

    private func ensureFree(_ path: String) throws(RunFailure) {
        var facts = stat()
        guard lstat(path, &facts) == 0, !isExample(path) else { return }
        throw RunFailure(
            .cannotCreate, .report,
            "writing the settings to \(path): the file is there already, and init writes over none but the "
                + "example of the package as it came; name another one")
    }

    /// Whether a file is the example that the package brings, which nobody has edited.
    private func isExample(_ path: String) -> Bool {
        let file = FileManager.default.contents(atPath: path)
        return file.map { $0.elementsEqual(SettingsExample.short.text.utf8) } == true
    }

    private func write(_ text: String, to path: String) throws(RunFailure) {
        if isExample(path) { return try ReplacedFile(path, of: "the settings").replace(with: text) }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard descriptor >= 0 else {
            throw RunFailure(
                .cannotCreate, .report,
                "writing the settings to \(path): \(String(cString: strerror(errno)).lowercased()); name "
                    + "another file with --output")
        }
        defer { close(descriptor) }
        guard writeWhole(Array(text.utf8), to: descriptor) else {
            let reason = String(cString: strerror(errno)).lowercased()
            unlink(path)
            throw RunFailure(
                .cannotCreate, .report, "writing the settings to \(path): \(reason); make room")
        }
    }

    private func next(_ location: StoreLocation) -> [String] {
        let file = wish.output ?? "/etc/pushsweep/pushsweep.yaml"
        let config =
            file == "/etc/pushsweep/pushsweep.yaml" ? "" : " \(file.asValue(of: "--config"))"
        guard case .server = location else {
            return [
                "pushsweep schema apply\(config)", "pushsweep check\(config)",
                "pushsweep sweep --dry-run\(config)",
            ]
        }
        return [
            "pushsweep schema apply\(config)      # with an administrator in PUSHSWEEP_STORE_URL and "
                + "PUSHSWEEP_STORE_PASSWORD",
            "pushsweep check --grants \(SettingsDraft.account)\(config)      # as that administrator: "
                + "prints the statements that make the account",
            "pushsweep check\(config)",
        ]
    }
}

import APNsConnection
import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Glibc
import Operations
import PushQueue
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// What a look has seen, for the rules. A part is nil, or empty, where this command does not look at it or could not
/// see it: then a rule that needs it finds nothing, and `gaps` says what could not be seen.
struct Facts {
    let look: Look
    /// The state folder, and where the database is.
    let state, location: String
    /// The settings; nil in tests of rules that need none.
    private(set) var settings: Settings?
    /// The file by which a person stopped the runs of this host, and since when; nil where there is none.
    private(set) var stop: (file: String, since: EpochMilliseconds)?
    /// The apps looked at, and all apps of the settings.
    let apps, allApps: [Settings.App]
    /// The time at which certificates and sweeps are judged.
    var now: EpochMilliseconds

    // This host and the evidence.
    var host: HostFacts?
    var batches: BatchFacts?
    var sweeps: SweepFacts?
    /// Imports and sends that this host made regularly and makes no more.
    var runs: RunRhythm?
    /// What is not as usual in the evidence.
    var pulse: PulseLook?
    /// What APNs called bad, by app.
    var suspects: [SuspectShare] = []
    /// How much of that APNs knows in the other environment, by app, with apps by the table's value.
    private(set) var misplaced: [MisplacedShare] = []
    /// Rows of `pushsweep_evidence` about the apps that wait.
    var waitingRows = 0
    /// Why what waits could not be applied.
    var refusals: [RunFailure] = []

    // Credentials and gateways.
    var credentials: [CredentialFacts] = []
    var gateways: [GatewayFacts] = []

    // The database.
    var clock: ClockDifference?
    /// The newest registrations, and their table.
    var registrations: (clock: RegistrationClock, table: String)?
    var isReplica = false
    /// Waiting rows of the queue that belong to no app.
    var unowned: UnownedRows?
    /// Marks beside the table of apps that the settings do not name.
    var stranded: StrandedMarks?
    /// Rows of the table that no app of the settings has.
    var otherRows = 0
    /// Batches that say of their reports something else than is there.
    var unbalanced: [UnbalancedBatch] = []

    /// The numbers of an audit.
    var report: AuditReport?
    /// The table of a first look, of which nothing but its rows is known; nil for any other look.
    var firstLook: String?
    /// The tokens of a send.
    var send: SendFacts?
    /// What examinations found, by the names of rules.
    var examined: [Finding] = []
    /// What could not be seen, and why.
    var gaps: [String] = []

    init(
        _ look: Look, state: String = "", location: String = "", apps: [Settings.App] = [],
        allApps: [Settings.App]? = nil, now: EpochMilliseconds
    ) {
        (self.look, self.state, self.location, self.now) = (look, state, location, now)
        (self.apps, self.allApps) = (apps, allApps ?? apps)
    }

    /// Facts about some apps of the settings.
    init(_ look: Look, _ settings: Settings, apps: [Settings.App], now: EpochMilliseconds) {
        self.init(
            look, state: settings.state, location: "\(settings.store.location)", apps: apps,
            allApps: settings.apps, now: now)
        self.settings = settings
        var file = stat()
        if let path = settings.throttle.stopFile, stat(path, &file) == 0 {
            stop = (path, EpochMilliseconds(Int64(file.st_mtim.tv_sec) * 1_000))
        }
    }

    /// Reads what waits, what is held, the rhythm, and the last sweep.
    ///
    /// - Throws: any failure of a query.
    mutating func readEvidence(
        _ settings: Settings, _ store: TokenTable, hours: Double = SweepFacts.usualHours
    ) throws(StoreFailure) {
        var host = HostFacts(in: settings.state)
        batches = BatchFacts(store)
        pulse = PulseLook(settings, store)
        sweeps = try SweepFacts(&host, store, now, hours: hours)
        runs = RunRhythm(&host, now)
        self.host = host
        let intake = EvidenceIntake(store)
        let isSeen =
            try look == .preflight ? intake.decides() : intake.visibility() == .readable
        guard isSeen else { return }
        let words = settings.appWords
        waitingRows = 0
        for app in apps {
            waitingRows += try intake.waiting(naming: words.words(of: app.partition))
        }
    }

    /// Reads which suspects APNs knows in the other environment, where the account may see them.
    ///
    /// - Throws: any failure of a query.
    mutating func readMisplaced(_ store: TokenTable) throws(StoreFailure) {
        let suspects = Suspects(store)
        guard try suspects.visibility() == .readable else { return }
        misplaced = try suspects.misplaced()
    }

    /// Compares the clocks, and the newest registrations with that of the database.
    ///
    /// - Throws: any failure of a query.
    mutating func readClocks(
        _ store: TokenTable, _ now: () -> EpochMilliseconds
    ) throws(StoreFailure) {
        clock = try ClockDifference(to: store, now)
        registrations = try store.registrationClock(slack: RunContext.mostClockDifference).map {
            ($0, "\(store.settings.mapping.table)")
        }
    }
}

/// When sweeps ended well.
package struct SweepFacts {
    /// Hours without a good sweep after which a person should look: a day, and two hourly runs.
    package static let usualHours = 26.0

    /// Ends of sweeps that succeeded, as the journals of this host and the database know them.
    private(set) var successes: [EpochMilliseconds] = []
    /// Hours without one after which that is a finding.
    let mostHours: Double
    let now: EpochMilliseconds
    /// Whether this host ever began a sweep.
    private(set) var isBegun = false
    /// The longest time between two sweeps of the period of an audit, in hours; nil where it is not known.
    var longestGap: Double?

    /// A time after each that a database records: the year 9998.
    private static let farthest = EpochMilliseconds(253_370_764_799_000)

    init(
        _ successes: [EpochMilliseconds], _ now: EpochMilliseconds,
        hours: Double = SweepFacts.usualHours
    ) {
        (self.successes, self.now, mostHours) = (successes, now, hours)
    }

    /// Asks the journals and the database. Sweeps of a folder that belongs to another database say nothing of this one.
    ///
    /// - Throws: any failure of a query.
    init(
        _ host: inout HostFacts, _ store: TokenTable, _ now: EpochMilliseconds, hours: Double
    ) throws(StoreFailure) {
        let limits = [RunContext.latestEnd(now), Self.farthest]
        var ends: [EpochMilliseconds?] = []
        var isBegun = false
        let isForeign = try FolderBinding.difference(host, store) != nil
        host.readEach { journal throws(JournalFailure) in
            if isForeign { return }
            for limit in limits {
                let last = try journal.lastRun("sweep", successUntil: limit)
                isBegun = isBegun || last != nil
                ends.append(last?.succeeded)
            }
        }
        for limit in limits {
            ends.append(try store.session.lastRecordedRun(of: "sweep", until: limit))
        }
        self.init(ends.compactMap { $0 }, now, hours: hours)
        self.isBegun = isBegun
    }

    /// The last success that this host believes. One in the future is none: the clock of a host was wrong
    /// then, or that of this host is wrong now.
    var last: EpochMilliseconds? {
        successes.filter { $0 <= RunContext.latestEnd(now) }.max()
    }
    /// Hours from then to now.
    var hours: Double? { last.map { max(0, Double(now.rawValue - $0.rawValue)) / 3_600_000 } }
}

/// The tokens of a send.
struct SendFacts {
    /// The app and environment.
    let object: String
    /// The tokens; nil where they are not known.
    var tokens: TokenCounts?
    /// Whether memory did not suffice to find all duplicates.
    var missesDuplicates = false
    /// The largest share of stale tokens that is no reason to stop, from 0 to 1.
    var mostStale = 0.05
}

/// A certificate or key of the settings.
struct CredentialFacts {
    /// Milliseconds before its end at which a certificate should be renewed, and those at which it is urgent.
    static let (renewal, urgency) = (GatewayPlan.expiryWarning, Int64(7 * 86_400_000))

    let app: Settings.App
    /// `certificate` or `token key`.
    let kind: String
    let file: String
    /// The certificate; nil for a key, and where it cannot be loaded.
    private(set) var identity: TLSIdentity?
    /// Why it cannot be used; nil where it can.
    private(set) var problem: RunFailure?
    /// Why the certificate is not valid now; nil where it is.
    private(set) var invalidity: RunFailure?

    /// The app and the name of the file.
    var object: String { "\(app.partition) \(file.split(separator: "/").last ?? "")" }
    /// The app's place in the settings.
    var key: String { "apps[\(app.partition)]" }
    /// Whether a gateway of the settings that takes notifications sees the certificate.
    var isShown: Bool { app.provider != nil && app.tokenKey == nil || app.binary != nil }
    /// Whether some sender shows it, also one that the settings do not know: with a token key none does.
    var isUsed: Bool { app.tokenKey == nil || app.binary != nil }

    /// Loads the credentials of an app.
    static func all(of app: Settings.App, at now: EpochMilliseconds) -> [CredentialFacts] {
        var all: [CredentialFacts] = []
        if let certificate = app.certificate {
            var facts = CredentialFacts(app: app, kind: "certificate", file: certificate.file)
            do throws(IdentityFailure) {
                let identity = try certificate.identity()
                facts.identity = identity
                do throws(IdentityFailure) {
                    try identity.checkValidity(at: now.rawValue / 1_000)
                } catch {
                    facts.invalidity = .wrapping(error, at: .identity)
                }
            } catch {
                facts.problem = .wrapping(error, at: .identity)
            }
            all.append(facts)
        }
        if let key = app.tokenKey {
            var facts = CredentialFacts(app: app, kind: "token key", file: key.file)
            if access(key.file, R_OK) != 0 {
                facts.problem = RunFailure(
                    .configuration, .identity,
                    "opening \(key.file): \(String(cString: strerror(errno)).lowercased())")
            }
            all.append(facts)
        }
        return all
    }

    /// Whether it ends within so many milliseconds.
    func ends(within time: Int64, of now: EpochMilliseconds) -> Bool {
        identity.map { $0.ends < now.advanced(by: time) } ?? false
    }
}

/// The gateway to which an app sends.
struct GatewayFacts {
    let app: Settings.App
    /// Its address.
    let object: String
    /// Why it cannot be reached.
    var unreachable: RunFailure?
    /// Why nothing can be sent with the credential.
    var refused: RunFailure?
    /// The answer to a made-up token; nil where none was sent.
    var probe: Result<ProviderAnswer, Refusal>?

    /// The app's place in the settings.
    var key: String { "apps[\(app.partition)]" }

    /// Connects to the gateway of an app, with its credential, for at most ten seconds. Sends no request.
    ///
    /// - Returns: nil where the app sends nothing; the plan of sending where the gateway takes the connection.
    static func reached(
        _ app: Settings.App, _ settings: Settings, _ context: RunContext
    ) -> (facts: GatewayFacts, plan: ProviderPlan?)? {
        guard let target = ProviderTarget(app, settings.send, context) else { return nil }
        let provider = app.provider.map { "\($0.host):\($0.port)" }
        let binary = app.binary.map { "\($0.host):\($0.port)" }
        var facts = GatewayFacts(app: app, object: provider ?? binary ?? "\(app.partition)")
        do {
            let plan = try target.gateway.get()
            try plan.examine(within: .seconds(10), context.interrupt)
            return (facts, plan)
        } catch let failure as TransportFailure {
            facts.unreachable = RunFailure(
                failure, of: target.partition, app.sendingSetting, at: .send)
        } catch {
            facts.refused = .wrapping(error, at: .send)
        }
        return (facts, nil)
    }
}

extension Double {
    /// Hours as people say them.
    var spanOfHours: String {
        self < 1 ? "under an hour" : self < 48 ? "\(Int(self)) hours" : "\(Int(self / 24)) days"
    }
}

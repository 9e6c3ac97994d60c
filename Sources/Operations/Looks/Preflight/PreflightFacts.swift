import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import PushQueue
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// What `preflight` has seen, for its rules.
struct PreflightFacts {
    let plan: PreflightPlan
    /// The time at which certificates and sweeps are judged.
    var now: EpochMilliseconds
    /// Why what waits could not be applied.
    var refusals: [RunFailure] = []
    var isReplica = false
    /// The tokens of the send; nil where they are not known.
    var tokens: TokenCounts?
    /// Whether memory did not suffice to find all duplicates.
    var missesDuplicates = false
    /// Waiting rows of the queue that belong to no app; nil where there are none, or no queue is looked at.
    var unowned: UnownedRows?
    /// Marks beside the table of apps that the settings do not name; nil where there are others, or none.
    var stranded: StrandedMarks?
    var host = HostFacts()
    var batches = BatchFacts()
    /// What APNs called bad in the last seven days among the living tokens of the app, and how many of these there are.
    var suspects: [AuditedSuspects] = []
    /// The beginning of those days, by the database's clock.
    var suspectsSince = EpochMilliseconds(0)
    var living = 0
    /// What is not as usual in the evidence.
    var pulse = PulseLook()
    /// Rows of `pushsweep_evidence` about the app that wait.
    var waitingRows = 0
    /// Ends of sweeps that succeeded, as the journals and the database know them.
    var successes: [EpochMilliseconds] = []
    var clock = ClockDifference()
    /// The newest registrations, and their table; nil where the table has no time of them.
    var registrations: (clock: RegistrationClock, table: String)?
    /// The certificate; nil where none is named.
    var identity: Result<TLSIdentity, IdentityFailure>?
    /// Why nothing can be sent with the credential.
    var refusedCredential: RunFailure?
    /// Why the gateway cannot be reached.
    var unreachable: RunFailure?
    /// The answer to a made-up token; nil where none was sent.
    var probe: Result<ProviderAnswer, Refusal>?

    var partition: String { "\(plan.app.partition)" }
    /// The app's place in the settings.
    var key: String { "apps[\(partition)]" }
    /// The gateway's address.
    var gateway: String {
        let provider = plan.app.provider.map { "\($0.host):\($0.port)" }
        return provider ?? plan.app.binary.map { "\($0.host):\($0.port)" } ?? partition
    }

    /// The last success that this host believes. One in the future is none: the clock of a host was wrong
    /// then, or that of this host is wrong now.
    var lastSweep: EpochMilliseconds? {
        successes.filter { $0 <= RunContext.latestEnd(now) }.max()
    }
    var hoursSinceSweep: Double? {
        lastSweep.map { max(0, Double(now.rawValue - $0.rawValue)) / 3_600_000 }
    }

    /// A time after each that a database records: the year 9998.
    private static let farthest = EpochMilliseconds(253_370_764_799_000)

    mutating func readSuspects(_ store: TokenTable) throws {
        let (stored, known) = (plan.app.storedPartition, Suspects(store))
        guard try known.visibility() == .readable else { return }
        suspectsSince = try store.session.databaseTime().advanced(
            by: -Suspects.recentDays * 86_400_000)
        suspects = try known.counts(since: suspectsSince).filter { $0.partition == stored }
            .map(AuditedSuspects.init)
    }

    mutating func readEvidence(_ store: TokenTable, at now: EpochMilliseconds) throws {
        host = HostFacts(in: plan.settings.state)
        batches = BatchFacts(store)
        if !suspects.isEmpty, tokens == nil {
            living = try store.livingRows(in: plan.app.storedPartition).count(atMost: .max)
        }
        pulse = PulseLook(plan.settings, store)
        let limits = [RunContext.latestEnd(now), Self.farthest]
        var ends: [EpochMilliseconds?] = []
        host.readEach { journal throws(JournalFailure) in
            for limit in limits {
                ends.append(try journal.lastRun("sweep", successUntil: limit)?.succeeded)
            }
        }
        for limit in limits {
            ends.append(try store.session.lastRecordedRun(of: "sweep", until: limit))
        }
        successes = ends.compactMap { $0 }
        let intake = EvidenceIntake(store)
        if try intake.visibility() == .readable {
            waitingRows = try intake.waiting(of: plan.app.partition)
        }
    }

    mutating func readClocks(_ store: TokenTable, _ now: () -> EpochMilliseconds) throws {
        clock = try ClockDifference(to: store, now)
        registrations = try store.registrationClock(slack: RunContext.mostClockDifference).map {
            ($0, "\(store.settings.mapping.table)")
        }
    }

    mutating func readCertificate() {
        guard let certificate = plan.app.certificate else { return }
        identity = Result { () throws(IdentityFailure) in try certificate.identity() }
    }
}

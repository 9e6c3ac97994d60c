import APNsProtocol
import Database
import Encodings
import Findings
import Settings
import TokenHygiene
import TokenTable

/// What is not as usual in the evidence of the apps of the settings.
struct PulseLook {
    /// By the names in the settings.
    private(set) var found: [(app: Partition, finding: PulseFinding)] = []
    /// Why it is not known; nil where it is.
    private(set) var unseen: StoreFailure?

    init() {}

    /// Reads the last days, by the database's clock in UTC.
    init(_ settings: Settings, _ store: TokenTable) {
        do throws(StoreFailure) {
            let history = EvidenceHistory(store)
            guard try history.isReadable() else { return }
            let days = try history.pulse(
                at: store.session.databaseTime(), settings.storedPartitions)
            for app in settings.apps {
                guard let own = days[app.storedPartition], let today = own.last else { continue }
                found += Pulse.findings(own.dropLast(), today: today).map { (app.partition, $0) }
            }
        } catch {
            unseen = error
        }
    }
}

extension PulseFinding {
    /// The names of the rules, in the order of reports.
    static let rules = [
        "evidence-stopped", "evidence-fits-no-row", "evidence-of-returned", "evidence-surge",
        "bad-tokens-rise",
    ]

    var rule: String {
        switch self {
        case .stopped: "evidence-stopped"
        case .unknown: "evidence-fits-no-row"
        case .newer: "evidence-of-returned"
        case .surge: "evidence-surge"
        case .bad: "bad-tokens-rise"
        }
    }

    /// Silence for four times the usual gap, and a week that fits no row at all, are no chance.
    var severity: Severity {
        switch self {
        case .stopped(let days, let usual): days + 1 > 4 * (usual + 1) ? .high : .medium
        case .unknown(let reports, let all): reports * 10 > all * 9 ? .high : .medium
        case .newer, .bad: .medium
        case .surge: .note
        }
    }

    var sentence: String {
        switch self {
        case .stopped(let days, let usual):
            "no evidence for \(days.counting("whole day")), where "
                + (usual > 0
                    ? "it never paused longer than \(usual.counting("day"))" : "it came each day")
        case .unknown(let reports, let all):
            "\(reports) of the \(all.counting("report")) of the last 7 days name a token that no row has"
        case .newer(let reports, let all):
            "\(reports) of the \(all.counting("report")) of the last 7 days are about devices that registered later"
        case .surge(let reports, let usual):
            "\(reports.counting("report")) yesterday, where a large day has \(usual)"
        case .bad(let reports, let usual):
            "APNs called tokens bad \(reports.counting("time")) in the last 7 days, where the largest week before "
                + "had \(usual)"
        }
    }

    var cause: String {
        switch self {
        case .stopped: "senders that report nothing look like senders that hear nothing"
        case .unknown: "another table, app or environment is meant, or the rows were removed before"
        case .newer:
            "an old log was read, or something else than a registration writes the time of registration"
        case .surge:
            "many devices at once, a log read late, or a credential of the other environment"
        case .bad: "a sender with another certificate, topic or environment makes every token bad"
        }
    }

    var cure: String {
        switch self {
        case .stopped:
            "look whether the sender still reports, the import still runs, the gateway still answers"
        case .unknown:
            "compare apps[].value, environment and store.active-users with the rows, and explain one of the tokens"
        case .newer: "look at what writes the column under registered-at: docs/registrations.md"
        case .surge: "look at the runs of yesterday, and at holds"
        case .bad: "look at the credentials of the senders: docs/evidence.md, Bad tokens"
        }
    }
}

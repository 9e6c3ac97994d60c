import APNsProtocol
import Database
import EvidenceJournal
import Glibc
import TokenHygiene
import TokenTable

// The part of `preflight` about evidence and about time. Journals are read without their lock: another run
// may be at work.

extension Gate {
    mutating func examineEvidence(_ store: TokenTable) throws {
        var successes: [EpochMilliseconds] = []
        let latest = RunContext.latestEnd(context.now())
        var pending = 0
        for journal in journals() {
            do throws(JournalFailure) {
                for file in try journal.damagedFiles {
                    addUnreadable(.medium, journal.folder.damage(file))
                }
                pending += try journal.feeds(.pending, .reading, .taking).count {
                    $0.partition == plan.partition
                }
                for hold in try Holds.holds(in: journal) where hold.partition == plan.partition {
                    add(
                        .openHold, .high, "hold \(hold.id)",
                        "a removal in \(hold.partition) waits for a person: \(hold.cause)",
                        cure: "look at it with: pushsweep holds show \(hold.id)")
                }
                let doubtful = try journal.quarantinedFeeds().count
                if doubtful > 0 {
                    add(
                        .quarantinedEvidence, .low, journal.folder.path,
                        "\(doubtful.counting("feed")) with bytes that are no evidence",
                        cure: "look at them with: pushsweep quarantine list")
                }
                successes += [
                    try journal.lastRun("sweep", successUntil: latest)?.succeeded,
                    try journal.lastRun("sweep")?.succeeded,
                ].compactMap { $0 }
            } catch {
                addUnreadable(.high, "\(error)")
            }
        }
        let intake = EvidenceIntake(store)
        let rows = try intake.visibility() == .readable ? try intake.waiting() : 0
        if pending + rows > 0 {
            add(
                .pendingEvidence, .medium, report.partition,
                "not applied yet: \(pending.counting("feed")) of the journals, "
                    + "\(rows.counting("row")) of pushsweep_evidence",
                cure: "run preflight without --read-only, or a sweep")
        }
        for limit in [latest, Self.farthest] {
            let recorded = try store.session.lastRecordedRun(of: "sweep", until: limit)
            successes += [recorded].compactMap { $0 }
        }
        noteSweep(successes.filter { $0 <= latest }.max(), future: successes.max())
    }

    /// High where something could not be seen: a hold may be in it. Medium where a damaged file was set
    /// aside, and a run has begun a new one.
    private mutating func addUnreadable(_ severity: GateSeverity, _ message: String) {
        add(
            .unreadableState, severity, plan.settings.state, message,
            cure: "run preflight as the user who sweeps, or: pushsweep check")
    }

    /// The journals of the state folder and its senders.
    private mutating func journals() -> [EvidenceJournal] {
        // A container without a volume has no state yet.
        let (folders, unreadable) = SenderFolders.neighbours(in: plan.settings.state)
        for failure in unreadable { addUnreadable(.high, "\(failure)") }
        var journals: [EvidenceJournal] = []
        for (folder, _) in folders where folder.hasJournal {
            do throws(JournalFailure) {
                journals.append(try EvidenceJournal(reading: folder))
            } catch {
                addUnreadable(.high, "\(error)")
            }
        }
        return journals
    }

    /// Judges the last success. One in the `future` is none: the clock of a host was wrong then, or that
    /// of this host is wrong now.
    private mutating func noteSweep(
        _ success: EpochMilliseconds?, future: EpochMilliseconds?
    ) {
        let cure = "run a sweep, or check that its timer runs"
        guard let success else {
            add(
                .noRecentSweep, .medium, report.partition,
                future.map {
                    "the only sweep known to have succeeded ended at \($0.rfc3339), which is in the "
                        + "future, so a clock was or is wrong and it counts as none"
                } ?? "neither this host nor the database knows a sweep that succeeded", cure: cure)
            return
        }
        let hours = max(0, Double(context.now().rawValue - success.rawValue)) / 3_600_000
        report.lastSweep = success.rfc3339
        report.hoursSinceSweep = (hours * 100).rounded() / 100
        if hours > plan.mostHours {
            add(
                .noRecentSweep, .medium, report.partition,
                "the last sweep that succeeded ended at \(success.rfc3339), \(Int(hours)) hours ago",
                cure: cure)
        }
    }

    /// Milliseconds by which clocks may differ.
    private static let slack: Int64 = 5_000
    /// A time after each that a database records: the year 9998.
    private static let farthest = EpochMilliseconds(CommandNumber.latestSecond * 1_000)

    /// Compares the clock of the database with that of this host, and with the newest registrations.
    mutating func examineClocks(_ store: TokenTable) throws {
        let before = context.now().rawValue
        let theirs = try store.session.databaseTime().rawValue
        let after = context.now().rawValue
        let difference = theirs - (before + (after - before) / 2)
        report.clockDifference = difference
        let most = RunContext.mostClockDifference
        if abs(difference) > Self.slack + (after - before) / 2 {
            add(
                .clockDifference, abs(difference) > most ? .high : .medium,
                "\(plan.settings.store.location)",
                "the clock of the database is \(abs(difference) / 1_000) s "
                    + (difference > 0 ? "ahead of" : "behind") + " this host's",
                cure: "synchronize both with NTP")
        }
        guard let clock = try store.registrationClock(slack: most), clock.ahead > 0 else {
            return
        }
        add(
            .registrationsAhead, clock.ahead * 2 > clock.rows ? .high : .medium,
            store.settings.mapping.table,
            "\(clock.ahead) of the newest \(clock.rows) registrations lie in the future, up to "
                + "\(clock.farthest / 60_000) minutes: such a row is never stale",
            cure:
                "correct store.active-users.registered-at.zone, or the clock of the program that writes "
                + "it")
    }
}

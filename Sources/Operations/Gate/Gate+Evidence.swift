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
        var pending = 0
        for journal in journals() {
            do throws(JournalFailure) {
                for file in try journal.damagedFiles { addUnreadable(journal.folder.damage(file)) }
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
                if let success = try journal.lastRun("sweep")?.succeeded {
                    successes.append(success)
                }
            } catch {
                addUnreadable("\(error)")
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
        if let recorded = try store.session.lastRecordedRun(of: "sweep") {
            successes.append(recorded)
        }
        noteSweep(successes.max())
    }

    private mutating func addUnreadable(_ message: String) {
        add(
            .unreadableState, .medium, plan.settings.state, message,
            cure: "run: pushsweep check")
    }

    /// The journals of the state folder and its senders.
    private mutating func journals() -> [EvidenceJournal] {
        let state = plan.settings.state
        // A container without a volume has no state yet.
        guard access(state, F_OK) == 0 else { return [] }
        let (folders, unreadable) = SenderFolders.neighbours(in: state)
        if unreadable > 0 {
            addUnreadable("\(unreadable.counting("folder")) of it cannot be read")
        }
        var journals: [EvidenceJournal] = []
        for (folder, _) in folders where folder.hasJournal {
            do throws(JournalFailure) {
                journals.append(try EvidenceJournal(reading: folder))
            } catch {
                addUnreadable("\(error)")
            }
        }
        return journals
    }

    private mutating func noteSweep(_ success: EpochMilliseconds?) {
        let cure = "run a sweep, or check that its timer runs"
        guard let success else {
            add(
                .noRecentSweep, .medium, report.partition,
                "neither this host nor the database knows a sweep that succeeded", cure: cure)
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

    /// Milliseconds by which clocks may differ, and those from which a provider token is refused.
    private static let slack: Int64 = 5_000
    private static let most: Int64 = 300_000

    /// Compares the clock of the database with that of this host, and with the newest registrations.
    mutating func examineClocks(_ store: TokenTable) throws {
        let before = context.now().rawValue
        let theirs = try store.session.databaseTime().rawValue
        let after = context.now().rawValue
        let difference = theirs - (before + (after - before) / 2)
        report.clockDifference = difference
        if abs(difference) > Self.slack + (after - before) / 2 {
            add(
                .clockDifference, abs(difference) > Self.most ? .high : .medium,
                "\(plan.settings.store.location)",
                "the clock of the database is \(abs(difference) / 1_000) s "
                    + (difference > 0 ? "ahead of" : "behind") + " this host's",
                cure: "synchronize both with NTP")
        }
        guard let clock = try store.registrationClock(slack: Self.most), clock.ahead > 0 else {
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

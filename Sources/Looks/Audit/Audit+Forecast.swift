// What a sweep would do now. A dry run of a sweep is the forecast, so that it judges by the rules and
// the guard of a sweep. A dry run writes its record and what it sorts into its state folder. An audit writes
// nothing there and takes no lock, so the dry run works in a temporary folder of this user alone. It needs SELECT
// only. Reports in `pushsweep_evidence` are judged and not taken. What this host has not stored in the database yet,
// lists of gateways and answers of senders, is counted and not judged.
//
// A run that is at work elsewhere holds the lease on the table. What waits then changes under the
// forecast, so none is made, and the report says so.

import APNsProtocol
import Database
import EvidenceJournal
import FoundationEssentials
import Logging
import Operations
import TokenHygiene
import TokenTable

extension Audit {
    /// Judges what waits: in the state folders of this host, in `pushsweep_evidence`, and the rows whose
    /// grace period has ended.
    mutating func forecast() throws {
        do {
            guard try judged() else { return }
            // A journal that cannot be read is a gap already.
            for journal in host.journals {
                for list in journal.lists(in: .pending) {
                    guard let place = place(of: list.partition) else { continue }
                    report.apps[place].forecast.waiting += try journal.journal.folder.counts(
                        of: list
                    )
                    .usable
                }
            }
            // What they would change is known once a run has stored them.
            for (partition, reports) in host.leftReports {
                guard let place = place(of: partition) else { continue }
                report.apps[place].forecast.waiting += reports
            }
            for place in report.apps.indices { report.apps[place].forecast.judged = true }
        } catch {
            if let failure = error as? RunFailure, failure == .stopped { throw failure }
            skip("what a sweep would do", error)
        }
    }

    /// Enters what a dry run says.
    ///
    /// - Returns: false where it is incomplete.
    private mutating func judged() throws -> Bool {
        let folder = try TemporaryState()
        var plan = SweepPlan(settings, .gateways([]), dryRun: true)
        plan.state = folder.path
        plan.pacing.throttle.stopFile = nil
        let outcome = Sweep.run(plan, quiet)
        context.progress.clear()
        if context.interrupt.isTripped { throw stopped() }
        for entry in outcome.report.apps { enter(entry) }
        report.gaps += outcome.failures.map { "what a sweep would do: \($0)" }
        withExtendedLifetime(folder) {}
        return outcome.failures.isEmpty
    }

    /// The context without a log: the report itself says what a sweep would warn of.
    private var quiet: RunContext {
        RunContext(
            now: context.now, interrupt: context.interrupt,
            log: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() },
            progress: context.progress, host: context.host, operator: context.operator)
    }

    private mutating func enter(_ entry: BatchReport) {
        // A list that was held before is among the holds.
        guard entry.state != ListState.held.rawValue,
            let place = place(of: entry.partition)
        else { return }
        guard entry.grace == nil else {
            report.apps[place].forecast.removals += entry.applied
            if entry.gate != nil { report.apps[place].forecast.held = true }
            return
        }
        var forecast = report.apps[place].forecast
        forecast.waiting += entry.tuples - entry.quarantined
        forecast.applied += entry.applied
        forecast.newer += entry.newer
        forecast.unknown += entry.unknown
        if entry.gate != nil { forecast.held = true }
        report.apps[place].forecast = forecast
    }
}

/// A state folder for one dry run, removed with the object. Its mode is 0700, because it holds tokens.
final class TemporaryState {
    let path: String

    init() throws {
        path =
            FileManager.default.temporaryDirectory
            .appendingPathComponent("pushsweep-audit-\(UUIDText.random())").path
        try StateFolder.make(path)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

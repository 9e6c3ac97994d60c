// Every run that reads lists, sends or changes rows opens and closes in the same order:
//
//   1. lock its folder and open the journal there; without them nothing may be read or changed
//   2. write the beginning of the run into the journal, and close the lists that a killed run left
//   3. work
//   4. write the end of the run with its report, then the metrics; delete old lists
//
// A failure in step 3 is part of the record of step 4. A failure in the other steps ends the run,
// and its report is printed all the same.

import APNsProtocol
import Database
import EvidenceJournal
import Findings
import SecureTransport
import TokenHygiene
import TokenTable

/// The locked folder of a run and the journal in it.
struct OpenedJournal {
    /// The folder; the lock ends with it.
    let folder: StateFolder
    let journal: EvidenceJournal
    /// A folder that lives as long as the run: that of a trial.
    var trial: AnyObject?
    /// The file that the run is about, if there is one. It was opened before the lock was taken.
    var given: GivenSource?
}

/// A run with a record in the journal: sweep, replay, release, send, undo.
protocol RecordedRun {
    associatedtype Report: RunReport

    /// The stage of a failure that names none.
    var stage: RunFailure.Stage { get }
    var context: RunContext { get }
    /// Where metrics are written at the end; nil where the settings name no file.
    var metrics: (any JournalPage)? { get }
    var outcome: RunOutcome<Report> { get set }

    /// Locks the folder of the run and opens its journal.
    func openJournal() throws -> OpenedJournal
    /// Does the work between the beginning and the end of the record.
    mutating func work(_ opened: OpenedJournal) throws
    /// Adds what the state folder still has to the outcome.
    mutating func noteWaiting(in journal: EvidenceJournal) throws
}

extension RecordedRun {
    /// Evidence that waits is no concern of this run.
    mutating func noteWaiting(in journal: EvidenceJournal) throws {}

    /// Runs from lock to record, and returns how the run ended.
    mutating func perform() -> RunOutcome<Report> {
        do {
            let opened = try openJournal()
            try perform(opened)
            withExtendedLifetime(opened) {}
        } catch {
            outcome.fail(.wrapping(error, at: .state))
        }
        outcome.stamp(at: context.now())
        return outcome
    }

    private mutating func perform(_ opened: OpenedJournal) throws {
        let journal = opened.journal
        // An undo that continues an earlier one takes its name later.
        let run = outcome.report.run
        for file in try opened.folder.damagedFiles {
            context.log.warning("\(opened.folder.damage(file))")
        }
        try journal.beginRun(
            run, kind: outcome.report.kind, by: context.operator, at: context.now())
        for damage in try journal.folder.recoverLists() {
            outcome.fail(.wrapping(damage, at: .state))
        }
        do {
            try work(opened)
        } catch {
            outcome.fail(.wrapping(error, at: stage))
        }
        context.progress.clear()
        try noteWaiting(in: journal)
        try outcome.noteLeft(in: journal.folder)
        try outcome.record(as: run, in: journal, metrics, at: context.now)
        if !outcome.report.dryRun { try journal.folder.purgeLists(at: context.now()) }
    }

    /// Logs what the database was found to lack at the beginning. `check` warns about the same; a
    /// warning of an hourly run would send a mail every hour.
    func logFindings(_ findings: [Finding]) {
        for finding in findings where finding.severity == .medium {
            context.log.notice("\(finding)")
        }
    }
}

// The lease on the token table for every run that reads gateways or changes rows by plan: sweep,
// replay, release, undo. Senders do not take it. Several senders and a sweep work at the same time by
// design: the row of a batch is the fence between two that judge it, and each row is compared under its lock.
// See docs/internals/decisions.md.

extension TokenTable {
    /// Runs a body under the lease on the token table. The lease is renewed meanwhile and given back
    /// at the end, however the body ends. This run must hold the lock of the state folder. Passing
    /// the lease to the store fences the body's writes. A lease that another run holds is waited for
    /// until the deadline.
    ///
    /// - Throws: exit 4 when another run holds the lease, any failure of the database while the lease
    ///   is taken, and the errors of the body.
    func underLease<Value>(
        run: String, kind: String, in folder: StateFolder, _ context: RunContext,
        until deadline: Deadline = .now, _ body: (Lease) throws -> Value
    ) throws -> Value {
        let applicant = LeaseApplicant(
            kind: kind, run: run, home: try folder.identity(), host: context.host)
        let lease = try RunFailure.at(.store) {
            try context.interrupt.whileLocked(until: deadline) {
                switch try takeLease(applicant) {
                case .taken(let taken): return taken
                case .held(let holder): throw RunFailure(heldBy: holder)
                }
            }
        }
        let keeper = LeaseKeeper(lease, settings)
        defer {
            keeper.stop()
            do {
                try session.giveBack(lease)
            } catch {
                context.log.notice("\(error); it ends by itself in \(lease.seconds) s")
            }
        }
        return try body(lease)
    }

    /// Throws when a run of another host is at work. It is for runs that change nothing, whose
    /// account may not take a lease and perhaps may not read it.
    ///
    /// - Throws: exit 4 when another run holds the lease; any failure of reading.
    func respectLease(in folder: StateFolder) throws {
        guard let holder = try leaseHolder(), holder.home != (try folder.identity()) else { return }
        throw RunFailure(heldBy: holder)
    }
}

extension RunFailure {
    /// The failure for a lease that another run holds.
    fileprivate init(heldBy holder: LeaseHolder) {
        self.init(
            .locked, .store,
            "taking the lease on the token table: held by \(holder); wait for it; where that run is "
                + "dead, the lease ends by itself")
    }
}

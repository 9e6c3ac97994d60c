import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Foundation
import Logging
import SecureTransport
import TokenHygiene

/// What a job needs from the world: the time, a way to be stopped, somewhere to tell its story.
/// Tests give their own.
package struct RunContext: Sendable {
    /// The present time; used for records and for the bounds of evidence, never for deadlines.
    package let now: @Sendable () -> EpochMilliseconds
    /// Tripped when the run shall stop.
    package let interrupt: Interrupt
    /// The story for people, to stderr.
    package let log: Logger
    /// Shows how far a long job is.
    package let progress: any ProgressDisplay
    /// The name of this host, for records.
    package let host: String

    /// Bundles what a job needs.
    package init(
        now: @escaping @Sendable () -> EpochMilliseconds = { .current }, interrupt: Interrupt,
        log: Logger, progress: any ProgressDisplay = NoProgress(),
        host: String = ProcessInfo.processInfo.hostName
    ) {
        self.now = now
        self.interrupt = interrupt
        self.log = log
        self.progress = progress
        self.host = host
    }
}

extension EpochMilliseconds {
    /// The wall clock.
    package static var current: EpochMilliseconds {
        EpochMilliseconds(Int64(Date().timeIntervalSince1970 * 1000))
    }

    /// RFC 3339 in UTC with milliseconds, as reports print it.
    package var rfc3339: String { RFC3339.text(milliseconds: rawValue) }
}

extension StateFolder {
    /// The warning about a journal that was set aside; it comes back until somebody has moved it.
    func damage(_ file: String) -> String {
        "\(path)/\(file) is a damaged journal that was set aside and may hold feeds that were not "
            + "applied; keep it for repair elsewhere, and move it out of this folder"
    }
}

/// Somewhere to show how far a long job is.
package protocol ProgressDisplay: Sendable {
    /// Shows a phrase and a count, with the total where it is known.
    func show(_ phrase: String, _ count: Int, of total: Int?)
    /// Removes what was shown.
    func clear()
}

/// Shows nothing: under cron and in tests.
package struct NoProgress: ProgressDisplay {
    /// Makes the silent display.
    package init() {}
    /// Shows nothing.
    package func show(_ phrase: String, _ count: Int, of total: Int?) {}
    /// Has nothing to remove.
    package func clear() {}
}

extension StorePacing {
    /// The pacing of a run of some kind that begins now: its time budget counts from here, and its
    /// pauses are told to people.
    func began(_ kind: String, _ context: RunContext) -> StorePacing {
        var pacing = self
        pacing.throttle.began = monotonic()
        pacing.throttle.story = { context.log.notice("\(kind) \($0)") }
        return pacing
    }
}

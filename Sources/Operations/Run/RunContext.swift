import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Foundation
import Logging
import SecureTransport
import Synchronization
import TokenHygiene

/// The outside parts that a job uses: the clock, a stop signal, the log and the progress display.
/// Tests pass their own.
package struct RunContext: Sendable {
    /// The present time, for records and for the bounds of evidence, never for deadlines.
    package let now: @Sendable () -> EpochMilliseconds
    /// Tripped when the run must stop.
    package let interrupt: Interrupt
    /// The log for people, to stderr.
    package let log: Logger
    /// Shows the progress of a long job.
    package let progress: any ProgressDisplay
    /// The name of this host, for records.
    package let host: String
    /// The person or service that runs the job, for records.
    package let `operator`: String

    /// Bundles the parts that a job uses.
    package init(
        now: @escaping @Sendable () -> EpochMilliseconds = { .current }, interrupt: Interrupt,
        log: Logger, progress: any ProgressDisplay = NoProgress(),
        host: String = ProcessInfo.processInfo.hostName,
        operator: String = RunOperator.current(ProcessInfo.processInfo.environment).description
    ) {
        self.now = now
        self.interrupt = interrupt
        self.log = log
        self.progress = progress
        self.host = host
        self.operator = `operator`
    }
}

extension RunContext {
    /// The present time in whole seconds, as APNs counts them.
    var seconds: @Sendable () -> EpochSeconds {
        { [now] in EpochSeconds(UInt32(clamping: now().rawValue / 1_000)) }
    }

    /// Milliseconds by which the clocks of two hosts may differ: from there APNs refuses a provider token.
    static let mostClockDifference: Int64 = 300_000

    /// The latest end of a run that this host believes at `now`. After it the clock of another host was
    /// wrong, or this one is.
    static func latestEnd(_ now: EpochMilliseconds) -> EpochMilliseconds {
        now.advanced(by: mostClockDifference)
    }
}

extension EpochMilliseconds {
    /// The time of the wall clock.
    package static var current: EpochMilliseconds {
        EpochMilliseconds(Int64(Date().timeIntervalSince1970 * 1000))
    }

    /// The time in RFC 3339, UTC with milliseconds, as reports print it.
    package var rfc3339: String { RFC3339.text(milliseconds: rawValue) }
}

extension StateFolder {
    /// The warning about a journal that was set aside. Every run repeats it until a person has moved
    /// the file.
    func damage(_ file: String) -> String {
        "\(path)/\(file) is a damaged journal that was set aside and may hold feeds that were not "
            + "applied; keep it for repair elsewhere, and move it out of this folder"
    }
}

/// A display for the progress of a long job.
package protocol ProgressDisplay: Sendable {
    /// Shows a phrase and a count, with the total if it is known.
    func show(_ phrase: String, _ count: Int, of total: Int?)
    /// Removes the phrase and the count.
    func clear()
}

/// A display that shows nothing: under cron and in tests.
package struct NoProgress: ProgressDisplay {
    /// Makes the silent display.
    package init() {}
    /// Does nothing.
    package func show(_ phrase: String, _ count: Int, of total: Int?) {}
    /// Does nothing.
    package func clear() {}
}

extension Pacing {
    /// The pacing of a run of some kind that begins now. Its time budget counts from here, the log
    /// reports its pauses, and a stop signal ends its patience with failures.
    func began(_ kind: String, _ context: RunContext) -> Pacing {
        var pacing = self
        pacing.throttle.began = monotonic()
        pacing.throttle.report = { context.log.notice("\(kind) \($0)") }
        pacing.isStopping = { context.interrupt.isTripped }
        let told = Told()
        pacing.report = { sentence in
            if told.isNew(sentence) { context.log.notice("\(kind) \(sentence)") }
        }
        return pacing
    }
}

/// The sentences that a run has logged, so that several connections do not repeat them.
private final class Told: Sendable {
    private let sentences = Mutex<Set<String>>([])

    func isNew(_ sentence: String) -> Bool {
        sentences.withLock { $0.insert(sentence).inserted }
    }
}

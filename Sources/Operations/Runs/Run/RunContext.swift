import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import FoundationEssentials
import Glibc
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

    /// Milliseconds by which the clocks of two hosts may differ.
    package static let mostClockDifference = EvidenceBounds.lead

    /// The latest end of a run that this host believes at `now`. After it the clock of another host was
    /// wrong, or this one is.
    package static func latestEnd(_ now: EpochMilliseconds) -> EpochMilliseconds {
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
    /// The warning about a file that was set aside. Every run repeats it until a person has moved
    /// the file.
    package func damage(_ file: String) -> String {
        "\(path)/\(file) is damaged and was set aside, and may hold a list that was not "
            + "applied; keep it for repair elsewhere, and move it out of this folder"
    }
}

/// A display for the progress of a long job.
package protocol ProgressDisplay: Sendable {
    /// Shows a phrase and a count, with the total if it is known.
    func show(_ phrase: String, _ count: Int, of total: Int?)
    /// Shows the steps that follow as one count.
    func begin(_ whole: WholeProgress)
    /// Removes the phrase and the count.
    func clear()
}

extension ProgressDisplay {
    /// Shows each step by itself.
    package func begin(_ whole: WholeProgress) {}
}

/// A display that shows nothing: under cron and in tests.
package struct NoProgress: ProgressDisplay {
    package init() {}
    /// Shows nothing.
    package func show(_ phrase: String, _ count: Int, of total: Int?) {}
    /// Has nothing to clear.
    package func clear() {}
}

extension Pacing {
    /// The pacing of a run of some kind that begins now. Its time budget counts from here, the log
    /// reports its pauses, and a stop signal ends its patience with failures.
    package func began(_ kind: String, _ context: RunContext) -> Pacing {
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

/// The person or service that runs the program, for records: `ada as pushsweep on pts/3`,
/// `pushsweep by systemd`, `pushsweep without a terminal`.
package struct RunOperator: Hashable, Sendable, CustomStringConvertible {
    /// The account of the process.
    package let user: String
    /// The account that became this one with sudo; nil where none did.
    package let person: String?
    /// The terminal, such as `pts/3`; nil without one.
    package let terminal: String?
    /// The service manager that started it; nil where none is known.
    package let service: String?

    package init(user: String, person: String?, terminal: String?, service: String?) {
        self.user = user
        self.person = person
        self.terminal = terminal
        self.service = service
    }

    /// The operator of this process. systemd sets `INVOCATION_ID`, which login shells may inherit,
    /// so a terminal counts first.
    package static func current(_ environment: [String: String]) -> RunOperator {
        let account = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) }
        let terminal = (0...2).lazy.compactMap { terminalName(of: $0) }.first
        var service: String?
        if environment["KUBERNETES_SERVICE_HOST"] != nil {
            service = "Kubernetes"
        } else if environment["INVOCATION_ID"] != nil {
            service = "systemd"
        }
        let person = environment["SUDO_USER"]
        return RunOperator(
            user: account ?? "\(geteuid())", person: person?.isEmpty == false ? person : nil,
            terminal: terminal, service: service)
    }

    private static func terminalName(of descriptor: Int32) -> String? {
        var name = [CChar](repeating: 0, count: 256)
        guard isatty(descriptor) == 1, ttyname_r(descriptor, &name, name.count) == 0 else {
            return nil
        }
        let path = String(
            decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return path.hasPrefix("/dev/") ? String(path.dropFirst(5)) : path
    }

    /// The operator in words, at most 200 characters.
    package var description: String {
        var text = person.map { "\($0) as \(user)" } ?? user
        if let terminal {
            text += " on \(terminal)"
        } else if let service {
            text += " by \(service)"
        } else {
            text += " without a terminal"
        }
        return String(text.printable.prefix(200))
    }
}

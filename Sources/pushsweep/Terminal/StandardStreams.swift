import Glibc
import Logging
import Operations
import Synchronization

/// The three streams a process is born with: the result goes to stdout, the story to stderr.
enum StandardStreams {
    /// Whether a person is looking at stdout.
    static var outputIsTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
    /// Whether a person is looking at stderr.
    static var errorIsTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// Opens /dev/null in place of standard streams that the caller closed; otherwise the first
    /// file or socket opened would take their number and receive our messages.
    static func fillGaps() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", O_RDWR)
        }
    }

    /// Set once a result could not be written for another reason than a reader that left.
    static let resultWasLost = Atomic<Bool>(false)

    /// Writes a line to stdout, whatever is in it: a line break is shown by its name. A closed stdout is a
    /// quiet end, not an error; a full disk is one.
    static func result(_ line: String) { result(printed: line.printable) }

    /// Writes lines to stdout.
    static func result(_ lines: [String]) {
        result(printed: lines.map(\.printable).joined(separator: "\n"))
    }

    /// Writes a JSON text to stdout, on one line.
    static func result(json: String) { result(printed: json.printableJSON) }

    private static func result(printed text: String) {
        if !write(text + "\n", to: STDOUT_FILENO) {
            resultWasLost.store(true, ordering: .relaxed)
        }
    }

    /// Writes a line to stderr, whatever is in it.
    static func story(_ line: String) { _ = write(line.printable + "\n", to: STDERR_FILENO) }

    /// Writes over the last line of a terminal; nothing but removes it.
    static func rewrite(_ line: String) {
        _ = write("\r\u{1B}[K\(line.printable)", to: STDERR_FILENO)
    }

    /// Writes text whole; false where it could not, unless the reader has left.
    private static func write(_ text: String, to descriptor: Int32) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return errno == EPIPE }
            rest = rest.dropFirst(written)
        }
        return true
    }
}

/// Prints log messages as plain lines: `pushsweep: warning: ...`.
struct StoryLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let values = metadata.merging(event.metadata ?? [:]) { $1 }
            .sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        let level = event.level == .notice ? "" : "\(event.level): "
        StandardStreams.story("pushsweep: \(level)\(event.message)\(values)")
    }

    /// The story of a run: everything with `verbose`, notices for a person, else only what needs
    /// attention, since cron mails every line.
    static func logger(verbose: Bool) -> Logger {
        let level: Logger.Level =
            verbose ? .debug : StandardStreams.errorIsTerminal ? .notice : .warning
        return Logger(label: "pushsweep") { _ in StoryLogHandler(logLevel: level) }
    }
}

/// One line on a terminal that is written over as a job goes on.
final class TerminalProgress: ProgressDisplay {
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    func show(_ phrase: String, _ count: Int, of total: Int?) {
        let isDue = last.withLock { last in
            let now = ContinuousClock.now
            if let last, now - last < .milliseconds(100) { return false }
            last = now
            return true
        }
        guard isDue else { return }
        let share = total.flatMap { $0 > 0 ? " of \($0) (\(count * 100 / $0) %)" : nil } ?? ""
        StandardStreams.rewrite("\(phrase): \(count)\(share)")
    }

    func clear() {
        let wasShown = last.withLock { last in
            defer { last = nil }
            return last != nil
        }
        if wasShown { StandardStreams.rewrite("") }
    }
}

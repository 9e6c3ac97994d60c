import Encodings
import Glibc
import Logging
import Operations
import SecureTransport
import Synchronization

/// The three standard streams: the result goes to stdout, messages go to stderr.
enum StandardStreams {
    /// Whether stdout is a terminal.
    static var outputIsTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
    /// The columns of stdout; nil where it is no terminal.
    static var resultColumns: Int? { outputIsTerminal ? columns(of: STDOUT_FILENO) : nil }
    /// Whether stderr is a terminal.
    static var errorIsTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// Whether a person can be asked: question and answer go by a terminal.
    static var canAsk: Bool { isatty(STDIN_FILENO) == 1 && errorIsTerminal }

    /// Asks a person, and waits for a line. Only `y` and `yes` agree; a stop signal does not.
    static func agrees(to question: String, _ interrupt: Interrupt) -> Bool {
        _ = write(question, to: STDERR_FILENO)
        guard
            case .ready = Poll.wait(
                STDIN_FILENO, for: .reading, deadline: .never, interrupt: interrupt)
        else {
            _ = write("\n", to: STDERR_FILENO)
            return false
        }
        return ["y", "yes"].contains(readLine()?.lowercased())
    }

    /// Opens /dev/null in place of standard streams that the caller closed. Otherwise the first
    /// opened file or socket would get their number and receive our messages.
    static func fillGaps() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", O_RDWR)
        }
    }

    /// Set when a result could not be written, except when its reader closed the stream.
    static let resultWasLost = Atomic<Bool>(false)

    /// Set when the reader of stdout has closed it.
    private static let readerIsGone = Atomic<Bool>(false)

    /// Whether more output still reaches a reader or a file.
    static var resultIsRead: Bool {
        !readerIsGone.load(ordering: .relaxed) && !resultWasLost.load(ordering: .relaxed)
    }

    /// Writes one line to stdout with its control characters escaped, so that a line break is
    /// printed as `\n`. A closed stdout is not an error; a full disk is one.
    static func result(_ line: String) { result(printed: line.printable) }

    /// Writes lines to stdout.
    static func result(_ lines: [String]) {
        result(printed: lines.map(\.printable).joined(separator: "\n"))
    }

    /// Writes the lines of a report to stdout, at a terminal as a person reads them.
    static func result(report: some PrintedLines) {
        show(report.lines, type(of: report).form)
    }

    /// Writes lines for people to stdout, at a terminal broken at its width.
    static func show(_ lines: [String], _ form: PrintedForm = .words) {
        let style = style(of: STDOUT_FILENO)
        let rows = lines.flatMap { style.rows($0.printable, form) }
        result(whole: rows.map { $0 + "\n" }.joined())
    }

    /// Writes a value to stdout as JSON, on one line, with the version of its form.
    static func result(document value: some Encodable) {
        result(printed: value.documentLine.printableJSON)
    }

    private static func result(printed text: String) { result(whole: text + "\n") }

    /// Writes whole lines to stdout, which have no control characters besides their line breaks.
    static func result(whole lines: String) {
        if !write(lines, to: STDOUT_FILENO) {
            resultWasLost.store(true, ordering: .relaxed)
        }
    }

    /// Writes bytes of an input to stdout as they are.
    static func result(bytes: UnsafeRawBufferPointer) {
        if !write(bytes, to: STDOUT_FILENO) { resultWasLost.store(true, ordering: .relaxed) }
    }

    /// The closing line of the command, which is the last of stderr.
    static let closing = Mutex<ClosingLine?>(nil)

    /// Keeps the closing line until the command ends; nil after success.
    static func close(with line: ClosingLine?) { closing.withLock { $0 = line } }

    /// Writes one line to stderr with its control characters escaped, at a terminal broken at its width.
    static func message(_ line: String, _ form: PrintedForm = .words) {
        let rows = style(of: STDERR_FILENO).rows(line.printable, form)
        _ = write(rows.map { $0 + "\n" }.joined(), to: STDERR_FILENO)
    }

    /// Writes the closing line to stderr, which scripts read.
    static func message(_ closing: ClosingLine) { _ = write("\(closing)\n", to: STDERR_FILENO) }

    /// What `--color` says.
    static let colour = Mutex(ColourChoice.auto)

    private static func style(of descriptor: Int32) -> TerminalStyle {
        func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
        let isTerminal = isatty(descriptor) == 1
        let choice = colour.withLock { $0 }
        return TerminalStyle(
            columns: isTerminal ? columns(of: descriptor) : nil,
            isColoured: choice.allows(
                isTerminal: isTerminal, noColor: variable("NO_COLOR"), term: variable("TERM")))
    }

    /// The columns for a line: one less than the terminal has, since some wrap after the last. A
    /// terminal that does not know its width (0, as behind some pipes) counts as one of 80.
    static func columns(of descriptor: Int32) -> Int {
        var size = winsize()
        let isKnown = ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        return max(1, (isKnown ? Int(size.ws_col) : 80) - 1)
    }

    /// Replaces the last line of a terminal. An empty text removes it.
    static func rewrite(_ line: String) {
        _ = write("\r\u{1B}[K\(line.printable)", to: STDERR_FILENO)
    }

    /// Writes the whole text; false when that failed, unless the reader has closed the stream.
    private static func write(_ text: String, to descriptor: Int32) -> Bool {
        var text = text
        return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let written = Glibc.write(descriptor, rest.baseAddress, rest.count)
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else {
                if errno == EPIPE && descriptor == STDOUT_FILENO {
                    readerIsGone.store(true, ordering: .relaxed)
                    return true
                }
                return errno == EPIPE
            }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(written))
        }
        return true
    }
}

/// Prints log messages as plain lines: `pushsweep: warning: ...`.
struct MessageLogHandler: LogHandler {
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
        StandardStreams.message("pushsweep: \(level)\(event.message)\(values)")
    }

    /// The log of a run: all messages with `verbose`, notices and above on a terminal, else only
    /// warnings and errors, since cron mails every line.
    static func logger(verbose: Bool) -> Logger {
        let level: Logger.Level =
            verbose ? .debug : StandardStreams.errorIsTerminal ? .notice : .warning
        return Logger(label: "pushsweep") { _ in MessageLogHandler(logLevel: level) }
    }
}

/// One line on a terminal that is replaced while a job makes progress. It never wraps, because only
/// its last row would be replaced then.
final class TerminalProgress: ProgressDisplay {
    private struct State {
        var meter = ProgressMeter()
        var whole: WholeProgress?
        var shown: Duration?
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now

    func show(_ phrase: String, _ count: Int, of total: Int?) {
        let line = state.withLock { state -> ProgressLine? in
            let now = ContinuousClock.now - start
            if let shown = state.shown, now - shown < .milliseconds(100) { return nil }
            state.shown = now
            if let done = state.whole?.count(phrase, count, of: total), let whole = state.whole {
                return state.meter.line(whole.phrase, done, of: whole.size, at: now)
            }
            return state.meter.line(phrase, count, of: total, at: now)
        }
        guard let line else { return }
        StandardStreams.rewrite(line.text(columns: StandardStreams.columns(of: STDERR_FILENO)))
    }

    func begin(_ whole: WholeProgress) { state.withLock { $0.whole = whole } }

    func clear() {
        let wasShown = state.withLock { state in
            // The steps of a whole go on, at its pace.
            defer { if state.whole == nil { state = State() } else { state.shown = nil } }
            return state.shown != nil
        }
        if wasShown { StandardStreams.rewrite("") }
    }
}

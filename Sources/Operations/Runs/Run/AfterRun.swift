// The command of the settings that is run after each run, such as a ping or a chat message. It can
// only inform: the record is written, locks and lease are given up, and whatever the command does,
// the exit code and the report of the run stay.
//
// The report is in a file in memory and not in a pipe. So a command that reads none of it, or only
// a part, neither blocks this process nor ends it by SIGPIPE. stderr is a pipe, for the last line
// in the warning. Only the end of the shell counts, and not the end of the pipe, because a process
// in the background may keep the pipe open.

import Encodings
import FoundationEssentials
import Glibc
import SecureTransport
import Settings

/// Runs the command of `hooks.after-run`.
package struct AfterRun {
    /// The time for the command once the run was told to stop. A service manager ends a service
    /// that takes longer.
    private static let longestShutdown = Duration.seconds(4)
    /// Milliseconds between two looks whether the shell has ended.
    private static let pause: Int32 = 10
    /// Most bytes of stderr that are kept, for the last line.
    private static let longestTail = 1_000

    private let command: String
    private let timeout: Duration
    private let environment: [String: String]

    /// Takes the command from the settings; nil when they name none. It is nil also in a process
    /// that such a command started, since the command would start itself again and again.
    package init?(
        _ settings: Settings,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        guard let command = settings.hooks.afterRun,
            environment[HookVariable.kind.rawValue] == nil
        else { return nil }
        self.command = command
        self.timeout = settings.hooks.timeout
        self.environment = Settings.withoutSecrets(environment)
    }

    /// Runs the command about a run that has ended, unless it was a dry run, with the facts of the run in
    /// its environment and the report on its standard input. Waits for the shell at most for the time of
    /// the settings, then kills its process group. A failure of the command is one warning.
    package func inform<Report>(_ outcome: RunOutcome<Report>, _ context: RunContext) {
        let report = outcome.report
        guard !report.dryRun else { return }
        var variables = environment
        variables[HookVariable.exit.rawValue] = String(outcome.exit.rawValue)
        variables[HookVariable.kind.rawValue] = report.kind
        variables[HookVariable.run.rawValue] = report.run.isEmpty ? nil : report.run
        let shell = HookShell(
            command: command, environment: variables,
            input: Array((report.documentLine + "\n").utf8))
        guard let fault = shell.run(until: .in(timeout), shutdown: Self.longestShutdown, context)
        else { return }
        context.log.warning(
            "running the command of hooks.after-run: \(fault); the run itself is complete")
    }

    /// One shell with the command, from its start to its end.
    private struct HookShell {
        let command: String
        let environment: [String: String]
        let input: [UInt8]

        /// Runs the shell to its end; a clause about its failure, or nil.
        func run(
            until deadline: Deadline, shutdown: Duration, _ context: RunContext
        ) -> String? {
            var ends: [Int32] = [-1, -1]
            guard let file = memoryFile(input) else { return "no memory for the report" }
            defer { close(file) }
            guard pipe(&ends) == 0 else { return "no pipe: \(Self.sentence(errno))" }
            defer { close(ends[0]) }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
            var child = pid_t()
            let result = start(&child, input: file, errors: ends[1])
            close(ends[1])
            guard result == 0 else { return "starting /bin/sh: \(Self.sentence(result))" }

            var tail: [UInt8] = []
            var deadline = deadline
            var wasStopped = false
            while true {
                let end = Self.end(of: child)
                Self.read(ends[0], into: &tail)
                if let end { return Self.fault(end, tail) }
                if context.interrupt.isTripped && !wasStopped {
                    wasStopped = true
                    deadline = min(deadline, .in(shutdown))
                }
                guard !deadline.hasPassed else { break }
                _ = poll(nil, 0, AfterRun.pause)
            }
            // The shell is not reaped yet, so no other group has its number.
            kill(-child, SIGKILL)
            while Self.end(of: child) == nil { _ = poll(nil, 0, AfterRun.pause) }
            return wasStopped
                ? "this process was told to stop, so the command was killed"
                : "it was not done in the time of hooks.timeout and was killed; make it faster, "
                    + "raise hooks.timeout, or let it work in the background"
        }

        /// Starts the shell in a process group of its own, without open files of this process.
        private func start(_ child: inout pid_t, input: Int32, errors: Int32) -> Int32 {
            var actions = posix_spawn_file_actions_t()
            posix_spawn_file_actions_init(&actions)
            defer { posix_spawn_file_actions_destroy(&actions) }
            posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
            posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO)
            closeOtherFiles(&actions)

            var attributes = posix_spawnattr_t()
            posix_spawnattr_init(&attributes)
            defer { posix_spawnattr_destroy(&attributes) }
            // Ignored signals stay ignored in a child, and tools rely on SIGPIPE.
            var signals = sigset_t()
            sigemptyset(&signals)
            posix_spawnattr_setsigmask(&attributes, &signals)
            for number in [SIGPIPE, SIGXFSZ, SIGCHLD] { sigaddset(&signals, number) }
            posix_spawnattr_setsigdefault(&attributes, &signals)
            posix_spawnattr_setpgroup(&attributes, 0)
            posix_spawnattr_setflags(
                &attributes,
                Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))

            // Where the caller ignores SIGCHLD, the kernel forgets how a child ended.
            signal(SIGCHLD, SIG_DFL)
            let words = Self.list(["/bin/sh", "-c", command])
            let variables = Self.list(environment.map { "\($0.key)=\($0.value)" })
            defer { for text in words + variables { free(text) } }
            return posix_spawn(&child, "/bin/sh", &actions, &attributes, words, variables)
        }

        /// Texts as execve(2) takes them; the caller frees each.
        private static func list(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
            texts.map { strdup($0) } + [nil]
        }

        /// How the process ended, as waitpid(2) codes it; nil while it runs.
        private static func end(of child: pid_t) -> Int32? {
            var status: Int32 = 0
            let result = waitpid(child, &status, WNOHANG)
            if result == child { return status }
            return result < 0 && errno != EINTR ? 0 : nil
        }

        /// Reads what is there now, and keeps the end of it.
        private static func read(_ descriptor: Int32, into tail: inout [UInt8]) {
            var buffer = [UInt8](repeating: 0, count: 4_096)
            // A command that never stops printing must not keep this loop from its deadline.
            for _ in 0..<16 {
                let count = Glibc.read(descriptor, &buffer, buffer.count)
                guard count > 0 else { return }
                tail = (tail + buffer[..<count]).suffix(AfterRun.longestTail)
            }
        }

        private static func fault(_ status: Int32, _ tail: [UInt8]) -> String? {
            guard status != 0 else { return nil }
            let signal = status & 0x7F
            let end =
                signal == 0
                ? "it ended with \(status >> 8 & 0xFF)" : "it was ended by signal \(signal)"
            let line = String(decoding: tail, as: UTF8.self).split(separator: "\n").last ?? ""
            return line.isEmpty ? end : "\(end): \(line.suffix(200))"
        }

        private static func sentence(_ code: Int32) -> String {
            String(cString: strerror(code)).lowercased()
        }
    }
}

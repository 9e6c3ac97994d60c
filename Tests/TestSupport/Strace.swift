import Foundation

/// Commands of strace(1) that end a program at a chosen system call, or make the call fail. The
/// program's own words follow each command.
///
/// strace counts the calls of each thread separately.
package enum Strace {
    /// Whether strace is installed and this process may trace its children.
    package static let isUsable: Bool = {
        let program = ForeignProgram.strace
        guard program.isInstalled else { return false }
        return (try? program.run(["-f", "-qq", "/bin/true"]).exit) == 0
    }()

    /// The message of tests that are skipped without strace.
    package static let absence =
        "strace is missing or may not trace here: run scripts/bootstrap --tests, allow ptrace"

    /// The command that records calls into a file: all, or those about one of the paths.
    package static func recording(
        _ calls: some Sequence<String>, into file: String, at paths: [String] = []
    ) -> [String] {
        command(calls, into: file) + paths.flatMap { ["-P", $0] }
    }

    /// The command that ends the program with SIGKILL in place of the call, counted from 1: of all, or of
    /// those about one of the paths.
    package static func killing(
        at call: String, _ number: Int, at paths: [String] = []
    ) -> [String] {
        command([call]) + paths.flatMap { ["-P", $0] } + [
            "-e", "inject=\(call):signal=KILL:when=\(number)",
        ]
    }

    /// The command that makes a call fail, from one occurrence on to the end of the program or only
    /// this once. With paths given, only calls about one of them fail.
    package static func failing(
        _ call: String, with error: String, from number: Int, once: Bool = false,
        at paths: [String] = []
    ) -> [String] {
        command([call]) + paths.flatMap { ["-P", $0] }
            + ["-e", "inject=\(call):error=\(error):when=\(number)\(once ? "" : "+")"]
    }

    private static func command(
        _ calls: some Sequence<String>, into file: String = "/dev/null"
    ) -> [String] {
        [ForeignProgram.strace.rawValue, "-f", "-qq", "-o", file]
            + ["-e", "signal=none", "-e", "trace=" + calls.joined(separator: ",")]
    }

    /// The number of each recorded call by name, for the thread that made it most often.
    package static func counts(in file: String) throws -> [String: Int] {
        var threads: [Substring: Int] = [:]
        var counts: [String: Int] = [:]
        // A line is `1234  openat(AT_FDCWD, ...`. A call that another thread's call interrupted has
        // a second line, marked as resumed.
        for line in try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n") {
            guard let call = line.prefixMatch(of: /\d+ +(\w+)\(/) else { continue }
            let number = threads[call.output.0, default: 0] + 1
            threads[call.output.0] = number
            counts[String(call.output.1)] = max(counts[String(call.output.1)] ?? 0, number)
        }
        return counts
    }
}

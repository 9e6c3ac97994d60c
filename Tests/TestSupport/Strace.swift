import Foundation

/// strace(1) as the one who ends a program at a chosen system call, or lets the call fail. Each of the
/// commands is to be followed by the program's own words.
///
/// Calls are counted for each thread by itself, which is how strace counts.
package enum Strace {
    /// Whether it is installed and this process may trace its children.
    package static let isUsable: Bool = {
        let program = ForeignProgram.strace
        guard program.isInstalled else { return false }
        return (try? program.run(["-f", "-qq", "/bin/true"]).exit) == 0
    }()

    /// Said by tests that are skipped.
    package static let absence =
        "strace is missing or may not trace here: run scripts/bootstrap --tests, allow ptrace"

    /// The command that writes calls into a file: all, or those about one of the paths.
    package static func recording(
        _ calls: some Sequence<String>, into file: String, at paths: [String] = []
    ) -> [String] {
        command(calls, into: file) + paths.flatMap { ["-P", $0] }
    }

    /// The command that ends the program with SIGKILL in place of the call, counted from 1.
    package static func killing(at call: String, _ number: Int) -> [String] {
        command([call]) + ["-e", "inject=\(call):signal=KILL:when=\(number)"]
    }

    /// The command that lets a call fail, from one occurrence on to the end of the program or this
    /// once, and only where it is about one of the paths, if any are given.
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

    /// How often the busiest thread made each of the recorded calls, by name.
    package static func counts(in file: String) throws -> [String: Int] {
        var threads: [Substring: Int] = [:]
        var counts: [String: Int] = [:]
        // `1234  openat(AT_FDCWD, ...`; a call that was interrupted by another's comes again as resumed.
        for line in try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n") {
            guard let call = line.prefixMatch(of: /\d+ +(\w+)\(/) else { continue }
            let number = threads[call.output.0, default: 0] + 1
            threads[call.output.0] = number
            counts[String(call.output.1)] = max(counts[String(call.output.1)] ?? 0, number)
        }
        return counts
    }
}

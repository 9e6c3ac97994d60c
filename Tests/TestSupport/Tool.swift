import Foundation

/// The result of a finished program: its exit code and its output.
package struct ToolResult: Sendable {
    /// The exit code, or 128 plus the number of the signal that ended the program.
    package let exit: Int32
    /// All text on stdout.
    package let output: String
    /// All text on stderr.
    package let error: String

    /// A result of a job that ran in this process.
    package init(exit: Int32, output: String, error: String) {
        (self.exit, self.output, self.error) = (exit, output, error)
    }

    /// The last line of stdout as a JSON object.
    package var json: [String: Any] {
        let line = output.split(separator: "\n").last.map(String.init) ?? ""
        return (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any] ?? [:]
    }

    /// One of the objects in `apps` of a sweep's JSON.
    package func app(_ index: Int = 0) -> [String: Any] {
        let apps = json["apps"] as? [[String: Any]] ?? []
        return index < apps.count ? apps[index] : [:]
    }

    /// The last line of stderr.
    package var closingLine: String {
        error.split(separator: "\n").last.map(String.init) ?? ""
    }
}

/// A program that is running.
package final class RunningTool: @unchecked Sendable {
    // Foundation's Process is thread-safe for the calls made here: pid, wait, status.
    private let process = Process()
    private let folder: TemporaryFolder
    /// The command line after the program's name; empty for a program that is not `pushsweep`.
    private let words: [String]

    /// Starts a program built beside the tests, with exactly the given environment and the
    /// sanitizer's options. A command given gets the program as its last words.
    package convenience init(
        _ name: String, _ arguments: [String], environment: [String: String] = [:],
        under command: [String] = []
    ) throws {
        let words = command + [Self.folderOfTests.appendingPathComponent(name).path] + arguments
        try self.init(
            program: URL(fileURLWithPath: words[0]), Array(words.dropFirst()),
            environment: environment, printing: name == "pushsweep" ? arguments : [])
    }

    /// Starts any program, with exactly the given environment and the sanitizer's options. Words are
    /// those of the command whose documents it prints.
    package init(
        program: URL, _ arguments: [String], environment: [String: String] = [:],
        printing words: [String] = []
    ) throws {
        self.words = words
        folder = try TemporaryFolder()
        process.executableURL = program
        process.arguments = arguments
        let sanitizer = ProcessInfo.processInfo.environment.filter {
            ["ASAN_OPTIONS", "TSAN_OPTIONS"].contains($0.key)
        }
        process.environment = environment.merging([
            "PATH": "/usr/bin:/bin", "HOME": folder.path, "SWIFT_BACKTRACE": "enable=no",
        ]) { given, _ in given }.merging(sanitizer) { given, _ in given }
        for (file, isOutput) in [("out", true), ("err", false)] {
            let path = try folder.write(file, "")
            let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
            if isOutput {
                process.standardOutput = handle
            } else {
                process.standardError = handle
            }
        }
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    /// The folder with the programs of this build.
    package static var folderOfTests: URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent()
    }

    /// The process number.
    package var pid: Int32 { process.processIdentifier }

    /// Sends a signal to the process.
    package func signal(_ number: Int32) { kill(pid, number) }

    /// Waits until stderr has a text; false when it has not within 20 seconds or before the end.
    package func awaitError(_ text: String) -> Bool {
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline {
            let isOver = !process.isRunning
            if errorSoFar.contains(text) { return true }
            if isOver { return false }
            usleep(5_000)
        }
        return false
    }

    /// What the program has written to stderr.
    package var errorSoFar: String { text("err") }

    /// Waits for the first whole line on stdout; nil when the program ends without one.
    package func firstLine() -> String? {
        while true {
            let isOver = !process.isRunning
            let output = text("out")
            if let end = output.firstIndex(of: "\n") { return String(output[..<end]) }
            if isOver { return nil }
            usleep(5_000)
        }
    }

    /// Waits for the end and returns the exit code and the output.
    package func wait() -> ToolResult {
        process.waitUntilExit()
        let signalled = process.terminationReason == .uncaughtSignal
        let output = text("out")
        PrintedDocuments.keep(output, of: words)
        return ToolResult(
            exit: process.terminationStatus + (signalled ? 128 : 0),
            output: output, error: text("err"))
    }

    private func text(_ file: String) -> String {
        let data = try? Data(contentsOf: URL(fileURLWithPath: folder.file(file)))
        return String(decoding: data ?? Data(), as: UTF8.self)
    }
}

/// Runs programs of this package as a user would.
package enum Tool {
    /// Runs `pushsweep` to its end.
    package static func pushsweep(
        _ arguments: String..., environment: [String: String] = [:]
    ) throws -> ToolResult {
        try RunningTool("pushsweep", arguments, environment: environment).wait()
    }
}

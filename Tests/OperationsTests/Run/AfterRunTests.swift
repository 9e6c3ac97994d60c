import APNsProtocol
import Foundation
import Glibc
import Logging
import Operations
import SecureTransport
import Settings
import TestSupport
import Testing

@Suite("A command after a run")
struct AfterRunTests {
    /// Informs a command of a script, which may use `$out`, a file. Returns the warnings and what the
    /// script wrote.
    private static func inform(
        _ script: String, command: String? = nil, timeout: String = "10s", report: String = ""
    ) throws -> (warnings: String, out: String) {
        let stage = try SweepStage()
        let out = stage.folder.file("out")
        let path = try stage.folder.write("hook", "out=\(out)\n\(script)\n")
        stage.lines.limits = "hooks: {after-run: \(command ?? "sh \(path)"), timeout: \(timeout)}"
        let hook = try #require(AfterRun(stage.loaded(), environment: ["PATH": "/usr/bin:/bin"]))
        let heard = HeardWords()
        let context = RunContext(
            interrupt: try Interrupt(),
            log: Logger(label: "test") { _ in HeardWords.Handler(heard: heard) })
        var document = SweepReport(
            run: "r", kind: "sweep", dryRun: false, started: EpochMilliseconds(0))
        document.reason = report
        hook.inform(RunOutcome(report: document), context)
        return (heard.all, (try? String(contentsOfFile: out, encoding: .utf8)) ?? "")
    }

    @Test("a command that fails is one warning with its last line, escaped")
    func fault() throws {
        let failed = try Self.inform("cat; echo first >&2; printf 'last\\033[0m' >&2; exit 3")
        #expect(failed.warnings.contains("it ended with 3: last"), "\(failed.warnings)")
        #expect(!failed.warnings.contains("first") && !failed.warnings.contains("\n"))
        #expect(
            try Self.inform("", command: "kill -9 $$").warnings.contains(
                "it was ended by signal 9; "))
    }

    @Test("a command that takes too long is killed with all that it started")
    func slow() throws {
        let (warnings, out) = try Self.inform(
            "sleep 600 & echo $! > $out; yes >&2 & echo $! >> $out; trap '' TERM; wait",
            timeout: "300ms")
        #expect(warnings.contains("hooks.timeout and was killed"), "\(warnings)")
        let started = out.split(separator: "\n").compactMap { Int32($0) }
        #expect(started.count == 2)
        for process in started {
            // A zombie that nobody reaps has ended.
            let isGone = eventually(seconds: 20) {
                let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
                return stat.map { $0.split(separator: ")").last?.hasPrefix(" Z") == true } ?? true
            }
            #expect(isGone)
        }
    }

    @Test("a child in the background that keeps the streams does not hold the run up")
    func background() throws {
        let (warnings, out) = try Self.inform("sleep 600 & echo $! > $out", timeout: "1h")
        #expect(warnings.isEmpty, "\(warnings)")
        #expect(kill(try #require(Int32(out.dropLast())), SIGKILL) == 0)
    }

    @Test(
        "a report larger than a pipe harms nobody, however much of it the command reads",
        arguments: ["true", "head -c 1 > $out", "exec <&-", "cat | wc -c > $out"])
    func large(_ script: String) throws {
        let (warnings, out) = try Self.inform(
            script, report: String(repeating: "x", count: 1 << 20))
        #expect(warnings.isEmpty, "\(warnings)")
        if script.contains("wc") {
            let size = try #require(Int(out.trimmingCharacters(in: .whitespacesAndNewlines)))
            #expect(size > 1 << 20)
        }
    }
}

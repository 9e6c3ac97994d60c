// The caller decides where the output of a sweep goes: to a full disk, to a reader that has left,
// nowhere. The rows are correct in any case. No file of ours gets the number of a stream that the
// caller had closed, because the next message would be written into it.

import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("A command that cannot write its output")
struct OutputTests {
    /// A way of losing output.
    enum Loss: String, CaseIterable, Sendable {
        case outputFull = "exec \"$@\" >/dev/full"
        case errorFull = "exec \"$@\" 2>/dev/full"
        case bothFull = "exec \"$@\" >/dev/full 2>&1"
        case outputClosed = "exec \"$@\" >&-"
        case errorClosed = "exec \"$@\" 2>&-"
        case allClosed = "exec \"$@\" <&- >&- 2>&-"
        // The reader has left before the program begins.
        case outputLeft = "exec 3> >(exec true); wait $!; exec \"$@\" >&3 3>&-"
        case errorLeft = "exec 3> >(exec true); wait $!; exec \"$@\" 2>&3 3>&-"
        case bothLeft = "exec 3> >(exec true); wait $!; exec \"$@\" >&3 2>&3 3>&-"

        /// Whether a result is lost that a reader still expected.
        var losesResult: Bool { self == .outputFull || self == .bothFull }

        var command: [String] { ["/bin/bash", "-c", rawValue, "bash"] }
    }

    @Test(
        "a sweep applies the feed all the same, and ends with 73 because its result was lost",
        arguments: Loss.allCases)
    func sweep(_ loss: Loss) throws {
        var random = SeededGenerator("output: \(loss)")
        let sweep = try MixedSweep.inTwoPieces(.sqlite, random: &random)
        let result = try sweep.stage.run(
            ["sweep", "--format", "json", "--verbose"], under: loss.command
        ).ends((loss.losesResult ? 73 : 0))
        if loss == .outputFull {
            result.says("writing the result to stdout", "code=73 stage=report ")
        }
        #expect(try sweep.wrongEnd(after: sweep.feed.count * 38) == nil)
        #expect(try sweep.recover() == nil)
    }

    @Test(
        "a command keeps its exit code, or ends with 73 where a result was lost",
        arguments: [["check"], ["send", "--verbose"], ["sweep", "--app", "nobody"]])
    func others(_ command: [String]) throws {
        let stage = try SendStage()
        let usual = try stage.run(command)
        for loss in [Loss.bothFull, .allClosed, .bothLeft] {
            let result = try stage.run(command, under: loss.command)
            let isLost = loss.losesResult && !usual.output.isEmpty
            result.ends((isLost ? 73 : usual.exit), for: "\(command) \(loss)")
        }
        // The summary is the last line, also behind the message about stdout.
        let full = try stage.run(command, under: Loss.outputFull.command)
        #expect(full.exit == 0 || full.closingLine.hasPrefix("code=\(full.exit) "), "\(full.error)")
    }

    @Test("no file of the program gets the descriptor number of a closed stream")
    func numbers() throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        var random = SeededGenerator("closed streams")
        let sweep = try MixedSweep(.sqlite, count: 20, behaviour: behaviour, random: &random)
        sweep.stage.lines.feedbackOptions = "idle-timeout: 60s"
        let run = try sweep.stage.start(["sweep"], under: Loss.allClosed.command)
        #expect(sweep.stage.awaitJournal())
        for number in 0...2 {
            let file = try FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/\(run.pid)/fd/\(number)")
            #expect(file == "/dev/null")
        }
        run.signal(SIGTERM)
        #expect(run.wait().exit == 75)
        sweep.stage.lines.feedbackOptions = "idle-timeout: 200ms"
        #expect(try sweep.recover() == nil)
    }
}

import ArgumentParser
import Encodings
import Foundation
import Logging
import Operations
import SecureTransport

/// How a result is printed.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}

/// The options that every subcommand knows.
struct CommonOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "The settings file; else $PUSHSWEEP_CONFIG, else /etc/pushsweep/pushsweep.yaml.",
            valueName: "file"))
    var config: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Print the result as text or as one JSON object per line.", valueName: "text|json"))
    var format = OutputFormat.text

    @Flag(name: .long, help: "Tell the story in detail on stderr, and the result on success too.")
    var verbose = false

    /// The settings that apply.
    func settings() throws -> Settings {
        do {
            return try Settings.load(
                configFile: config, environment: ProcessInfo.processInfo.environment)
        } catch {
            throw RunFailure.wrapping(error, at: .settings)
        }
    }

    /// What a job needs from the world.
    func context() throws -> RunContext {
        StandardStreams.fillGaps()
        ignoreBrokenPipes()
        try Limits.ensure()
        return RunContext(
            interrupt: try StopSignals.install(), log: StoryLogHandler.logger(verbose: verbose),
            progress: StandardStreams.errorIsTerminal ? TerminalProgress() : NoProgress())
    }

    /// Runs a job and ends the process with its exit code; a failure that keeps the job from
    /// starting is told in the same way.
    func finish(_ job: (RunContext) throws -> ExitStatus) throws -> Never {
        var code: ExitStatus
        do {
            code = try job(try context())
            if StandardStreams.resultWasLost.load(ordering: .relaxed) {
                StandardStreams.story(
                    "pushsweep: error: writing the result to stdout failed; what the run did "
                        + "stands, see its record in the state folder")
                code = .worse(code, .cannotCreate)
            }
        } catch {
            let failure = RunFailure.wrapping(error, at: .settings)
            for (number, sentence) in failure.sentences.enumerated() {
                StandardStreams.story((number == 0 ? "pushsweep: error: " : "") + sentence)
            }
            StandardStreams.story(
                ClosingCounts().closingLine(
                    failure.exit, stage: failure.stage.rawValue, why: failure.reason))
            code = failure.exit
        }
        throw ArgumentParser.ExitCode(code.rawValue)
    }

    /// Prints a result as text or as JSON.
    func print(_ report: some PrintedLines & Encodable) {
        switch format {
        case .json: StandardStreams.result(json: report.jsonLine)
        case .text: StandardStreams.result(report.lines)
        }
    }

    /// Prints what a run ended with: the result, which people get to see where it `isWanted`, somebody
    /// looks or something is to be done; the failures; the closing line. Returns the exit code.
    func print<Report>(
        _ outcome: RunOutcome<Report>, _ context: RunContext, isWanted: Bool = false
    ) -> ExitStatus {
        switch format {
        case .json: StandardStreams.result(json: outcome.report.jsonLine)
        case .text:
            if isWanted || verbose || StandardStreams.outputIsTerminal || outcome.exit != .done {
                StandardStreams.result(outcome.report.lines)
            }
        }
        for failure in outcome.failures { context.log.error("\(failure)") }
        if let line = outcome.closingLine { StandardStreams.story(line) }
        return outcome.exit
    }
}

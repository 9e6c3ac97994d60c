import ArgumentParser
import Glibc
import Operations
import Settings

/// `pushsweep check`: tests what a sweep or a sender needs, and changes no feed and no row.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Examine settings, certificates, state and database; print the exact GRANTs.",
        discussion: """
            Shows every setting with its origin, the client certificates with their end, token \
            keys, waiting feeds, and whether the database fits: encryption, layout, rights, \
            spelling of the stored tokens, and the queue where an app has a provider. Changes no \
            row and never connects to a gateway: a connection would clear the list of a feedback \
            gateway.

            With --example it reads no settings and examines nothing: it prints a settings file \
            with every setting and its help text.

            \(HelpText.exitStatus)
            """)

    @OptionGroup var common: CommonOptions

    @Flag(
        name: .long,
        help: "Print a settings file with every setting, as YAML; read and check nothing.")
    var example = false

    func run() throws {
        try common.finish { context in
            if example {
                StandardStreams.result(
                    SettingsTable.sampleFile().dropLast().split(
                        separator: "\n", omittingEmptySubsequences: false
                    ).map(String.init))
                return .done
            }
            let report = Check.run(try common.settings(), context)
            common.print(report)
            for finding in report.findings where finding.severity == .failure {
                context.log.error("\(finding.message)")
            }
            let status = ExitStatus(rawValue: report.exit) ?? .invariant
            if status != .done {
                StandardStreams.story(ClosingCounts().closingLine(status, stage: "check"))
            }
            return status
        }
    }
}

import ArgumentParser
import Looks
import Operations
import Settings

/// `pushsweep holds`: shows and decides removals that the guard stopped.
struct HoldsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "holds",
        abstract: "Show held removals, and release or discard them.",
        discussion: HelpText.whole(PackageResources.holds_txt),
        subcommands: [List.self, Show.self, Release.self, Discard.self])

    /// `pushsweep holds list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the holds with their causes.",
            discussion: HelpText.whole(PackageResources.holds_list_txt))

        @OptionGroup var common: CommonOptions

        func run() throws {
            try common.finish(printing: { try HoldList(of: $0, $1) })
        }
    }

    /// `pushsweep holds show`.
    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show what a hold would do now, and its digest.",
            discussion: HelpText.whole(PackageResources.holds_show_txt))

        @OptionGroup var common: CommonOptions
        @Argument(
            help:
                "The hold's name, or at least four characters of it, from holds list; not needed for the only one."
        )
        var id: String?

        func run() throws {
            try common.finish(printing: { settings, context in
                try settings.holds { try $0.report(of: id, settings, context) }
            })
        }
    }

    /// `pushsweep holds release`.
    struct Release: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "release",
            abstract: "Apply exactly the held set with this digest.",
            discussion: HelpText.whole(PackageResources.holds_release_txt))

        @OptionGroup var common: CommonOptions
        @Argument(
            help:
                "The digest, from pushsweep holds show; at a terminal not needed for the only hold."
        )
        var digest: String?
        @Option(help: ArgumentHelp("A reason for the record; one line.", valueName: "text"))
        var reason: String?

        @OptionGroup(title: "Throttle options") var applying: ThrottleOptions

        func validate() throws {
            guard digest.map({ $0.count == 64 && $0.allSatisfy(\.isHexDigit) }) ?? true else {
                throw ValidationError(
                    "a digest has 64 hex digits; see: pushsweep holds show")
            }
            if let reason { try HoldsCommand.validate(reason: reason) }
        }

        func run() throws {
            try common.finish(applying, isWanted: true) { settings, context in
                SweepPlan(
                    releasing: try digest ?? agreed(settings, context), because: reason,
                    settings: settings)
            }
        }

        /// The digest of the only hold, after a person at the terminal has seen it and said yes. What joins
        /// the hold meanwhile is not part of the digest.
        private func agreed(_ settings: Settings, _ context: RunContext) throws -> String {
            let report = try settings.holds { try $0.report(of: nil, settings, context) }
            guard StandardStreams.canAsk else { throw report.unseen }
            for line in report.lines { StandardStreams.message(line, HoldReport.form) }
            guard StandardStreams.agrees(to: "Apply exactly this? (y/N) ", context.interrupt)
            else { throw report.declined }
            return report.digest
        }
    }

    /// `pushsweep holds discard`.
    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discard",
            abstract: "Drop a held batch: no row changes.",
            discussion: HelpText.whole(PackageResources.holds_discard_txt))

        @OptionGroup var common: CommonOptions
        @Argument(
            help:
                "The batch's name, or at least four characters of it, from holds show; not needed for the only one."
        )
        var id: String?
        @Flag(help: "Drop every batch of the hold.")
        var all = false
        @Option(help: ArgumentHelp("The reason, for the record; one line.", valueName: "text"))
        var reason: String

        func validate() throws {
            try HoldsCommand.validate(reason: reason)
        }

        func run() throws {
            try common.finish { context in
                let settings = try common.settings()
                let report = try settings.holds(for: .changes) {
                    try $0.discard(id, whole: all, because: reason, context)
                }
                common.print(report)
                // The decision is kept whether or not the file can be written.
                try MetricsPlan(settings)?.write(from: nil, at: context.now())
                return .done
            }
        }
    }

    /// Refuses a reason that is no line of text, or too long for the record.
    private static func validate(reason: String) throws {
        let isLine = reason.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        guard isLine, reason.contains(where: { $0 != " " }), reason.count <= 255 else {
            throw ValidationError("--reason must be one line of text, at most 255 characters")
        }
    }
}

import ArgumentParser
import Operations

/// `pushsweep holds`: shows and decides removals that the guard stopped.
struct HoldsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "holds",
        abstract: "Show held removals, and release or discard them.",
        discussion: """
            When a feed would make far more rows invalid than usual, or looks like the effect of a \
            wrong setting, the guard holds it: nothing of it is applied, nor later evidence about the \
            same app and environment. Other apps are applied. Nothing is lost; a person decides.

            \(HelpText.exitStatus)
            """,
        subcommands: [List.self, Show.self, Release.self, Discard.self])

    /// `pushsweep holds list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the holds with their causes.",
            discussion: """
                Compares every hold with the table and judges it again, as it is today. Where the table \
                cannot be read the list says so. Ends with 0 whether or not something is held.

                \(HelpText.exitStatus)
                """)

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
            discussion: """
                Compares every token with its registration and changes nothing. The digest names \
                exactly the set that is shown, and what would be done with it. Tokens are shown by \
                their first digits only.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions
        @Argument(help: "The hold's name, or at least four characters of it, from holds list.")
        var id: String

        func run() throws {
            try common.finish(printing: { settings, context in
                try Holds(state: settings.state).hold(of: id).report(settings, context)
            })
        }
    }

    /// `pushsweep holds release`.
    struct Release: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "release",
            abstract: "Apply exactly the held set with this digest.",
            discussion: """
                The guard does not judge the set again. Every token is compared once more with its \
                registration, so a device that came back meanwhile is kept. Evidence that joined the \
                hold after holds show is not part of the set: the next sweep judges it. A digest that \
                names no held set is refused. A release is a run with its own record.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions
        @Argument(help: "The digest, from pushsweep holds show.") var digest: String
        @Option(help: ArgumentHelp("A reason for the record; one line.", valueName: "text"))
        var reason: String?

        @OptionGroup var applying: ApplyOptions

        func validate() throws {
            guard digest.count == 64, digest.allSatisfy(\.isHexDigit) else {
                throw ValidationError(
                    "a digest has 64 hex digits; see: pushsweep holds show")
            }
            if let reason { try HoldsCommand.validate(reason: reason) }
        }

        func run() throws {
            try common.finish(applying, isWanted: true) { settings, _ in
                SweepPlan(releasing: digest, because: reason, settings: settings)
            }
        }
    }

    /// `pushsweep holds discard`.
    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discard",
            abstract: "Drop a held feed: no row changes.",
            discussion: """
                Drops the feed that is named, or with --all every feed of its hold. The others stay held, \
                or wait for the next sweep where the feed that the guard stopped is dropped.

                The bytes stay in the journal for 30 days, as those of applied feeds do. Until then \
                pushsweep replay --feed takes the decision back; the guard judges the feed again.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions
        @Argument(help: "The feed's name, or at least four characters of it, from holds show.")
        var id: String
        @Flag(help: "Drop every feed of the hold.")
        var all = false
        @Option(help: ArgumentHelp("The reason, for the record; one line.", valueName: "text"))
        var reason: String

        func validate() throws {
            try HoldsCommand.validate(reason: reason)
        }

        func run() throws {
            try common.finish { context in
                let settings = try common.settings()
                let holds = try Holds(state: settings.state)
                let report = try holds.discard(id, whole: all, because: reason, context)
                common.print(report)
                try holds.write(MetricsPlan(settings), at: context.now())
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

import ArgumentParser
import Looks
import Operations

extension ChangeFormat: ExpressibleByArgument {}

/// `pushsweep changes`: lists changed rows for programs that follow.
struct ChangesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "changes",
        abstract: "List the rows that runs marked, deleted and took back, each exactly once.",
        discussion: HelpText.whole(PackageResources.changes_txt))

    @OptionGroup var options: FileOptions

    @Option(
        help: ArgumentHelp(
            "Begin at the first change of a run, by at least four characters of its name; at the "
                + "first change committed at a time or later, 2026-11-22T10:00:00Z, or without zone "
                + "in UTC; or after the line with a cursor.",
            valueName: "run|time|cursor"))
    var since: String

    @Option(
        help: ArgumentHelp(
            "Print JSON objects, or fields separated by commas with a line of names first.",
            valueName: "jsonl|csv"))
    var format = ChangeFormat.jsonl

    @Option(
        help: ArgumentHelp("End after this number of changes.", valueName: "number"),
        transform: CommandNumber.rows)
    var limit: Int?

    @Flag(help: "Print device tokens whole; anyone who reads them can name devices.")
    var wholeTokens = false

    func validate() throws {
        guard !since.isEmpty else {
            throw ValidationError("--since is empty; give a run, a time or a cursor")
        }
    }

    func run() throws {
        try options.finish { context in
            let listing = ChangeListing(
                since: since, format: format, limit: limit, wholeTokens: wholeTokens)
            try listing.run(options.settings(), context) { lines in
                StandardStreams.result(whole: lines)
                return StandardStreams.resultIsRead
            }
            guard !StandardStreams.resultWasLost.load(ordering: .relaxed) else {
                throw RunFailure(
                    .cannotCreate, .report,
                    "writing changes to stdout failed, perhaps in the middle of a line; make room, "
                        + "then continue with the cursor of the last whole line")
            }
            return .done
        }
    }
}

import APNsProtocol
import ArgumentParser
import Operations
import PushQueue
import TokenTable

extension DeliveryFormat: ExpressibleByArgument {}
extension DeliveryState: ExpressibleByArgument {}

/// `pushsweep deliveries`: lists what became of the queue's notifications.
struct DeliveriesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliveries",
        abstract: "List what became of the queue's notifications, message by message.",
        discussion: HelpText.whole(PackageResources.deliveries_txt))

    @OptionGroup var options: FileOptions

    @Option(
        help: ArgumentHelp(
            "Only those in this state; may be given several times.", valueName: "state"))
    var state: [DeliveryState] = []

    @Option(
        help: ArgumentHelp(
            "Only those to this token in hex, whole or its first digits; - reads it from standard input.",
            valueName: "hex"))
    var token: String?

    @Option(help: ArgumentHelp("A file with the token; - is standard input.", valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Only those to the tokens in the rows of this user, at most \(TokenSubject.mostTokens).",
            valueName: "id"))
    var user: String?

    @Option(
        help: ArgumentHelp("Only those of this app; may be given several times.", valueName: "name")
    )
    var app: [String] = []

    @Option(help: ArgumentHelp("Only those of production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(
        help: ArgumentHelp(
            "Only those queued at this time or later: 2026-11-22T10:00:00Z, or 2026-11-22.",
            valueName: "time"))
    var since: String?

    @Option(
        help: ArgumentHelp(
            "List at most this number (default: \(DeliveryWish.usualLimit)).", valueName: "number"),
        transform: CommandNumber.rows)
    var limit: Int?

    @Option(
        help: ArgumentHelp(
            "Search at most this number of the newest rows, where no index leads to those that match "
                + "(default: \(TokenTable.mostQueueRowsSearched)).", valueName: "number"),
        transform: CommandNumber.rows)
    var search: Int?

    @Option(
        help: ArgumentHelp(
            "Print lines for people, one JSON object, or fields separated by commas with a line of "
                + "names first.", valueName: "text|json|csv"))
    var format = DeliveryFormat.text

    @Flag(help: "Print device tokens whole; anyone who reads them can name devices.")
    var wholeTokens = false

    func validate() throws {
        guard [token, tokenFile, user].count(where: { $0 != nil }) <= 1 else {
            throw ValidationError("name only one of: --token, --token-file, --user")
        }
        guard user != "" else { throw ValidationError("--user is empty; give the id of a user") }
    }

    func run() throws {
        try options.finish { context in
            let wish = try wish(context)
            try Deliveries.run(options.settings(), wish, context) { lines in
                StandardStreams.result(whole: lines)
                return StandardStreams.resultIsRead
            }
            return .done
        }
    }

    private func wish(_ context: RunContext) throws -> DeliveryWish {
        var wish = DeliveryWish()
        if let user {
            wish.subject = .user(user)
        } else if token != nil || tokenFile != nil {
            wish.subject = try GivenToken(text: token, file: tokenFile, name: "--token")
                .subject(context)
        }
        wish.states = Set(state)
        wish.apps = app
        wish.environment = environment
        wish.since = try since.map { try CommandTime.read($0, of: "--since") }
        wish.limit = limit ?? wish.limit
        wish.searched = search ?? wish.searched
        wish.wholeTokens = wholeTokens
        wish.format = format
        return wish
    }
}

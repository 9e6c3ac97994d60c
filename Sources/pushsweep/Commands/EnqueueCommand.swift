import APNsProtocol
import ArgumentParser
import Operations
import TokenHygiene

/// `pushsweep enqueue`: puts notifications into the queue.
struct EnqueueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Put a payload for some tokens or users into the queue.",
        discussion: HelpText.whole(PackageResources.enqueue_txt))

    @OptionGroup var common: CommonOptions

    @Option(help: ArgumentHelp("The app, if there are several.", valueName: "name"))
    var app: String?

    @Option(help: ArgumentHelp("production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(help: ArgumentHelp("A token; may be given several times.", valueName: "hex"))
    var token: [String] = []

    @Option(
        help: ArgumentHelp(
            "A user, reached by the tokens of the user's rows that are not stale; may be given "
                + "several times.", valueName: "id"))
    var user: [String] = []

    @Option(
        help: ArgumentHelp("A file with a token per line; - is standard input.", valueName: "file"))
    var tokensFrom: String?

    @Option(help: ArgumentHelp("A file with the JSON; - is standard input.", valueName: "file"))
    var payload: String?

    @Option(
        help: ArgumentHelp("The text of a plain alert, in place of --payload.", valueName: "text"))
    var alert: String?

    @Option(
        help: ArgumentHelp(
            "The number on the app's icon, 0 for none; with or without --alert.",
            valueName: "number"), transform: CommandNumber.badge)
    var badge: Int?

    @Option(
        help: ArgumentHelp(
            "The sound to play, such as default; with or without --alert.", valueName: "name"))
    var sound: String?

    @Option(help: ArgumentHelp("The category of the actions of --alert.", valueName: "name"))
    var category: String?

    @Flag(
        help:
            "Wake the app; without --alert, --badge and --sound with push type background and priority 5."
    )
    var contentAvailable = false

    @Option(help: ArgumentHelp("apns-push-type.", valueName: "type"))
    var pushType: String?

    @Option(
        help: ArgumentHelp("apns-priority: 10, 5 or 1.", valueName: "number"),
        transform: CommandNumber.priority)
    var priority: Int?

    @Option(
        help: ArgumentHelp(
            "apns-expiration: seconds since 1970, 0 for one attempt.", valueName: "seconds"),
        transform: CommandNumber.expiration)
    var expiration: Int64?

    @Option(help: ArgumentHelp("apns-collapse-id.", valueName: "text"))
    var collapseID: String?

    @Option(
        help: ArgumentHelp(
            "Do not send before this time: seconds since 1970.", valueName: "seconds"),
        transform: CommandNumber.seconds)
    var notBefore: Int64?

    func validate() throws {
        try validateContent()
        guard !user.contains("") else {
            throw ValidationError("--user is empty; give the id of a user")
        }
        let ways = [!token.isEmpty, !user.isEmpty, tokensFrom != nil].count { $0 }
        guard ways == 1 else {
            throw ValidationError("name recipients by one of --token, --user and --tokens-from")
        }
        if payload == "-" && tokensFrom == "-" {
            throw ValidationError("only one of --payload and --tokens-from can be standard input")
        }
    }

    /// Requires a file, or the members of a plain notification.
    private func validateContent() throws {
        let members = [
            ("--badge", badge != nil), ("--sound", sound != nil), ("--category", category != nil),
            ("--content-available", contentAvailable),
        ].filter(\.1).map(\.0)
        guard (payload == nil) != (alert == nil && members.isEmpty) else {
            let names = members.joined(separator: ", ")
            throw ValidationError(
                payload == nil || members.isEmpty
                    ? "give the notification with either --payload or --alert"
                    : "\(names) cannot be combined with --payload, which is sent as it is; write "
                        + "\(members.count == 1 ? "it" : "them") into its aps, or leave --payload out"
            )
        }
        guard alert != "" else {
            throw ValidationError(
                "--alert is empty; give its text, or the whole JSON with --payload")
        }
        for (name, text) in [("--sound", sound), ("--category", category)] where text == "" {
            throw ValidationError("\(name) is empty; give its name, or leave it out")
        }
        guard category == nil || alert != nil else {
            throw ValidationError(
                "--category belongs to an alert, which has the actions; give --alert too")
        }
    }

    func run() throws {
        try common.finish { context in
            let plain = PlainPayload(
                alert: alert, badge: badge, sound: sound, category: category,
                contentAvailable: contentAvailable)
            var content = Enqueue.Content(
                payload: try body(context) ?? plain.bytes,
                from: payload.map { "--payload \($0)" } ?? "--alert")
            content.headers.pushType = pushType
            if payload == nil && pushType == nil && plain.pushType == .background {
                content.wakesOnly()
            }
            content.headers.priority = priority
            content.headers.expiration = expiration
            content.headers.collapseID = collapseID
            content.notBefore = notBefore.map { EpochMilliseconds($0 * 1_000) }
            let report = try Enqueue.run(
                content, to: try recipients(context), app: app, environment: environment,
                try common.settings(), context)
            switch common.format {
            case .json: StandardStreams.result(document: report)
            case .text:
                var line = "\(report.app)/\(report.environment): queued \(report.queued)"
                if report.malformed > 0 {
                    line += ", left out \(report.malformed) that are not tokens"
                }
                if report.tooLong > 0 {
                    line +=
                        ", left out \(report.tooLong.counting("token")) that the gateway does not take"
                }
                if report.unreachableUsers > 0 {
                    line +=
                        ", \(report.unreachableUsers.counting("user")) without a token that can be "
                        + "sent to"
                }
                StandardStreams.result(line)
            }
            let hasNobody = report.queued == 0 && report.unreachableUsers > 0
            guard report.malformed > 0 || report.tooLong > 0 || hasNobody else { return .done }
            let exit = ExitStatus.quarantined
            StandardStreams.close(
                with: ClosingCounts(pending: report.queued).closingLine(
                    exit, stage: "enqueue", next: hasNobody ? .usage : nil))
            return exit
        }
    }

    /// The bytes of `--payload`; nil without it.
    private func body(_ context: RunContext) throws -> [UInt8]? {
        try payload.map { path in
            try GivenSource(
                path, doing: "reading the payload from", at: .settings, context.interrupt
            ).text(atMost: 1 << 20)
        }
    }

    private func recipients(_ context: RunContext) throws -> Enqueue.Recipients {
        if !user.isEmpty { return .users(user) }
        guard let tokensFrom else { return .tokens(token) }
        let source = try GivenSource(
            tokensFrom, doing: "reading tokens from", at: .settings, context.interrupt)
        return .lines(try source.lines(atMost: 1 << 28), file: source.name)
    }
}

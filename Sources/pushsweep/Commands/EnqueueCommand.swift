import APNsProtocol
import ArgumentParser
import Encodings
import Foundation
import Operations
import TokenHygiene

/// `pushsweep enqueue`: puts notifications into the queue.
struct EnqueueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enqueue",
        abstract: "Put a payload for some tokens or users into the queue.",
        discussion: """
            The payload is checked as APNs would: a JSON object within the size its push type \
            allows, a priority and collapse id that fit it. A --token that is not a token refuses the \
            whole command. Lines of --tokens-from that are not tokens are left out, counted and named \
            by their numbers; then the exit code is 65. It is 65 too where no --user has a token to \
            send to.

            \(HelpText.exitStatus)
            """)

    @OptionGroup var common: CommonOptions

    @Option(
        name: .long,
        help: ArgumentHelp("The app, if there are several.", valueName: "name"))
    var app: String?

    @Option(name: .long, help: ArgumentHelp("production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(
        name: .long,
        help: ArgumentHelp("A token; may be given several times.", valueName: "hex"))
    var token: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A user, reached by the tokens of the user's rows that are not stale; may be given "
                + "several times.", valueName: "id"))
    var user: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A file with a token per line; - is standard input.", valueName: "file"))
    var tokensFrom: String?

    @Option(
        name: .long,
        help: ArgumentHelp("A file with the JSON; - is standard input.", valueName: "file"))
    var payload: String?

    @Option(
        name: .long,
        help: ArgumentHelp("The text of a plain alert, in place of --payload.", valueName: "text"))
    var alert: String?

    @Option(name: .long, help: ArgumentHelp("apns-push-type.", valueName: "type"))
    var pushType: String?

    @Option(
        name: .long, help: ArgumentHelp("apns-priority: 10, 5 or 1.", valueName: "number"),
        transform: CommandNumber.priority)
    var priority: Int?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "apns-expiration: seconds since 1970, 0 for one attempt.", valueName: "seconds"),
        transform: CommandNumber.expiration)
    var expiration: Int64?

    @Option(name: .long, help: ArgumentHelp("apns-collapse-id.", valueName: "text"))
    var collapseID: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Do not send before this time: seconds since 1970.", valueName: "seconds"),
        transform: CommandNumber.seconds)
    var notBefore: Int64?

    func validate() throws {
        guard (payload == nil) != (alert == nil) else {
            throw ValidationError("give the notification with either --payload or --alert")
        }
        guard alert != "" else {
            throw ValidationError(
                "--alert is empty; give its text, or the whole JSON with --payload")
        }
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

    func run() throws {
        try common.finish { context in
            var content = Enqueue.Content(
                payload: try body(), from: payload.map { "--payload \($0)" } ?? "--alert")
            content.pushType = pushType
            content.priority = priority
            content.expiration = expiration
            content.collapseID = collapseID
            content.notBefore = notBefore.map { EpochMilliseconds($0 * 1_000) }
            let report = try Enqueue.run(
                content, to: try recipients(), app: app, environment: environment,
                try common.settings(), context)
            switch common.format {
            case .json: StandardStreams.result(document: report)
            case .text:
                var line = "\(report.app)/\(report.environment): queued \(report.queued)"
                if report.malformed > 0 {
                    line += ", left out \(report.malformed) that are not tokens"
                }
                if report.unreachableUsers > 0 {
                    line +=
                        ", \(report.unreachableUsers.counting("user")) without a token that can be "
                        + "sent to"
                }
                StandardStreams.result(line)
            }
            let hasNobody = report.queued == 0 && report.unreachableUsers > 0
            guard report.malformed > 0 || hasNobody else { return .done }
            let exit = ExitStatus.quarantined
            StandardStreams.story(
                ClosingCounts(pending: report.queued).closingLine(
                    exit, stage: "enqueue", next: hasNobody ? .usage : nil))
            return exit
        }
    }

    private func body() throws -> [UInt8] {
        if let alert {
            return Array(["aps": ["alert": alert]].jsonLine.utf8)
        }
        return try GivenFile(path: payload ?? "-", content: "the payload").bytes(atMost: 1 << 20)
    }

    private func recipients() throws -> Enqueue.Recipients {
        if !user.isEmpty { return .users(user) }
        guard let tokensFrom else { return .tokens(token) }
        let text = String(
            decoding: try GivenFile(path: tokensFrom, content: "tokens").bytes(atMost: 1 << 28),
            as: UTF8.self)
        return .lines(
            text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map {
                $0.trimmingCharacters(in: .whitespaces)
            }, file: tokensFrom == "-" ? "standard input" : tokensFrom)
    }
}

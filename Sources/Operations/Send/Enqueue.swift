import APNsProtocol
import Database
import Foundation
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// Puts a payload for some tokens into the queue, after the checks that APNs would make.
package struct Enqueue {
    /// The recipients of the notifications.
    package enum Recipients: Sendable {
        /// Tokens as text; see `DeviceToken.init(spelling:)` for the accepted forms. A text that is no
        /// token refuses the whole call.
        case tokens([String])
        /// The tokens in the lines of a file; lines that are none are left out, empty ones are passed over.
        case lines([String], file: String)
        /// The tokens of these users.
        case users([String])
    }

    /// The result of queueing.
    package struct EnqueueReport: Codable, Hashable, Sendable {
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// Number of notifications put into the queue.
        package var queued = 0
        /// Number of lines that are not tokens; none of them was queued.
        package var malformed = 0
        /// Number of tokens that the app's gateway does not take, because they are too long; none of
        /// them was queued.
        package var tooLong = 0
        /// Number of users without a token that notifications can be sent to.
        package var unreachableUsers = 0
    }

    /// The fields that all the notifications share.
    package struct Content: Sendable {
        /// The payload, JSON in UTF-8.
        package var payload: [UInt8]
        /// The source of the payload, as messages name it.
        package var source: String
        package var headers = NotificationHeaders()
        /// The time before which the notifications are not sent.
        package var notBefore: EpochMilliseconds?

        /// Whether the push type follows from the payload, and no option named it.
        fileprivate(set) var impliesPushType = false

        /// Takes the payload and the option or file that it came from; all other fields are nil.
        package init(payload: [UInt8], from source: String) {
            self.payload = payload
            self.source = source
        }

        /// Makes it a notification that wakes the app and shows nothing. Its usual priority is 5.
        package mutating func wakesOnly() {
            headers.pushType = PushType.background.rawValue
            impliesPushType = true
        }
    }

    /// How many lines or users a warning names.
    private static let mostNamed = 5

    /// Puts the notifications into the queue, all in one transaction. Warns of lines and users for which
    /// nothing is queued.
    ///
    /// - Throws: `RunFailure` for a payload that APNs would refuse, for an app that the settings do
    ///   not name, for a text of `tokens` that is no token, and for failures of the database.
    package static func run(
        _ content: Content, to recipients: Recipients, app name: String?, environment: String?,
        _ settings: Settings, _ context: RunContext
    ) throws -> EnqueueReport {
        let app = try settings.app(
            named: name, in: environment, for: "queueing a notification")
        try check(content, app)
        let limits = BinaryLimits(app)
        let content = limits?.adapted(content) ?? content
        var report = EnqueueReport(app: app.name, environment: app.environment.rawValue)
        var tokens: [DeviceToken] = []
        switch recipients {
        case .tokens(let texts): tokens = try parsed(texts, app, limits)
        case .lines(let lines, let file):
            tokens = usable(lines, of: file, limits, &report, context)
        case .users: break
        }
        try settings.ensureOwnStore()
        let store = try TokenTable(StoreSettings(settings))
        if case .users(let users) = recipients {
            tokens = try living(users, app, store, limits, &report, context)
        }
        try store.enqueue(
            tokens.map {
                NewNotification(
                    token: $0, payload: content.payload, headers: content.headers,
                    notBefore: content.notBefore)
            }, for: app.storedPartition, payloadLimit: limits?.command.payloadLimit)
        report.queued = tokens.count
        return report
    }

    /// The tokens of the command line. Messages name the place of a text, never the text.
    private static func parsed(
        _ texts: [String], _ app: Settings.App, _ limits: BinaryLimits?
    ) throws(RunFailure) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        for (index, text) in texts.enumerated() {
            let place = texts.count == 1 ? "--token" : "--token number \(index + 1)"
            func refusal(_ why: String) -> RunFailure {
                RunFailure(
                    .usage, .settings,
                    "queueing a notification for \(app.partition): \(place) is \(why); nothing is "
                        + "queued, correct it and run again")
            }
            do throws(DeviceTokenRefusal) {
                tokens.append(try DeviceToken(spelling: text))
            } catch {
                throw refusal("no device token in hex: \(error)")
            }
            if limits?.fits(tokens[index]) == false { throw refusal(BinaryLimits.longToken) }
        }
        return tokens
    }

    /// The tokens of a file's lines that can be sent to; says which lines have none.
    private static func usable(
        _ lines: [String], of file: String, _ limits: BinaryLimits?, _ report: inout EnqueueReport,
        _ context: RunContext
    ) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        var (malformed, long): ([Int], [Int]) = ([], [])
        for (index, line) in lines.enumerated() where line.contains(where: { !$0.isWhitespace }) {
            if let token = try? DeviceToken(spelling: line) {
                if limits?.fits(token) == false {
                    long.append(index + 1)
                } else {
                    tokens.append(token)
                }
            } else {
                malformed.append(index + 1)
            }
        }
        (report.malformed, report.tooLong) = (malformed.count, long.count)
        for (places, why) in [
            (malformed, "no device token in hex"), (long, BinaryLimits.longToken),
        ] where !places.isEmpty {
            let named = places.prefix(mostNamed).map { "\($0)" }
            context.log.warning(
                """
                queueing a notification for the tokens of \(file): left out \
                \(list(named, of: places.count, "line")), \(why); correct what is left out and queue it \
                alone
                """)
        }
        return tokens
    }

    /// The tokens of users; says which users have none that can be sent to.
    private static func living(
        _ users: [String], _ app: Settings.App, _ store: TokenTable, _ limits: BinaryLimits?,
        _ report: inout EnqueueReport, _ context: RunContext
    ) throws(StoreFailure) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        var named: [String] = []
        var long = 0
        for user in users {
            let living = try store.tokens(ofUser: user, in: app.storedPartition)
            let found = living.filter { limits?.fits($0) != false }
            tokens += found
            long += living.count - found.count
            guard living.isEmpty else { continue }
            report.unreachableUsers += 1
            if named.count < mostNamed { named.append(SettingText.quoted(user)) }
        }
        if long > 0 {
            report.tooLong = long
            context.log.warning(
                """
                queueing a notification for \(app.partition): left out \(long.counting("token")) of \
                the users, \(BinaryLimits.longToken)
                """)
        }
        guard report.unreachableUsers > 0 else { return tokens }
        let who = list(named, of: report.unreachableUsers, "user")
        context.log.warning(
            """
            queueing a notification for \(app.partition): found no living token of \(who); check \
            --user, and the rows of \(store.settings.mapping.table)
            """)
        return tokens
    }

    /// The noun with the first names, and how many more there are.
    private static func list(_ named: [String], of count: Int, _ noun: String) -> String {
        "\(noun)\(count == 1 ? "" : "s") " + named.joined(separator: ", ")
            + (count > named.count ? " and \(count - named.count) more" : "")
    }

    private static func check(
        _ content: Content, _ app: Settings.App
    ) throws(RunFailure) {
        func refuse(_ why: String) -> RunFailure {
            RunFailure(.usage, .settings, "queueing a notification for \(app.partition): \(why)")
        }
        do throws(RequestRefusal) {
            try NotificationAttributes(bundleID: app.topic, content.headers)
                .checkPayload(bytes: content.payload.count)
        } catch {
            throw refuse("\(error)")
        }
        if let why = BinaryLimits(app)?.refusal(of: content) { throw refuse(why) }
        let value = try? JSONSerialization.jsonObject(with: Data(content.payload))
        guard value is [String: Any] else {
            throw refuse(
                "the payload of \(content.source) is no JSON object; APNs takes one with a member "
                    + "\"aps\"")
        }
    }
}

// The binary interface has fewer fields than HTTP/2, and smaller ones. A notification that does not fit is
// refused before it is queued: in the queue it would fail long after the person who queued it has gone.

/// The limits of an app's binary gateway for what is queued. Sources: Apple, "Binary Provider API" and
/// "Legacy Notification Format" (archived).
struct BinaryLimits {
    /// The command of the frames.
    let command: BinaryCommand

    /// The limits for an app; nil for one that sends over HTTP/2.
    init?(_ app: Settings.App) {
        guard let binary = app.binary else { return nil }
        command = binary.frameCommand
    }

    /// Why the content cannot be sent, as a clause with what to do; nil where it can.
    func refusal(of content: Enqueue.Content) -> String? {
        do throws(BinaryFault) {
            try BinaryFrame.checkPayload(bytes: content.payload.count, of: command)
        } catch {
            let more =
                command == .framed
                ? ""
                : ", or set binary.command: 2, which takes \(BinaryCommand.framed.payloadLimit)"
            return
                "\(error) (command \(command.rawValue) of the binary interface); shorten it\(more)"
        }
        if content.headers.collapseID != nil {
            return "--collapse-id: the binary interface has no collapse identifier; leave it out"
        }
        if let type = content.headers.pushType,
            PushType(rawValue: type).map(Self.types.contains) != true
        {
            return
                "--push-type \(type.prefix(40)): the binary interface has no push types, and only "
                + "\(Self.types.map(\.rawValue).joined(separator: " and ")) can be expressed by the "
                + "payload; give one of them, or leave it out"
        }
        if content.headers.expiration != nil, command == .simple {
            return
                "--expiration: command 0 of the binary interface has no expiration; leave it out, "
                + "or set binary.command: 1 or 2"
        }
        guard let priority = content.headers.priority else { return nil }
        guard command == .framed else {
            return
                "--priority: command \(command.rawValue) of the binary interface has no priority; "
                + "leave it out, or set binary.command: 2"
        }
        guard priority == NotificationPriority.lowest.rawValue else { return nil }
        return "--priority 1: the binary interface has the priorities 10 and 5; give 5"
    }

    /// The content as the interface has it. A push type that only follows from the payload is not kept: the
    /// interface has none, and the queue may have no column for it. Of a background notification the
    /// priority is left, where the command has one.
    func adapted(_ content: Enqueue.Content) -> Enqueue.Content {
        guard content.impliesPushType else { return content }
        var adapted = content
        adapted.headers.pushType = nil
        if command == .framed {
            adapted.headers.priority =
                content.headers.priority ?? Int(NotificationPriority.conserving.rawValue)
        }
        return adapted
    }

    /// Whether a token fits into a frame.
    func fits(_ token: DeviceToken) -> Bool { token.count <= BinaryFrame.longestToken }

    /// What is wrong with tokens that do not fit.
    static let longToken =
        "longer than \(BinaryFrame.longestToken) bytes, the limit of the binary interface"

    private static let types: [PushType] = [.alert, .background]
}

extension Settings.Binary {
    var frameCommand: BinaryCommand { BinaryCommand(rawValue: UInt8(command)) ?? .framed }
}

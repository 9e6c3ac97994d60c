import APNsProtocol
import Database
import Encodings
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
    package struct EnqueueReport: PrintedLines, Codable, Hashable, Sendable {
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

        /// The result as text for people.
        package var lines: [String] {
            let leftOut = [
                (malformed, "left out \(malformed) that are not tokens"),
                (tooLong, "left out \(tooLong.counting("token")) that the gateway does not take"),
                (
                    unreachableUsers,
                    "\(unreachableUsers.counting("user")) without a token that can be sent to"
                ),
            ].filter { $0.0 > 0 }.map { ", \($0.1)" }.joined()
            return ["\(app)/\(environment): queued \(queued)\(leftOut)"]
        }
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

    private let app: Settings.App
    private let context: RunContext
    private var report: EnqueueReport

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
        var enqueue = Enqueue(
            app: app, context: context,
            report: EnqueueReport(app: app.name, environment: app.environment.rawValue))
        try enqueue.run(content, to: recipients, settings)
        return enqueue.report
    }

    private mutating func run(
        _ content: Content, to recipients: Recipients, _ settings: Settings
    ) throws {
        try check(content)
        let content = adapted(content)
        var tokens: [DeviceToken] = []
        switch recipients {
        case .tokens(let texts): tokens = try parsed(texts)
        case .lines(let lines, let file): tokens = usable(lines, of: file)
        case .users: break
        }
        try settings.ensureOwnStore()
        let store = try TokenTable(StoreSettings(settings))
        if case .users(let users) = recipients { tokens = try living(users, store) }
        try store.enqueue(
            tokens.map {
                NewNotification(
                    token: $0, payload: content.payload, headers: content.headers,
                    notBefore: content.notBefore)
            }, for: app.storedPartition, payloadLimit: command?.payloadLimit)
        report.queued = tokens.count
    }

    /// A refusal of what the caller gave.
    private func refusal(_ why: String) -> RunFailure {
        RunFailure(.usage, .settings, "queueing a notification for \(app.partition): \(why)")
    }

    private func warn(_ words: String) {
        context.log.warning("queueing a notification for \(words)")
    }

    /// The tokens of the command line. Messages name the place of a text, never the text.
    private func parsed(_ texts: [String]) throws(RunFailure) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        for (index, text) in texts.enumerated() {
            let why: String
            do throws(Refusal) {
                let token = try DeviceToken(spelling: text)
                tokens.append(token)
                if fits(token) { continue }
                why = Self.longToken
            } catch {
                why = "no device token in hex: \(error)"
            }
            let place = texts.count == 1 ? "--token" : "--token number \(index + 1)"
            throw refusal("\(place) is \(why); nothing is queued, correct it and run again")
        }
        return tokens
    }

    /// The tokens of a file's lines that can be sent to; says which lines have none.
    private mutating func usable(_ lines: [String], of file: String) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        var (malformed, long): ([Int], [Int]) = ([], [])
        for (index, line) in lines.enumerated() where line.contains(where: { !$0.isWhitespace }) {
            if let token = try? DeviceToken(spelling: line) {
                if fits(token) { tokens.append(token) } else { long.append(index + 1) }
            } else {
                malformed.append(index + 1)
            }
        }
        (report.malformed, report.tooLong) = (malformed.count, long.count)
        for (places, why) in [(malformed, "no device token in hex"), (long, Self.longToken)]
        where !places.isEmpty {
            let named = places.prefix(Self.mostNamed).map { "\($0)" }
            warn(
                "the tokens of \(file): left out \(Self.list(named, of: places.count, "line")), \(why); "
                    + "correct what is left out and queue it alone")
        }
        return tokens
    }

    /// The tokens of users; says which users have none that can be sent to.
    private mutating func living(
        _ users: [String], _ store: TokenTable
    ) throws(StoreFailure) -> [DeviceToken] {
        var tokens: [DeviceToken] = []
        var named: [String] = []
        for user in users {
            let living = try store.tokens(ofUser: user, in: app.storedPartition)
            let found = living.filter(fits)
            tokens += found
            report.tooLong += living.count - found.count
            guard living.isEmpty else { continue }
            report.unreachableUsers += 1
            if named.count < Self.mostNamed { named.append(SettingText.quoted(user)) }
        }
        if report.tooLong > 0 {
            warn(
                "\(app.partition): left out \(report.tooLong.counting("token")) of the users, "
                    + Self.longToken)
        }
        if report.unreachableUsers > 0 {
            warn(
                "\(app.partition): found no living token of "
                    + "\(Self.list(named, of: report.unreachableUsers, "user")); check --user, and the rows "
                    + "of \(store.settings.mapping.table)")
        }
        return tokens
    }

    /// The noun with the first names, and how many more there are.
    private static func list(_ named: [String], of count: Int, _ noun: String) -> String {
        "\(noun)\(count == 1 ? "" : "s") " + named.joined(separator: ", ")
            + (count > named.count ? " and \(count - named.count) more" : "")
    }

    private func check(_ content: Content) throws(RunFailure) {
        do throws(RequestRefusal) {
            try NotificationAttributes(bundleID: app.topic, content.headers)
                .checkPayload(bytes: content.payload.count)
        } catch {
            throw refusal("\(error)")
        }
        if let command, let why = command.refusal(of: content) { throw refusal(why) }
        let value = try? JSONSerialization.jsonObject(with: Data(content.payload))
        guard value is [String: Any] else {
            throw refusal(
                "the payload of \(content.source) is no JSON object; APNs takes one with a member "
                    + "\"aps\"")
        }
    }

    // The binary interface has fewer fields than HTTP/2, and smaller ones. A notification that does not fit
    // is refused before it is queued: in the queue it would fail long after the person who queued it has
    // gone. Sources: Apple, "Binary Provider API" and "Legacy Notification Format" (archived).

    /// The command of an app's binary gateway; nil for one that sends over HTTP/2.
    private var command: BinaryCommand? { app.binary?.frameCommand }

    private func fits(_ token: DeviceToken) -> Bool {
        command == nil || token.count <= BinaryFrame.longestToken
    }

    private static let longToken =
        "longer than \(BinaryFrame.longestToken) bytes, the limit of the binary interface"

    /// The content as the interface has it. A push type that only follows from the payload is not kept: the
    /// interface has none, and the queue may have no column for it. Of a background notification the
    /// priority is left, where the command has one.
    private func adapted(_ content: Content) -> Content {
        guard let command, content.impliesPushType else { return content }
        var adapted = content
        adapted.headers.pushType = nil
        if command == .framed {
            adapted.headers.priority =
                content.headers.priority ?? Int(NotificationPriority.conserving.rawValue)
        }
        return adapted
    }
}

extension BinaryCommand {
    private static let types: [PushType] = [.alert, .background]

    /// Why the content cannot be sent, as a clause with what to do; nil where it can.
    fileprivate func refusal(of content: Enqueue.Content) -> String? {
        do throws(BinaryFault) {
            try BinaryFrame.checkPayload(bytes: content.payload.count, of: self)
        } catch {
            let more =
                self == .framed
                ? ""
                : ", or set binary.command: 2, which takes \(BinaryCommand.framed.payloadLimit)"
            return "\(error) (command \(rawValue) of the binary interface); shorten it\(more)"
        }
        let headers = content.headers
        if headers.collapseID != nil {
            return "--collapse-id: the binary interface has no collapse identifier; leave it out"
        }
        if let type = headers.pushType, PushType(rawValue: type).map(Self.types.contains) != true {
            return
                "--push-type \(type.prefix(40)): the binary interface has no push types, and only "
                + "\(Self.types.map(\.rawValue).joined(separator: " and ")) can be expressed by the "
                + "payload; give one of them, or leave it out"
        }
        if headers.expiration != nil, self == .simple {
            return
                "--expiration: command 0 of the binary interface has no expiration; leave it out, "
                + "or set binary.command: 1 or 2"
        }
        guard let priority = headers.priority else { return nil }
        guard self == .framed else {
            return
                "--priority: command \(rawValue) of the binary interface has no priority; "
                + "leave it out, or set binary.command: 2"
        }
        return priority == NotificationPriority.lowest.rawValue
            ? "--priority 1: the binary interface has the priorities 10 and 5; give 5" : nil
    }
}

extension Settings.Binary {
    var frameCommand: BinaryCommand { BinaryCommand(rawValue: UInt8(command)) ?? .framed }
}

import APNsProtocol
import Database
import Foundation
import PushQueue
import Settings
import TokenHygiene
import TokenTable

/// Puts a payload for some tokens into the queue, after checking all that APNs would.
package struct Enqueue {
    /// Whom to send to.
    package enum Recipients: Sendable {
        /// These tokens, as they are spelled.
        case tokens([String])
        /// The tokens of these users.
        case users([String])
    }

    /// What was queued.
    package struct Report: Codable, Hashable, Sendable {
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// Notifications put into the queue.
        package var queued = 0
        /// Lines that are no tokens; none of them was queued.
        package var malformed = 0
        /// Users without a token that could be sent to.
        package var unreachableUsers = 0
    }

    /// What all notifications share.
    package struct Content: Sendable {
        /// The JSON text.
        package var payload: [UInt8]
        /// Push type, priority, expiration in seconds, collapse id; nil is the usual value.
        package var pushType: String?
        /// `apns-priority`.
        package var priority: Int?
        /// `apns-expiration`, seconds since 1970.
        package var expiration: Int64?
        /// `apns-collapse-id`.
        package var collapseID: String?
        /// Milliseconds since 1970 before which it is not sent.
        package var notBefore: EpochMilliseconds?

        /// States the payload.
        package init(payload: [UInt8]) { self.payload = payload }
    }

    /// Queues; all or nothing for each call of at most some thousands of tokens.
    ///
    /// - Throws: `RunFailure` for a payload that APNs would refuse or an app nobody knows, and what
    ///   the database says.
    package static func run(
        _ content: Content, to recipients: Recipients, app name: String?, environment: String?,
        _ settings: Settings
    ) throws -> Report {
        let app = try settings.app(
            named: name, in: environment, for: "queueing a notification")
        try check(content, app)
        try settings.ensureOwnStore()
        let store = try TokenTable(StoreSettings(settings))
        var report = Report(app: app.name, environment: app.environment.rawValue)
        let tokens: [DeviceToken]
        switch recipients {
        case .tokens(let texts):
            tokens = texts.compactMap { try? DeviceToken(spelling: $0) }
            report.malformed = texts.count - tokens.count
        case .users(let users):
            var found: [DeviceToken] = []
            for user in users {
                let tokens = try store.tokens(ofUser: user, in: app.storedPartition)
                if tokens.isEmpty { report.unreachableUsers += 1 }
                found += tokens
            }
            tokens = found
        }
        try store.enqueue(
            tokens.map {
                NewNotification(
                    token: $0, payload: content.payload, pushType: content.pushType,
                    priority: content.priority, expiration: content.expiration,
                    collapseID: content.collapseID, notBefore: content.notBefore)
            }, for: app.storedPartition)
        report.queued = tokens.count
        return report
    }

    private static func check(
        _ content: Content, _ app: Settings.App
    ) throws(RunFailure) {
        func refuse(_ why: String) -> RunFailure {
            RunFailure(.usage, .settings, "queueing a notification for \(app.partition): \(why)")
        }
        do throws(RequestRefusal) {
            try NotificationAttributes(
                bundleID: app.topic, type: content.pushType, priority: content.priority,
                expiration: content.expiration.map { UInt32(clamping: $0) },
                collapseID: content.collapseID
            ).checkPayload(bytes: content.payload.count)
        } catch {
            throw refuse("\(error)")
        }
        let value = try? JSONSerialization.jsonObject(with: Data(content.payload))
        guard value is [String: Any] else {
            throw refuse("the payload is no JSON object; APNs takes one with a member \"aps\"")
        }
    }
}

import APNsProtocol
import Database
import Foundation
import PushQueue
import TokenHygiene
import TokenTable

/// Puts a payload for some tokens into the queue, after the checks that APNs would make.
package struct Enqueue {
    /// The recipients of the notifications.
    package enum Recipients: Sendable {
        /// Tokens as text; see `DeviceToken.init(spelling:)` for the accepted forms.
        case tokens([String])
        /// The tokens of these users.
        case users([String])
    }

    /// The result of queueing.
    package struct Report: Codable, Hashable, Sendable {
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// Number of notifications put into the queue.
        package var queued = 0
        /// Number of lines that are not tokens; none of them was queued.
        package var malformed = 0
        /// Number of users without a token that notifications can be sent to.
        package var unreachableUsers = 0
    }

    /// The fields that all the notifications share.
    package struct Content: Sendable {
        /// The payload, JSON in UTF-8.
        package var payload: [UInt8]
        /// `apns-push-type`; nil for the usual value. The same holds for the next three.
        package var pushType: String?
        /// `apns-priority`.
        package var priority: Int?
        /// `apns-expiration`, seconds since 1970.
        package var expiration: Int64?
        /// `apns-collapse-id`.
        package var collapseID: String?
        /// The time before which the notifications are not sent.
        package var notBefore: EpochMilliseconds?

        /// Takes the payload; all other fields are nil.
        package init(payload: [UInt8]) { self.payload = payload }
    }

    /// Puts the notifications into the queue. A call with at most some thousands of tokens queues all
    /// of them or none.
    ///
    /// - Throws: `RunFailure` for a payload that APNs would refuse, for an app that the settings do
    ///   not name, and for failures of the database.
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

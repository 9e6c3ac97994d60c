import Encodings

/// The value of `apns-topic`: the app's bundle id with the suffix of the push type, or for `mdm`
/// the UID in the certificate's subject. Source: Apple, "Sending notification requests to APNs".
package struct APNsTopic: Hashable, Sendable, CustomStringConvertible {
    /// The most bytes accepted. Apple states no limit; bundle ids are at most 155 characters in App
    /// Store Connect.
    package static let longest = 255

    /// The whole topic, suffix included.
    package let description: String

    /// Checks a whole topic. Throws `emptyTopic` or `malformedTopic`.
    package init(_ text: String) throws(RequestRefusal) {
        guard !text.isEmpty else { throw .emptyTopic }
        guard text.utf8.count <= Self.longest, text.utf8.allSatisfy(Self.isAllowed) else {
            throw .malformedTopic(text)
        }
        description = text
    }

    /// The topic of an app for a push type. A bundle id that already ends in the suffix is used as
    /// the topic. Throws `emptyTopic` or `malformedTopic`.
    package init(bundleID: String, for type: PushType) throws(RequestRefusal) {
        let suffix = type.topicSuffix
        try self.init(bundleID.hasSuffix(suffix) ? bundleID : bundleID + suffix)
    }

    /// Whether the topic ends as the push type requires.
    package func suits(_ type: PushType) -> Bool {
        description.utf8.count > type.topicSuffix.utf8.count
            && description.hasSuffix(type.topicSuffix)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
            // Not in Apple's rule for bundle ids, but seen in old ones.
            UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

/// The value of `apns-collapse-id`: notifications with the same one replace each other on the
/// device. Source: Apple, "Sending notification requests to APNs".
package struct CollapseID: Hashable, Sendable, CustomStringConvertible {
    /// The most bytes that APNs accepts.
    package static let longest = 64

    /// The text of the header.
    package let description: String

    /// Checks the form. Throws `emptyCollapseID`, `collapseIDTooLong` or `unprintableCollapseID`
    /// (RFC 9113 section 8.2.1 forbids control characters in header values, and HTTP libraries
    /// treat other characters differently).
    package init(_ text: String) throws(RequestRefusal) {
        guard !text.isEmpty else { throw .emptyCollapseID }
        guard text.utf8.count <= Self.longest else {
            throw .collapseIDTooLong(bytes: text.utf8.count)
        }
        // HTTP parsers would cut a space at either end, and two ids would become one.
        guard text.utf8.allSatisfy(PlainASCII.isPrintable), text.first != " ", text.last != " "
        else { throw .unprintableCollapseID }
        description = text
    }
}

/// The value of `apns-push-type`: the effect of a notification on the device. Required for watchOS
/// 6 and later, recommended elsewhere. It decides the topic's suffix and the payload's limit.
/// Source: Apple, "Sending notification requests to APNs".
package enum PushType: String, Hashable, Sendable, CaseIterable {
    /// Shows an alert, plays a sound or sets a badge.
    case alert
    /// Wakes the app without showing anything to the user; never with priority 10.
    case background
    /// Updates a watchOS complication.
    case complication
    /// Updates a control.
    case controls
    /// Informs a File Provider extension of changes.
    case fileProvider = "fileprovider"
    /// Starts, updates or ends a Live Activity.
    case liveActivity = "liveactivity"
    /// Asks for the location; needs a provider token, because certificates do not cover it.
    case location
    /// Asks a managed device to contact its management server. The topic is the UID in the subject
    /// of the MDM certificate.
    case mdm
    /// Announces a Push to Talk transmission.
    case pushToTalk = "pushtotalk"
    /// Announces a call.
    case voip
    /// Updates a widget.
    case widgets

    /// The part of the topic after the bundle id; empty where the topic is the bundle id itself.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .complication: ".complication"
        case .controls: ".push-type.controls"
        case .fileProvider: ".pushkit.fileprovider"
        case .liveActivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushToTalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        }
    }

    /// The largest payload in bytes: 5120 for VoIP, 4096 for all other types.
    package var payloadLimit: Int { self == .voip ? 5120 : 4096 }
}

/// The value of `apns-priority`. Source: Apple, "Sending notification requests to APNs".
package enum NotificationPriority: UInt8, Hashable, Sendable, CaseIterable {
    /// Send at once; APNs' default. Not allowed with `background`.
    case immediate = 10
    /// Send when the device's power allows.
    case conserving = 5
    /// Saving power has priority; the notification never wakes the device.
    case lowest = 1

    /// The default priority of a push type: 10, but 5 where 10 is forbidden.
    package static func usual(for type: PushType) -> NotificationPriority {
        type == .background ? .conserving : .immediate
    }
}

/// The value of `apns-expiration`: how long APNs keeps a notification for a device that is not
/// reachable, at most 30 days. Source: Apple, "Sending notification requests to APNs".
package enum NotificationExpiration: Hashable, Sendable {
    /// One attempt, never stored: header value 0.
    case once
    /// APNs keeps it until this time.
    case until(EpochSeconds)

    /// Reads seconds since the Unix epoch as in the header; 0 there means `once`.
    package init(headerValue: UInt32) {
        self = headerValue == 0 ? .once : .until(EpochSeconds(headerValue))
    }

    /// The value for the header, in seconds since the Unix epoch; 0 for `once`.
    package var headerValue: UInt32 {
        switch self {
        case .once: 0
        case .until(let time): time.rawValue
        }
    }
}

/// A payload with members of `aps` only, for a notification that needs no more. Source: Apple,
/// "Generating a remote notification", table of the keys of `aps`.
package struct PlainPayload: Encodable, Hashable, Sendable {
    /// The members of `aps`; nil leaves one out.
    private struct Members: Encodable, Hashable, Sendable {
        var alert: String?
        var badge: Int?
        var sound: String?
        var category: String?
        var contentAvailable: Int?

        enum CodingKeys: String, CodingKey {
            case alert, badge, sound, category
            case contentAvailable = "content-available"
        }
    }

    private let aps: Members

    /// Makes a payload with these members: the text of the alert, the number on the app's icon (0 removes
    /// it), the name of the sound, the name of the actions' category, and whether the app is woken.
    package init(
        alert: String? = nil, badge: Int? = nil, sound: String? = nil, category: String? = nil,
        contentAvailable: Bool = false
    ) {
        aps = Members(
            alert: alert, badge: badge, sound: sound, category: category,
            contentAvailable: contentAvailable ? 1 : nil)
    }

    /// The push type that the payload needs: `background` where the device shows and plays nothing.
    package var pushType: PushType {
        let isSilent = aps.alert == nil && aps.badge == nil && aps.sound == nil
        return aps.contentAvailable != nil && isSilent ? .background : .alert
    }

    /// The JSON in UTF-8.
    package var bytes: [UInt8] { Array(jsonLine.utf8) }
}

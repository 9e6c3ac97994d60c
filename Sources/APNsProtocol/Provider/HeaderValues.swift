import Encodings

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

    /// The most bytes of a topic. Apple states no limit; bundle ids are at most 155 characters in App
    /// Store Connect.
    static let longestTopic = 255

    /// Whether a text is a bundle id with this type's suffix, or for `mdm` the UID in the certificate's
    /// subject.
    package func takes(topic: String) -> Bool {
        (topicSuffix.utf8.count + 1...Self.longestTopic).contains(topic.utf8.count)
            && topic.hasSuffix(topicSuffix)
            // The underscore is not in Apple's rule for bundle ids, but seen in old ones.
            && topic.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-_".contains($0)) }
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

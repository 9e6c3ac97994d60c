import Encodings

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

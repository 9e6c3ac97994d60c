// Logs and tables of senders for several platforms have tokens of them all. Some forms show by themselves
// that a token is not Apple's, and none of them is a spelling of one: they have a colon, a bracket or
// letters that no hex digit is. Tokens of other services, such as Huawei's, show nothing.

extension DeviceToken {
    /// Beginnings of tokens of Expo, of Amazon, of old ones of Google, and of the addresses that web push
    /// and Windows use in place of tokens.
    private static let foreignBeginnings = [
        "ExponentPushToken[", "ExpoPushToken[", "amzn1.adm-registration.", "APA91b", "https://",
    ].map { Array($0.utf8) }
    /// What follows the first part of a token of Firebase.
    private static let firebaseMark = Array(":APA91b".utf8)

    /// Whether a text is the token of another platform than Apple's by its form alone.
    package static func isOfOtherPlatform(spelling: [UInt8]) -> Bool {
        guard let start = spelling.firstIndex(where: { $0 != UInt8(ascii: " ") }) else {
            return false
        }
        let rest = spelling[start...]
        if foreignBeginnings.contains(where: { rest.starts(with: $0) }) { return true }
        guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else { return false }
        return rest[colon...].starts(with: firebaseMark)
    }
}

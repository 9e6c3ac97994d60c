/// Why the text of a setting was refused, as the end of a sentence that begins with the setting.
/// Whoever read the text knows where it stood and begins the sentence.
package struct SettingRefusal: Error, Hashable, Sendable {
    /// `must be ...`, with what to write instead.
    package let reason: String

    /// States the end of the sentence.
    package init(_ reason: String) { self.reason = reason }
}

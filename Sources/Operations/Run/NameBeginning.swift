/// The beginning of the name of a run, a feed or a hold, as a person types it. It needs at least four
/// characters. An empty text, from an unset variable of a script, would match every name, and one
/// digit soon matches several.
struct NameBeginning {
    /// The least number of characters.
    static let least = 4

    private let text: String

    /// Takes the typed text; nil when it is too short.
    init?(_ text: String) {
        guard text.count >= Self.least else { return nil }
        self.text = text.lowercased()
    }

    /// Whether a name begins with the text.
    func begins(_ name: String) -> Bool { name.hasPrefix(text) }

    /// The message about a text that is too short.
    static let refusal = "give at least \(least) characters of its name"
}

/// The beginning of the name of a run, a feed or a hold, as a person types it. Fewer than four characters
/// name nothing: an empty text, from a variable of a script that is not set, begins every name, and the first
/// digit of one is soon that of another.
struct NameBeginning {
    /// The fewest characters.
    static let least = 4

    private let text: String

    /// Takes what was typed; nil where it is too short.
    init?(_ text: String) {
        guard text.count >= Self.least else { return nil }
        self.text = text.lowercased()
    }

    /// Whether a name begins so.
    func begins(_ name: String) -> Bool { name.hasPrefix(text) }

    /// What is said about one that is too short.
    static let refusal = "give at least \(least) characters of its name"
}

extension Int {
    /// The number and its noun, with an "s" unless the number is one: "1 feed", "0 feeds".
    package func counting(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}

extension Int {
    /// The number and a noun that takes an "s" where there is not exactly one: "1 feed", "0 feeds".
    package func counting(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}

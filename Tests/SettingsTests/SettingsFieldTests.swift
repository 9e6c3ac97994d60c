import Testing

@testable import Settings

@Suite("Fields of settings")
struct SettingsFieldTests {
    let fixture: SettingsFixture

    init() throws { fixture = try SettingsFixture() }

    @Test(
        "every setting can be given by its variable, and every field gets its value from a row",
        // An app has one of the two groups.
        arguments: ["apps[].provider", "apps[].binary"])
    func filled(without group: String) throws {
        var environment: [String: String] = [:]
        for rule in SettingsTable.rules where !rule.key.hasPrefix("\(group).") {
            guard let variable = rule.variable?.replacing("<NAME>", with: "CHAT") else { continue }
            environment[variable] = unusual(rule)
        }
        let settings = try fixture.load(
            "apps: [{name: chat, topic: t, environment: production}]", environment: environment)
        for origin in settings.origins where origin.key != "apps[chat].name" {
            #expect("\(origin.origin)".hasPrefix("environment "), "\(origin.key)")
        }
        var app = Settings.App()
        app.certificate = Settings.Certificate()
        app.tokenKey = Settings.TokenKey()
        app.feedback = Settings.Feedback()
        if group == "apps[].binary" {
            app.provider = Settings.Provider()
        } else {
            app.binary = Settings.Binary()
        }
        var empty = Settings()
        empty.apps = [app]
        let before = leaves(empty)
        let absent = group.replacing("apps[]", with: "")
        for (field, value) in leaves(settings)
        where !field.hasPrefix(".origins") && !field.hasSuffix(absent)
            && !Self.ofRuns.contains(field)
        {
            #expect(before[field] != value, "\(field) stays \(value)")
        }
    }

    /// Fields that a run fills and no setting.
    private static let ofRuns = [
        ".store.timeouts.lockWait", ".store.use", ".store.hosts", ".store.wantsQueue",
        ".throttle.replicas", ".throttle.began", ".throttle.report", ".throttle.scripted",
        ".policy.onlyBeyondDoubt",
    ]

    /// A value that no field starts with.
    private func unusual(_ rule: SettingRule) -> String {
        let words = rule.kind.plainWords
        // The greatest value of a range, or the last of several words.
        if let range = words.range(of: " to ") { return String(words[range.upperBound...]) }
        switch words {
        case _ where words.hasPrefix("percent"): return "99"
        case "true or false": return "true"
        case _ where words.hasPrefix("UTC"): return "+02:00"
        case _ where words.hasPrefix("10 capital"): return "ABC123DEFG"
        case "path": return "/x"
        case _ where words.hasPrefix("list of mysql"): return "mysql://h/p"
        case _ where words.hasSuffix("address") && words.hasPrefix("mysql"): return "sqlite:///x"
        case _ where words.hasPrefix("number of running"): return "7"
        case _
        where words.contains(" or ") && !words.contains("none")
            && !words.hasPrefix("host"):
            return words.split(separator: " ").last.map(String.init) ?? ""
        default: return rule.key.filter(\.isLetter)
        }
    }

    /// The plain values in a value, by their paths; an enumeration is plain.
    private func leaves(_ value: Any, _ path: String = "") -> [String: String] {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .optional, let some = mirror.children.first?.value {
            return leaves(some, path)
        }
        guard mirror.displayStyle == .struct || mirror.displayStyle == .collection,
            !mirror.children.isEmpty
        else { return [path: "\(value)"] }
        return mirror.children.enumerated().reduce(into: [:]) { result, child in
            let name = "\(path).\(child.element.label ?? String(child.offset))"
            result.merge(leaves(child.element.value, name)) { first, _ in first }
        }
    }
}

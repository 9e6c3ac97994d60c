import Database

/// The rules about several settings.
struct SettingsRules {
    private let resolved: SettingsResolver
    private let labels: [AppLabel]

    /// Takes the resolved settings.
    init(_ resolved: SettingsResolver, labels: [AppLabel]) {
        self.resolved = resolved
        self.labels = labels
    }

    /// Adds every contradiction to `problems`.
    func check(_ problems: inout SettingsProblems) {
        checkApps(&problems)
        checkColumns(&problems)
        checkShape(&problems)
        checkStore(&problems)
        checkPolicy(&problems)
    }

    /// A removal after a grace period finds younger marks in the ledger, so the ledger must be kept
    /// for longer.
    private func checkPolicy(_ problems: inout SettingsProblems) {
        guard let deleteAfter = time("policy.delete-after") else { return }
        if let kept = time("policy.keep-ledger"), kept < deleteAfter + .seconds(86_400) {
            problems.add(
                resolved.place("policy.delete-after"),
                "policy.delete-after needs a ledger of a day more; make policy.keep-ledger longer")
        }
    }

    private func time(_ key: String) -> Duration? {
        guard case .milliseconds(let milliseconds)? = resolved.values[key] else { return nil }
        return .milliseconds(milliseconds)
    }

    private func checkApps(_ problems: inout SettingsProblems) {
        var seen: [String: String] = [:]
        for (index, label) in labels.enumerated() {
            let app = SettingsDocument.app(index)
            if let name = text("\(app).name"), let environment = text("\(app).environment") {
                let place = resolved.place("\(app).name")
                if let first = seen["\(name)/\(environment)"] {
                    problems.add(
                        place,
                        "app \(name) with environment \(environment) is given twice, first at "
                            + "\(first); keep one or name them apart")
                } else {
                    seen["\(name)/\(environment)"] = place
                }
            }
            if resolved.isGroupPresent("\(app).provider"),
                !resolved.isGroupPresent("\(app).certificate"),
                !resolved.isGroupPresent("\(app).token-key")
            {
                problems.add(
                    resolved.place("\(app).provider"),
                    "\(label.shown).provider needs a certificate or a token-key to send with")
            }
            guard resolved.isGroupPresent("\(app).binary") else { continue }
            let place = resolved.place("\(app).binary")
            if resolved.isGroupPresent("\(app).provider") {
                problems.add(
                    place,
                    "\(label.shown).binary and .provider are both given; an app sends through one of "
                        + "them: remove the other")
            }
            if !resolved.isGroupPresent("\(app).certificate") {
                problems.add(
                    place,
                    "\(label.shown).binary needs a certificate, by which the gateway knows it")
            }
        }
    }

    /// If one column had two roles, one value would overwrite the other. Only the key may share a
    /// column, because a token can be the key of its table.
    private func checkColumns(_ problems: inout SettingsProblems) {
        var seen: [String: String] = [:]
        for part in [
            "token", "app", "environment", "platform", "registered-at", "invalidated-at", "living",
            "reason",
        ] {
            let key = "store.active-users.\(part).column"
            let name: String
            switch resolved.values[key] {
            case .text(let text)?, .column(.named(let text))?: name = text.lowercased()
            default: continue
            }
            if let other = seen[name] {
                problems.add(
                    resolved.place(key),
                    "\(key) is the same column as \(other); each needs its own")
            } else {
                seen[name] = key
            }
        }
        if let production = text("store.active-users.environment.values.production"),
            production == text("store.active-users.environment.values.sandbox")
        {
            problems.add(
                resolved.place("store.active-users.environment.values.sandbox"),
                "store.active-users.environment.values are the same for production and sandbox; "
                    + "give each the value its rows hold")
        }
    }

    /// A column without its values selects or marks nothing.
    private func checkShape(_ problems: inout SettingsProblems) {
        let users = "store.active-users"
        for group in [
            ["platform.column", "platform.value"],
            ["living.column", "living.living", "living.dead"],
        ] {
            let keys = group.map { "\(users).\($0)" }
            guard let given = keys.first(where: { text($0) != nil }) else { continue }
            for missing in keys where text(missing) == nil {
                problems.add(resolved.place(given), "\(given) needs \(missing) too; write both")
            }
        }
        let (living, dead) = (text("\(users).living.living"), text("\(users).living.dead"))
        if let living, living == dead {
            problems.add(
                resolved.place("\(users).living.dead"),
                "\(users).living.living and .dead are the same value; give the two that the rows hold"
            )
        }
    }

    private func checkStore(_ problems: inout SettingsProblems) {
        guard case .store(let location)? = resolved.values["store.url"],
            StoreTLS.usual(for: location) != .off,
            text("store.tls.mode") == "off", resolved.values["store.tls.ca"] != nil
        else { return }
        problems.add(
            resolved.place("store.tls.ca"),
            "store.tls.ca has no effect while store.tls.mode is off; remove one of them")
    }

    private func text(_ key: String) -> String? {
        guard case .text(let text)? = resolved.values[key] else { return nil }
        return text
    }
}

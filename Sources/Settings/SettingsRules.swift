import Database

// The rules about several settings.

extension SettingsResolver {
    /// Adds every contradiction to `problems`.
    func checkTogether(_ problems: inout SettingsProblems) {
        checkApps(&problems)
        checkColumns(&problems)
        checkShape(&problems)
        let (store, policy) = (filled.store, filled.policy)
        if values["store.url"] != nil, StoreTLS.usual(for: store.location) != .off,
            values["store.tls.mode"] == "off", values["store.tls.ca"] != nil
        {
            problems.add(
                place("store.tls.ca"),
                "store.tls.ca has no effect while store.tls.mode is off; remove one of them")
        }
        // A removal after a grace period finds younger marks in the ledger.
        if let deletesAfter = policy.deletesAfter, values["policy.keep-ledger"] != nil,
            filled.keepLedger < deletesAfter + 86_400_000
        {
            problems.add(
                place("policy.delete-after"),
                "policy.delete-after needs a ledger of a day more; make policy.keep-ledger longer")
        }
    }

    private func checkApps(_ problems: inout SettingsProblems) {
        var seen: [String: String] = [:]
        for (index, label) in labels.enumerated() {
            let app = SettingsDocument.app(index)
            if let name = values["\(app).name"], let environment = values["\(app).environment"] {
                let place = self.place("\(app).name")
                // An alias of YAML has the place of its anchor.
                if let first = seen.updateValue(place, forKey: "\(name)/\(environment)") {
                    problems.add(
                        place,
                        "app \(name) with environment \(environment) is given twice, first at "
                            + "\(first); keep one or name them apart")
                }
            }
            func has(_ group: String) -> Bool { isGroupPresent("\(app).\(group)") }
            let (sends, hasCertificate) = (has("provider"), has("certificate"))
            for (group, isWrong, sentence) in [
                (
                    "provider", sends && !hasCertificate && !has("token-key"),
                    "provider needs a certificate or a token-key to send with"
                ),
                (
                    "binary", has("binary") && sends,
                    "binary and .provider are both given; an app sends through one of them: remove "
                        + "the other"
                ),
                (
                    "binary", has("binary") && !hasCertificate,
                    "binary needs a certificate, by which the gateway knows it"
                ),
            ] where isWrong {
                problems.add(place("\(app).\(group)"), "\(label.shown).\(sentence)")
            }
        }
    }

    /// If one column had two roles, one value would overwrite the other. Only the key may share a
    /// column, because a token can be the key of its table.
    private func checkColumns(_ problems: inout SettingsProblems) {
        var seen: [String: String] = [:]
        let users = filled.store.mapping
        let columns: [(String, OptionalColumn?)] = [
            ("token", .named(users.token)), ("app", users.app), ("environment", users.environment),
            ("platform", users.platform.column.map { .named($0) }),
            ("registered-at", users.registeredAt.column),
            ("invalidated-at", users.invalidatedAt.column),
            ("living", users.living.column.map { .named($0) }), ("reason", users.reason),
        ]
        for (part, column) in columns {
            let key = "store.active-users.\(part).column"
            guard case .named(let column)? = column, values[key] != nil else { continue }
            if let other = seen.updateValue(key, forKey: column.lowercased()) {
                problems.add(
                    place(key), "\(key) is the same column as \(other); each needs its own")
            }
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
            guard let given = keys.first(where: { values[$0] != nil }) else { continue }
            for missing in keys where values[missing] == nil {
                problems.add(place(given), "\(given) needs \(missing) too; write both")
            }
        }
        for (one, other) in [
            ("environment.values.production", "environment.values.sandbox"),
            ("living.living", "living.dead"),
        ] {
            guard let value = values["\(users).\(one)"], value == values["\(users).\(other)"]
            else { continue }
            let word = other.split(separator: ".").last ?? ""
            problems.add(
                place("\(users).\(other)"),
                "\(users).\(one) and .\(word) are the same value; give the two that the rows hold")
        }
    }
}

import Database

extension Settings {
    /// When a run pauses for a busy database, and when it ends early.
    package struct Throttle: Sendable, Equatable {
        /// How far a replica may lag; nil: nobody asks.
        package var maxLag: Duration?
        /// Load beyond which a run pauses.
        package var maxLoad: LoadLimits?
        /// Load beyond which a run ends.
        package var criticalLoad: LoadLimits?
        /// How long a run may last.
        package var timeBudget: Duration?
        /// File whose presence ends a run.
        package var stopFile: String
        /// Replicas whose lag counts; empty: the database's own.
        package var replicas: [StoreLocation]

        /// Lays what was typed over what the settings say.
        ///
        /// - Throws: the first option whose text is no such value.
        package func overridden(
            by options: ThrottleOverrides, folder: String
        ) throws(OptionRefusal) -> Throttle {
            let reader = OptionReader(parser: SettingParser(folder: folder))
            var throttle = self
            if let text = options.maxLag {
                // Seconds without a unit, as gh-ost and pt-archiver take them.
                let isBare = !text.isEmpty && text.allSatisfy { ("0"..."9").contains($0) }
                throttle.maxLag = try reader.duration(isBare ? text + "s" : text, "max-lag")
            }
            if let text = options.maxLoad { throttle.maxLoad = try reader.load(text, "max-load") }
            if let text = options.criticalLoad {
                throttle.criticalLoad = try reader.load(text, "critical-load")
            }
            if let text = options.timeBudget {
                throttle.timeBudget = try reader.duration(text, "time-budget")
            }
            if let text = options.stopFile {
                throttle.stopFile = try reader.path(text, "stop-file")
            }
            if !options.lagReplicas.isEmpty {
                throttle.replicas = try reader.replicas(options.lagReplicas)
            }
            return throttle
        }
    }
}

/// What of the throttle was typed on the command line; nil where nothing was.
package struct ThrottleOverrides: Sendable {
    /// `--max-lag`.
    package var maxLag: String?
    /// `--max-load`.
    package var maxLoad: String?
    /// `--critical-load`.
    package var criticalLoad: String?
    /// `--time-budget`.
    package var timeBudget: String?
    /// `--stop-file`.
    package var stopFile: String?
    /// `--lag-replica`, each.
    package var lagReplicas: [String] = []

    /// Nothing was typed.
    package init() {}
}

/// Why the text of an option was refused.
package struct OptionRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The name of the option without its hyphens.
    package let option: String
    /// `must be ...`, with what to write instead.
    package let reason: String

    /// One sentence that names the option.
    package var description: String { "reading --\(option): it \(reason)" }
}

/// Reads options by the rules of the settings of the same name.
private struct OptionReader {
    let parser: SettingParser

    private func value(
        _ text: String, _ name: String, option: String? = nil
    ) throws(OptionRefusal) -> SettingValue? {
        guard let rule = SettingsTable.rule("throttle.\(name)") else { return nil }
        do {
            return try parser.value(text, rule.kind)
        } catch {
            throw OptionRefusal(option: option ?? name, reason: error.reason)
        }
    }

    func duration(_ text: String, _ name: String) throws(OptionRefusal) -> Duration? {
        guard case .milliseconds(let milliseconds)? = try value(text, name) else { return nil }
        return .milliseconds(milliseconds)
    }

    func load(_ text: String, _ name: String) throws(OptionRefusal) -> LoadLimits? {
        guard case .load(let limits)? = try value(text, name) else { return nil }
        return limits
    }

    func path(_ text: String, _ name: String) throws(OptionRefusal) -> String {
        guard case .text(let path)? = try value(text, name) else { return text }
        return path
    }

    func replicas(_ texts: [String]) throws(OptionRefusal) -> [StoreLocation] {
        var replicas: [StoreLocation] = []
        for text in texts {
            guard case .servers(let servers)? = try value(text, "replicas", option: "lag-replica")
            else { continue }
            replicas += servers
        }
        return replicas
    }
}

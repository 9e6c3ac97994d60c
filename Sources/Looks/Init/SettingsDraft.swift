import Database
import Encodings
import Operations
import SchemaLook
import Settings
import TokenTable

/// A settings file for a mapping that was found: each line with its reason, questions as comments.
struct SettingsDraft {
    let proposal: MappingProposal
    let location: StoreLocation
    /// The authorities' file, where one was given.
    let ca: String?
    let tlsIsOff: Bool

    /// The account that the printed grants make, in place of that of the person who looks.
    static let account = "pushsweep"

    /// The whole file.
    var text: String { (head + store + apps).joined(separator: "\n") + "\n" }

    private var head: [String] {
        var lines = [
            "# Proposed by `pushsweep init` from \(proposal.rows) rows of \(proposal.table.canonicalName).",
            "# A line with a question mark is for you to decide.",
        ]
        if !proposal.statements.isEmpty {
            lines.append("# Before `check`, as an administrator of the database:")
            lines += proposal.statements.map { "#   \($0.printable);" }
        }
        return lines + ["state: /var/lib/pushsweep"]
    }

    private var store: [String] {
        var lines = ["store:", "  url: \(address.yamlScalar)"]
        if case .server = location {
            lines += Self.comment(
                "the password that the account \(Self.account) will get", indent: 2)
            lines.append("  password-file: db-password")
            if let ca { lines.append("  tls: {ca: \(ca.yamlScalar)}") }
            if tlsIsOff { lines.append("  tls: {mode: off}") }
        }
        lines.append("  active-users:")
        lines.append("    table: \(proposal.table.name.description.yamlScalar)")
        return lines + proposal.lines.flatMap(line)
    }

    private func line(_ line: MappingProposal.Line) -> [String] {
        guard let value = line.value else {
            return question(line)
        }
        return Self.comment(line.reason, indent: 4) + ["    \(line.part.rawValue): \(value)"]
    }

    /// A question with what answers it, each on a line of its own, because a person copies it: the option, a
    /// statement, and the line that is right then, for a person to take the sign of a comment away.
    private func question(_ line: MappingProposal.Line) -> [String] {
        let part = line.part.rawValue
        let place = line.part == .invalidatedAt ? " in place of invalidated-at: none" : ""
        let ways = [
            line.answer.map { _ in "answer with this option" },
            [
                line.statement.map { _ in "run this statement" },
                line.setting.map { _ in "take this line\(place)" },
            ].compactMap { $0 }.joined(separator: ", then "),
        ].compactMap { $0 }.filter { !$0.isEmpty }.joined(separator: ", or ")
        let answers = [
            line.answer.map { "  \($0)" }, line.statement.map { "  \($0);" },
            line.setting.map { "\(part): \($0)" },
        ]
        return Self.comment(
            "? \(part): \(line.reason)" + (ways.isEmpty ? "" : "; \(ways):"), indent: 4)
            + answers.compactMap { $0 }.map { "    # \($0.printable)" }
    }

    /// A text as comments of at most 80 columns.
    private static func comment(_ text: String, indent: Int) -> [String] {
        let start = String(repeating: " ", count: indent) + "# "
        return TerminalStyle(columns: 80 - start.count, isColoured: false)
            .rows(text.printable, .prose).map { start + $0 }
    }

    private var address: String {
        guard case .server(let server) = location else { return "\(location)" }
        return StoreLocation.server(
            .init(addresses: server.addresses, user: Self.account, database: server.database)
        ).description
    }

    private var apps: [String] {
        let values: [String?] = proposal.apps.isEmpty ? [nil] : proposal.apps
        let known = ["production", "sandbox"].filter(proposal.environments.contains)
        let environments = known.isEmpty ? ["production"] : known
        var lines = ["apps:"]
        var names: Set<String> = []
        for (place, value) in values.enumerated() {
            let topic = value.flatMap { $0.contains(".") ? $0 : nil } ?? proposal.topic
            var name = Self.name(value ?? proposal.topic, place)
            while !names.insert(name).inserted { name += "-\(place + 1)" }
            for environment in environments {
                lines.append("  - name: \(name.yamlScalar)")
                if let value, value != name {
                    lines.append("    value: \(value.yamlScalar)   # in the column of apps")
                }
                if topic == nil {
                    lines.append("    # ? topic: the bundle identifier of the app")
                }
                let usual = "com.example.\(place == 0 ? "app" : "app\(place + 1)")"
                lines.append("    topic: \((topic ?? usual).yamlScalar)")
                if known.isEmpty {
                    lines.append(
                        "    # ? environment: sandbox, where all tokens are of development")
                }
                lines.append("    environment: \(environment)")
            }
        }
        return lines
    }

    /// A name for commands and reports: the last word of a bundle identifier, or the value itself.
    private static func name(_ value: String?, _ place: Int) -> String {
        let word = value?.split(separator: ".").last.map(String.init) ?? ""
        let plain = word.filter { $0.isASCII && ($0.isLetter || $0.isNumber || "-_".contains($0)) }
        if plain.isEmpty { return place == 0 ? "app" : "app\(place + 1)" }
        return plain.first?.isLetter == true ? plain : "app-\(plain)"
    }
}

// The report for the pages of a CI: JUnit XML, which nearly every CI reads as a list of tests, and
// Markdown for a summary. Texts of a finding may come from a certificate, a database or a file name, so
// every character with a meaning in the format is escaped, and control characters are shown as numbers.

extension GateReport {
    /// The report as JUnit XML: each rule is a test, and one with a finding that shuts the gate has
    /// failed.
    package var junit: String {
        let rules = GateRule.allCases
        let failing = rules.filter { rule in shutting.contains { $0.rule == rule } }
        let ignored = rules.filter { rule in
            !failing.contains(rule) && findings.contains { $0.rule == rule && $0.ignored != nil }
        }
        let name = "pushsweep preflight \(partition)".xml
        let counts =
            "tests=\"\(rules.count)\" failures=\"\(failing.count)\" errors=\"0\" "
            + "skipped=\"\(ignored.count)\""
        var lines = [
            #"<?xml version="1.0" encoding="UTF-8"?>"#,
            "<testsuites name=\"\(headline.xml)\" \(counts)>",
            "  <testsuite name=\"\(name)\" \(counts) timestamp=\"\(started.xml)\">",
        ]
        for rule in rules {
            let found = findings.filter { $0.rule == rule }
            let head = "    <testcase classname=\"\(name)\" name=\"\(rule.rawValue)\""
            guard !found.isEmpty else {
                lines.append(head + "/>")
                continue
            }
            lines.append(head + ">")
            let text = found.map { "\($0.object): \($0.message); \($0.cure)".xml }
                .joined(separator: "\n")
            if failing.contains(rule) {
                let worst = found.max { $0.severity < $1.severity }
                let message = worst.map { "\($0.object): \($0.message)" } ?? rule.summary
                lines.append(
                    "      <failure type=\"\((worst?.severity ?? .high).rawValue)\" "
                        + "message=\"\(message.xml)\">\(text)</failure>")
            } else if ignored.contains(rule) {
                lines.append("      <skipped message=\"\(reasons(found).xml)\"/>")
            } else {
                lines.append("      <system-out>\(text)</system-out>")
            }
            lines.append("    </testcase>")
        }
        return (lines + ["  </testsuite>", "</testsuites>"]).joined(separator: "\n")
    }

    private func reasons(_ findings: [GateFinding]) -> String {
        findings.compactMap { $0.ignored.map { "until \($0.until): \($0.reason)" } }
            .joined(separator: "; ")
    }

    /// The report as Markdown, for the summary of a CI step.
    package var markdown: String {
        var lines = [
            "### \(headline.markdown)", "",
        ]
        if !findings.isEmpty {
            lines += [
                "| severity | rule | object | finding | what to do |",
                "| --- | --- | --- | --- | --- |",
            ]
            lines += findings.map { finding in
                let cells = [
                    finding.ignored == nil
                        ? finding.severity.rawValue : "\(finding.severity.rawValue), ignored",
                    finding.rule.rawValue, finding.object, finding.message,
                    finding.ignored.map { "ignored until \($0.until): \($0.reason)" }
                        ?? finding.cure,
                ]
                return "| \(cells.map(\.markdown).joined(separator: " | ")) |"
            }
            lines.append("")
        }
        lines += ["| looked at | |", "| --- | --- |"]
        lines += facts.map { "| \($0.name.markdown) | \($0.value.markdown) |" }
        lines.append("| from | \(started.markdown) |")
        return lines.joined(separator: "\n")
    }
}

extension String {
    /// The text as content of XML or of an attribute in double quotes, on one line.
    fileprivate var xml: String {
        var shown = ""
        for character in printable.unicodeScalars {
            switch character {
            case "&": shown += "&amp;"
            case "<": shown += "&lt;"
            case ">": shown += "&gt;"
            case "\"": shown += "&quot;"
            // Not characters of XML 1.0, whose processors refuse them.
            case "\u{FFFE}", "\u{FFFF}": shown += "?"
            default: shown.unicodeScalars.append(character)
            }
        }
        return shown
    }

    /// The text as plain text of Markdown in a cell of a table.
    fileprivate var markdown: String {
        var shown = ""
        for character in printable.unicodeScalars {
            switch character {
            case "&": shown += "&amp;"
            case "<": shown += "&lt;"
            case ">": shown += "&gt;"
            case "\\", "`", "*", "_", "|", "[", "]", "~", "!", "@", "#":
                shown += "&#\(character.value);"
            default: shown.unicodeScalars.append(character)
            }
        }
        return shown
    }
}

import Encodings

// The report as Markdown, for the summary of a CI step. Texts of a finding may come from a certificate, a database
// or a file name, so every character with a meaning in Markdown is escaped, and control characters are shown
// as numbers.

extension PreflightReport {
    /// The report as Markdown, for the summary of a CI step.
    package var markdown: String {
        func row(_ cells: [String]) -> String {
            "| \(cells.map(\.markdown).joined(separator: " | ")) |"
        }
        var lines = ["### \(headline.markdown)", ""]
        if !findings.isEmpty {
            lines += [
                row(["severity", "rule", "object", "finding", "what to do"]),
                "| --- | --- | --- | --- | --- |",
            ]
            lines += findings.map { finding in
                row([
                    finding.severity.rawValue + (finding.ignored == nil ? "" : ", ignored"),
                    finding.rule, finding.object, finding.sentence,
                    finding.decision ?? finding.cure,
                ])
            }
            lines.append("")
        }
        lines += ["| looked at | |", "| --- | --- |"] + facts.map { row([$0.name, $0.value]) }
        return (lines + [row(["from", started])]).joined(separator: "\n")
    }
}

extension String {
    /// The text as plain text of Markdown in a cell of a table.
    fileprivate var markdown: String {
        printable.replacing { character in
            switch character {
            case "&": "&amp;"
            case "<": "&lt;"
            case ">": "&gt;"
            case "\\", "`", "*", "_", "|", "[", "]", "~", "!", "@", "#": "&#\(character.value);"
            default: nil
            }
        }
    }
}

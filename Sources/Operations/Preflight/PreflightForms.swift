import Database
import Encodings
import Foundation

// The report for the pages of a CI: JUnit XML, which nearly every CI reads as a list of tests, Markdown for a
// summary, and SARIF, which code hosts show beside a change. Texts of a finding may come from a certificate, a
// database or a file name, so every character with a meaning in the format is escaped, and control
// characters are shown as numbers.

extension PreflightReport {
    /// The report as JUnit XML: each rule is a test, and one with a finding that shuts the gate has
    /// failed.
    package var junit: String {
        let rules = PreflightRules.all
        let failing = Set(shutting.map(\.rule))
        let ignored = Set(findings.filter { $0.ignored != nil }.map(\.rule)).subtracting(failing)
        let name = "pushsweep preflight \(app)/\(environment)".xml
        let counts =
            "tests=\"\(rules.count)\" failures=\"\(failing.count)\" errors=\"0\" "
            + "skipped=\"\(ignored.count)\""
        var lines = [
            #"<?xml version="1.0" encoding="UTF-8"?>"#,
            "<testsuites name=\"\(headline.xml)\" \(counts)>",
            "  <testsuite name=\"\(name)\" \(counts) timestamp=\"\(started.xml)\">",
        ]
        for rule in rules {
            let found = findings.filter { $0.rule == rule.name }
            let head = "    <testcase classname=\"\(name)\" name=\"\(rule.name)\""
            guard let worst = found.max(by: { $0.severity < $1.severity }) else {
                lines.append(head + "/>")
                continue
            }
            let text = found.map { "\($0.object): \($0.sentence); \($0.cure)".xml }
                .joined(separator: "\n")
            let reasons = found.compactMap { $0.ignored.map { "until \($0.until): \($0.reason)" } }
            lines += [
                head + ">",
                failing.contains(rule.name)
                    ? "      <failure type=\"\(worst.severity.rawValue)\" "
                        + "message=\"\("\(worst.object): \(worst.sentence)".xml)\">\(text)</failure>"
                    : ignored.contains(rule.name)
                        ? "      <skipped message=\"\(reasons.joined(separator: "; ").xml)\"/>"
                        : "      <system-out>\(text)</system-out>",
                "    </testcase>",
            ]
        }
        return (lines + ["  </testsuite>", "</testsuites>"]).joined(separator: "\n")
    }

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

    /// The report as a log in the Static Analysis Results Interchange Format, version 2.1.0 (OASIS
    /// Standard). A finding is about settings or a database and not about a line of code, so its place is
    /// the settings file, and its object is a logical location. `program` is the version of this program,
    /// and `file` the settings file, if there is one.
    package func sarif(program: String, file: String?) -> String {
        let rules = PreflightRules.all.map {
            ["id": $0.name, "shortDescription": ["text": $0.summary]] as [String: Any]
        }
        let driver: [String: Any] = [
            "name": "pushsweep preflight", "version": program, "rules": rules,
        ]
        let invocation: [String: Any] = [
            "executionSuccessful": true, "exitCode": Int(exit),
            "exitCodeDescription": headline.printable,
        ]
        let run: [String: Any] = [
            "tool": ["driver": driver], "results": findings.map { result($0, file) },
            "invocations": [invocation],
            "properties": ["app": app, "environment": environment, "gate": gate],
        ]
        let log: [String: Any] = [
            "version": "2.1.0", "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "runs": [run],
        ]
        let line = try? JSONSerialization.data(
            withJSONObject: log, options: [.sortedKeys, .withoutEscapingSlashes])
        return line.map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }

    private func result(_ finding: Finding, _ file: String?) -> [String: Any] {
        var place: [String: Any] = [
            "logicalLocations": [["fullyQualifiedName": finding.object.printable]]
        ]
        if let file {
            let uri = URL(fileURLWithPath: file).absoluteString
            place["physicalLocation"] = ["artifactLocation": ["uri": uri]]
        }
        let suppressions = [finding.ignored].compactMap { $0 }.map {
            ["kind": "external", "justification": "until \($0.until): \($0.reason)".printable]
        }
        return [
            "ruleId": finding.rule,
            "ruleIndex": PreflightRules.all.firstIndex { $0.name == finding.rule } ?? 0,
            "level": finding.severity == .high
                ? "error" : finding.severity == .medium ? "warning" : "note",
            "message": ["text": "\(finding.sentence); \(finding.cure)".printable],
            "locations": [place], "suppressions": suppressions,
            "properties": ["severity": finding.severity.rawValue],
        ]
    }
}

extension String {
    /// The text as content of XML or of an attribute in double quotes, on one line.
    fileprivate var xml: String {
        printable.replacing { character in
            switch character {
            case "&": "&amp;"
            case "<": "&lt;"
            case ">": "&gt;"
            case "\"": "&quot;"
            // Not characters of XML 1.0, whose processors refuse them.
            case "\u{FFFE}", "\u{FFFF}": "?"
            default: nil
            }
        }
    }

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

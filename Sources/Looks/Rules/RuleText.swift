// What rules say stands in the files of `Texts`, which are embedded into the program. An entry is the name of the
// rule and five paragraphs, each behind its word. A paragraph may go on in indented lines. An empty line ends the entry:
//
//   no-index
//   Severity: medium
//   Seen: No index leads to the tokens of the table, or to the rows of the queue
//     that wait.
//   Why: ...
//   Look: ...
//   Next: ...

/// What `pushsweep help RULE` says.
package struct RuleText: Hashable, Sendable {
    /// The severities and when each, in words.
    package let severity: String
    /// What was seen, why it matters, how to look closer, what to do.
    package let seen, why, look, next: String

    /// Takes the paragraphs from the lines behind the name. One that is missing is empty.
    init(_ lines: some Sequence<Substring>) {
        let words = ["Severity: ", "Seen: ", "Why: ", "Look: ", "Next: "]
        var paragraphs = Array(repeating: "", count: words.count)
        var place = 0
        for line in lines {
            if let begun = words.firstIndex(where: { line.hasPrefix($0) }) {
                place = begun
                paragraphs[place] += line.dropFirst(words[place].count)
            } else {
                paragraphs[place] += " \(line.drop { $0 == " " })"
            }
        }
        (severity, seen) = (paragraphs[0], paragraphs[1])
        (why, look, next) = (paragraphs[2], paragraphs[3], paragraphs[4])
    }

    /// The files, in the order of the lists of `RuleBook`.
    private static let files: [[UInt8]] = [
        PackageResources.settings_txt, PackageResources.credentials_txt,
        PackageResources.server_txt, PackageResources.table_txt,
        PackageResources.evidence_txt, PackageResources.rhythm_txt,
        PackageResources.tokens_txt, PackageResources.send_txt,
        PackageResources.queue_txt, PackageResources.ignoring_txt,
    ]

    /// All entries, in the order of the files.
    static let entries: [(name: String, text: RuleText)] = files.flatMap { file in
        String(decoding: file, as: UTF8.self).split(separator: "\n\n").compactMap { entry in
            let lines = entry.split(separator: "\n")
            return lines.first.map { (String($0), RuleText(lines.dropFirst())) }
        }
    }

    private static let byName = Dictionary(entries.map { ($0.name, $0.text) }) { first, _ in first }

    /// The text of a rule: a test finds one that is missing, and here it is empty.
    fileprivate static func of(_ name: String) -> RuleText { byName[name] ?? RuleText([]) }
}

extension Rule {
    package var text: RuleText { .of(name) }

    /// What `pushsweep help RULE` prints, a paragraph each.
    package var lines: [String] {
        let text = text
        return [
            name, "", "Severity: \(text.severity).",
            "Told by: \(looks.map(\.rawValue).joined(separator: ", ")).", "", text.seen, "",
            "Why it matters: \(text.why)", "", "Look closer: \(text.look)", "",
            "Next: \(text.next)",
        ]
    }
}

extension RuleBook {
    /// What `pushsweep help rules` prints: all names, by area.
    package static var index: [String] {
        RuleArea.allCases.flatMap { area in
            [area.rawValue] + all.filter { $0.area == area }.map { "  \($0.name)" } + [""]
        } + ["One of them: pushsweep help NAME"]
    }

    /// The page of all rules: docs/rules.md.
    package static var page: String {
        let areas = RuleArea.allCases.map { area in
            "## \(area.rawValue)\n\n"
                + all.filter { $0.area == area }.map(entry).joined(separator: "\n")
        }
        return """
            # Rules

            What `check`, `audit` and `preflight` find has the name of a rule. `pushsweep help RULE` prints its entry. The \
            names are part of the version promise. Written from the rules themselves; do not edit.

            `--ignore FILE` of the three commands takes [decisions to live with findings](preflight.md#findings-to-live-with).

            \(areas.joined(separator: "\n"))
            """
    }

    private static func entry(_ rule: Rule) -> String {
        let text = rule.text
        return """
            ### \(rule.name)

            *\(text.severity). Told by \(rule.looks.map { "`\($0.rawValue)`" }.joined(separator: ", ")).*

            \(text.seen)

            - **Why it matters.** \(text.why)
            - **Look closer.** \(text.look)
            - **Next.** \(text.next)

            """
    }
}

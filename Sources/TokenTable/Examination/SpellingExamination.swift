import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

// A statement searches a token in the spellings that programs write, so that an index serves it.
// Other spellings of the same token can be read by people, but no search finds them. `check` tells
// which ones a column has, and prints the statement that rewrites them as plain lower-case hex. Each
// statement leaves every value alone that is not of its spelling: identifiers of other platforms,
// shortened descriptions and placeholders may be in the same column.

extension SpellingRewriting {
    /// The findings about tokens in spellings that no search finds, each with the statements that
    /// rewrite them. So many of all such spellings that each run would lose evidence are refused; one
    /// row in thousands is no reason to stop the others.
    func findings(
        _ counts: [UnfindableSpelling: Int], of total: Int
    ) -> [Finding] {
        var separators: Set<UInt8> = []
        var sums: [UnfindableSpelling: Int] = [:]
        for (spelling, count) in counts {
            if case .grouped(let used) = spelling { separators.formUnion(used) }
            sums[spelling.kind, default: 0] += count
        }
        let isRefused = counts.values.reduce(0, +) * 100 >= total
        // Apps, devices or users may be in front of each token; then one example tells enough.
        let order = sums.sorted { ($1.value, $0.key.words) < ($0.value, $1.key.words) }
        let prefixes = order.filter { if case .prefixed = $0.key { true } else { false } }
        let others = order.filter { if case .prefixed = $0.key { false } else { true } }
        return (others + prefixes.prefix(3)).map { spelling, count in
            let statements: [String]? =
                switch spelling {
                case .grouped: ungrouping(separators)
                case .prefixed(let word): cutting(word)
                case .base64: base64
                case .several: nil
                }
            let sentence =
                "column \(layout.token.name) of \(layout.table): \(count) of \(total) rows read have "
                + "\(spelling.words), and sweep and send find none of their tokens; "
                + (spelling == .several
                    ? UnfindableSpelling.oneRowEach : room(for: spelling) + cure(statements))
            return isRefused
                ? .failure(
                    .configuration, sentence, isAboutRows: true, rule: "unfindable-tokens")
                : .warning("unfindable-tokens", sentence)
        }
    }

    private func cure(_ statements: [String]?) -> String {
        let token = layout.token
        let form = token.encoding == .binary ? "the bytes of tokens" : "plain lower-case hex"
        if layout.generated.contains(token.name) {
            return "the column is computed from others: let its expression give \(form)"
        }
        guard let statements else {
            return
                "SQLite has no function that makes bytes of it, so let the app store \(form) and "
                + "rewrite the rows"
        }
        return "let the app store \(form), then run\(statements.count > 1 ? " in one session" : "")"
            + (note.map { " (\($0))" } ?? "") + ": \(statements.joined(separator: "; "))"
    }

    /// What to do first where the new spelling needs more room than the column has.
    private func room(for spelling: UnfindableSpelling) -> String {
        guard layout.token.encoding == .hex, let length else { return "" }
        if length < UnfindableSpelling.usualDigits { return "widen the column to VARCHAR(200), " }
        return spelling == .base64 && length < UnfindableSpelling.mostBytes * 2
            ? "tokens of more than \(length) digits stay as they are until the column is wider; "
            : ""
    }
}

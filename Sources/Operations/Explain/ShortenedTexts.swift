// Texts that a person or an application wrote may hold a whole token: the reason of a mark, the reason
// in the queue, the reason of a report that waits, the cause of a decision. So the finished report is
// searched for the tokens that it explains, and each spelling in hex is shortened. Names of feeds, runs
// and holds are made by this program and stay.

import APNsProtocol
import Foundation

/// Shortens the tokens of a report in its texts.
struct ShortenedTexts {
    /// Longer tokens come first, because one may begin with another.
    private let tokens: [DeviceToken]

    /// Tokens of four bytes or fewer are not searched for: other texts contain so few digits by chance.
    init(_ tokens: [DeviceToken]) {
        self.tokens = tokens.filter { $0.count > 4 }.sorted { $0.count > $1.count }
    }

    /// The text, with each token in it shortened, whatever the case of its digits.
    func shortened(_ text: String) -> String {
        tokens.reduce(text) { text, token in
            text.utf8.count < token.hex.utf8.count
                ? text
                : text.replacingOccurrences(
                    of: token.hex, with: token.redacted, options: [.caseInsensitive, .literal])
        }
    }

    /// Shortens the tokens in the texts of a report.
    func shorten(_ report: inout ExplainReport) {
        report.user = report.user.map(shortened)
        report.gaps = report.gaps.map(shortened)
        report.notes = report.notes.map(shortened)
        for place in report.tokens.indices { shorten(&report.tokens[place]) }
    }

    private func shorten(_ token: inout ExplainedToken) {
        token.now = shortened(token.now)
        token.next = shortened(token.next)
        for place in token.events.indices {
            token.events[place].text = shortened(token.events[place].text)
            for path in Self.eventTexts {
                token.events[place][keyPath: path] = token.events[place][keyPath: path]
                    .map(shortened)
            }
        }
        for place in token.apps.indices {
            token.apps[place].because = shortened(token.apps[place].because)
            token.apps[place].next = shortened(token.apps[place].next)
        }
    }

    private static var eventTexts: [WritableKeyPath<ExplainedEvent, String?>] {
        [
            \.app, \.environment, \.source, \.key, \.action, \.before, \.after, \.reason,
            \.operator, \.host,
        ]
    }
}

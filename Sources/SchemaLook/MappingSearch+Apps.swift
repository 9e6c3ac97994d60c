import Database
import Encodings
import TokenTable

// To which app a row belongs. One app needs no column. Of several each has a topic of its own, and a sender with
// the topic of another app gets a refusal for each of its devices. So a column is the app by its name, or by
// bundle identifiers; all others that may be are a question.

extension MappingSearch {
    private static let mostApps = 20

    mutating func findApp() {
        for column in free where !isUnique(column) {
            let name = ColumnWords(column.name)
            let found = words(column, atMost: Self.mostApps)
            let areBundles = found?.allSatisfy { Self.isBundle($0.word) } == true
            let mayBeKey = name.mayNameApp && column.isInteger
            guard let found, name.namesApp || areBundles || mayBeKey,
                found.allSatisfy({ Self.isName($0.word) })
            else { continue }
            let empty = apple.count - found.reduce(0) { $0 + $1.count }
            // A state of the row is none, and one app says nothing where another column tells several.
            if found.allSatisfy({ ValueWords.isState($0.word) }) { continue }
            if found.count == 1, tellsSeveralApps(besides: column) { continue }
            guard empty * 20 <= apple.count else {
                ask(
                    .app, about: column.name,
                    "column \(column.name) has an app in \(apple.count - empty) of \(apple.count) rows of "
                        + "Apple's devices; rows without one would belong to none, so name it under app only "
                        + "if they do")
                continue
            }
            let isUsual = column.name.lowercased() == "app_id"
            guard found.count > 1 || isUsual || tellsOthers(column, found[0].word) else {
                if areBundles { proposal.topic = found[0].word }
                continue
            }
            proposal.apps = found.map(\.word)
            proposal.mapping.app = .named(column.name)
            let some = found.prefix(4).map { "`\($0.word)` (\($0.count))" }
            return add(
                .app, column.name, column.name.yamlScalar,
                "it has \(found.count) \(found.count == 1 ? "value" : "values"): "
                    + some.joined(separator: ", ") + (found.count > 4 ? ", ..." : ""))
        }
        askManyApps()
        askApp()
    }

    /// Whether another column has several bundle identifiers, or several apps by its name.
    private func tellsSeveralApps(besides column: CatalogColumn) -> Bool {
        free.contains { other in
            guard other.name != column.name, !isUnique(other),
                let found = words(other, atMost: Self.mostApps), found.count > 1
            else { return false }
            return found.allSatisfy { Self.isBundle($0.word) }
                || ColumnWords(other.name).namesApp && found.allSatisfy { Self.isName($0.word) }
        }
    }

    /// Asks about a column whose name is that of apps, and which has more of them than a person lists.
    private mutating func askManyApps() {
        for column in free where ColumnWords(column.name).namesApp && !isUnique(column) {
            let values = table.words(column)
            let kinds = Set(apple.compactMap { values[$0].map(ExactText.init) }).count
            guard kinds > Self.mostApps, kinds * 2 <= apple.count else { continue }
            ask(
                .app, about: column.name,
                "column \(column.name) has \(kinds) values in \(apple.count) rows of Apple's devices: where they "
                    + "are apps, write app: \(column.name.yamlScalar), and an app with each value under apps; "
                    + "rows of another value would belong to none")
        }
    }

    /// Asks about columns that may be the app under a name that is none of the usual ones: one that another
    /// table explains, or one of two words.
    private mutating func askApp() {
        for column in free where !isUnique(column) {
            let name = ColumnWords(column.name)
            let explained = table.explained[column.name]
            guard !proposal.questions.contains(where: { $0.column == column.name }),
                let found = words(column, atMost: Self.mostApps), found.count > 1,
                found.allSatisfy({ Self.isName($0.word) }),
                found.reduce(0, { $0 + $1.count }) * 20 >= apple.count * 19,
                Self.environments(found.map(\.word), name) == nil
            else { continue }
            // A state is a question of its own, and a secret that rows share is nothing to print.
            let isFlag = found.contains { ValueWords.isFlagOrState($0.word) }
            if name.isOfSecret || name.isOfPerson || name.namesEnvironment { continue }
            let isPair = found.count == 2 && column.isText && !isFlag && !name.tellsNoApp
            guard name.mayTellApps || isPair || explained != nil && !name.tellsNoApp else {
                continue
            }
            let some = found.prefix(6).map { word, count in
                let text = explained?.texts[ExactText(word)].map { ", \($0)" } ?? ""
                return "`\(word)` (\(count)\(text))"
            }
            ask(
                .app, about: column.name,
                "column \(column.name) may tell apps apart: it has \(some.joined(separator: ", "))"
                    + (found.count > 6 ? ", ..." : "")
                    + (explained.map { ", as \($0.table) explains them" } ?? "")
                    + "; where each has a topic of its own, write app: \(column.name.yamlScalar), and "
                    + "an app with this value for each under apps")
        }
    }

    /// Whether rows of other platforms have other values of an app's column, and nothing else tells them
    /// apart.
    private func tellsOthers(_ column: CatalogColumn, _ word: String) -> Bool {
        guard proposal.mapping.platform.column == nil else { return false }
        return table.words(column).contains { $0 != nil && $0 != word }
    }

    private func isUnique(_ column: CatalogColumn) -> Bool {
        table.catalog.isUnique([column.name])
    }

    /// Whether a text can be the value of an app in settings and messages: a key, a document or the number of
    /// a version cannot.
    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= longestWord && !PlainText.hasControlCharacter(text) && !isVersion(text)
    }

    /// Whether a text is the number of a version, such as `2.10.1`.
    private static func isVersion(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count > 1
            && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(DecimalDigits.isDigit) }
    }

    private static let domains: Set = [
        "com", "org", "net", "io", "co", "app", "dev", "me", "tv", "edu", "gov", "biz", "info",
        "mobi",
    ]

    /// Whether a text is a bundle identifier in its usual form, a domain from its end.
    private static func isBundle(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let first = String(parts[0])
        let isDomain =
            domains.contains(first) || first.count == 2 && first.allSatisfy(\.isLowercase)
        return parts.count >= 3 && isDomain
            && parts.allSatisfy { part in
                !part.isEmpty
                    && part.utf8.allSatisfy {
                        PlainText.isAlphanumeric($0) || $0 == UInt8(ascii: "-")
                    }
            } && text.contains { $0.isLetter }
    }
}

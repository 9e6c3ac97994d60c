import Database
import Encodings
import TokenTable

// Which rows are those of Apple's devices, and to which environment they belong.

extension MappingSearch {
    /// A column whose words tell rows of Apple's devices from others.
    private struct Split {
        let column: CatalogColumn
        /// The words of Apple's rows, the most frequent first.
        let apple: [String]
        /// The rows that the words judge as their tokens do.
        let agreeing: Int
        let others: Int

        /// Which of two columns tells better: one word for Apple, more rows, a telling name, few words.
        func rank(of rows: Int) -> [Int] {
            [
                apple.count == 1 ? 1 : 0, agreeing * 50 / max(rows, 1),
                ColumnWords(column.name).namesPlatform ? 1 : 0, -others,
            ]
        }
    }

    /// The most words of a column that tells platforms apart, and the most characters of one.
    private static let mostPlatforms = 12
    /// The values from which on any column may tell platforms apart.
    private static let enough = 50
    static let longestWord = 64

    mutating func findPlatform() {
        if takePlatform() { return }
        let judged = table.values(token.column.name).map(token.isApple)
        let total = judged.count { $0 != nil }
        let others = judged.count { $0 == false }
        guard others * 100 >= max(total, 1), !apple.isEmpty else { return askNamedPlatforms() }
        // In few rows many a column tells them apart by chance.
        let isEnough = total >= Self.enough
        let splits = free.filter { isEnough || ColumnWords($0.name).namesPlatform }
            .compactMap { split($0, judged) }.filter { $0.agreeing * 100 >= total * 97 }
        let best = splits.max {
            $0.rank(of: total).lexicographicallyPrecedes($1.rank(of: total))
        }
        guard let best, let word = best.apple.first else { return askPlatform(others, judged) }
        if best.apple.count > 1, ColumnWords(best.column.name).namesApp { return }
        let words = table.words(best.column)
        apple = apple.filter { words[$0].map(best.apple.contains(exactly:)) == true }
        guard !best.apple.contains(where: { PlainText.hasControlCharacter($0) }) else {
            platforms = best.apple
            return askSeveral(
                best.apple, in: best.column, "no setting can have a control character")
        }
        proposal.mapping.platform = PlatformMapping(column: best.column.name, value: word)
        add(
            .platform, best.column.name,
            "{column: \(best.column.name.yamlScalar), value: \(word.yamlScalar)}",
            "rows with \(Self.list(best.apple)) have Apple's tokens, the others identifiers of other "
                + "platforms")
        platforms = best.apple
        guard best.apple.count > 1 else { return }
        askSeveral(best.apple, in: best.column, "only one word can be named")
    }

    /// Asks about a column with words of other platforms, whose tokens look like Apple's.
    private mutating func askNamedPlatforms() {
        for column in free {
            guard let found = words(column, atMost: Self.mostPlatforms) else { continue }
            let mine = found.filter { ValueWords.apple.contains($0.word.lowercased()) }
            let theirs = found.filter { ValueWords.otherPlatforms.contains($0.word.lowercased()) }
            guard let word = mine.first?.word, !theirs.isEmpty else { continue }
            let counts = (mine + theirs).map { "`\($0.word)` (\($0.count))" }
            return ask(
                .platform, about: column.name,
                "column \(column.name) has \(counts.joined(separator: ", ")), and all values of "
                    + "\(token.column.name) look like Apple's: where the others are not sent to APNs, name it",
                answer: LookAnswers.option(.rows(column: column.name, word: word)))
        }
    }

    /// Asks about words of which settings name one or none: a column that is 1 for all of them serves.
    private mutating func askSeveral(
        _ apple: [String], in column: CatalogColumn, _ why: String
    ) {
        let words = table.words(column)
        let counts = apple.map { word in
            "`\(word)` (\(words.count { $0?.isExactly(word) == true }))"
        }
        let name = column.name.yamlScalar
        let environments =
            Self.mayBeEnvironments(apple)
            ? "; or, where the words are its two environments, write no platform but environment: "
                + "{column: \(name), values: {production: \(apple[0].yamlScalar), sandbox: "
                + "\(apple[1].yamlScalar)}}" : ""
        let serving = ServingColumn(saying: apple, in: column, of: table)
        let fault = fault(
            of: ServingTrial(serving, columns: [column], has: .integer(1)) { table in
                table.words(column).map { $0.map(apple.contains(exactly:)) == true }
            })
        let stand = apple.count > 1 ? "all stand" : "stands"
        let fact =
            "\(why), and \(counts.joined(separator: ", ")) \(stand) in rows with Apple's tokens"
        guard fault == nil else {
            return ask(
                .platform, about: column.name,
                "\(fact), but \(fault ?? ""): correct the words in the rows\(environments)")
        }
        ask(
            .platform, about: column.name, "\(fact), so a column can say it of all\(environments)",
            answer: apple.first.flatMap {
                LookAnswers.option(.rows(column: column.name, word: $0))
            },
            statement: serving.statement(for: table.catalog.name, dialect),
            setting: "{column: \(serving.name.yamlScalar), value: 1}")
    }

    /// Whether two words with one beginning may be the environments of Apple, as `IOS` and `IOD`. Spellings of
    /// one word are none.
    private static func mayBeEnvironments(_ words: [String]) -> Bool {
        let bytes = words.map { Array($0.lowercased().utf8) }
        return bytes.count == 2 && bytes[0] != bytes[1] && bytes[0].prefix(2) == bytes[1].prefix(2)
    }

    private func split(_ column: CatalogColumn, _ judged: [Bool?]) -> Split? {
        table.mayHoldWords(column) ? split(column, table.words(column), judged) : nil
    }

    private func split(
        _ column: CatalogColumn, _ words: [String?], _ judged: [Bool?]
    ) -> Split? {
        var counts: [String?: (apple: Int, other: Int)] = [:]
        for (word, isApple) in zip(words, judged) {
            guard let isApple else { continue }
            if let word, word.count > Self.longestWord { return nil }
            counts[word, default: (0, 0)].apple += isApple ? 1 : 0
            counts[word, default: (0, 0)].other += isApple ? 0 : 1
            if counts.count > Self.mostPlatforms { return nil }
        }
        let few = max(1, self.apple.count / 100)
        let mine = counts.filter { word, count in
            word != nil && count.apple >= few && count.other * 32 <= count.apple
        }
        guard !mine.isEmpty, mine.count < counts.count else { return nil }
        let agreeing = counts.reduce(0) {
            $0 + (mine[$1.key] == nil ? $1.value.other : $1.value.apple)
        }
        let order = mine.sorted { ($1.value.apple, $0.key ?? "") < ($0.value.apple, $1.key ?? "") }
        return Split(
            column: column, apple: order.compactMap(\.key), agreeing: agreeing,
            others: counts.count - mine.count)
    }

    private mutating func askPlatform(_ others: Int, _ judged: [Bool?]) {
        if case .json(let path) = token.form, addPlatform(besideTokenAt: path, judged) { return }
        let fact =
            "\(others) of the values read are identifiers of other platforms, and no column "
            + "tells their rows apart"
        for column in free where column.isText {
            guard let word = tellingWord(column, judged) else { continue }
            let serving = ServingColumn(saying: word, in: column, of: table)
            guard fault(of: trial(of: serving, saying: word, in: column)) == nil else { continue }
            return ask(
                .platform, about: column.name,
                "\(fact) by a word of its own; `\(word)` stands in \(column.name) of Apple's rows only, so a "
                    + "column can say it",
                statement: serving.statement(for: table.catalog.name, dialect),
                setting: "{column: \(serving.name.yamlScalar), value: 1}")
        }
        ask(
            .platform,
            "\(fact): evidence never matches them, so nothing is lost; where a column tells them apart, "
                + "name it")
    }

    /// Maps the platform that stands in the same JSON document as the token; false where there is none.
    private mutating func addPlatform(besideTokenAt path: [String], _ judged: [Bool?]) -> Bool {
        let documents = table.values(token.column.name).map { value in
            value.text.flatMap {
                JSONValue(document: Array($0.utf8))?[Array(path.dropLast())]
            }
        }
        let keys = Set(documents.compactMap { $0 }.flatMap(\.keys)).subtracting([path.last ?? ""])
        for key in keys.sorted() {
            let words = documents.map { $0?[[key]]?.text }
            guard let split = split(token.column, words, judged), let word = split.apple.first,
                split.apple.count == 1,
                split.agreeing * 100 >= judged.count(where: { $0 != nil }) * 97
            else { continue }
            let (place, column) = (Array(path.dropLast()) + [key], token.column)
            let serving = ServingColumn(json: place, in: column, of: table)
            let fault = fault(
                of: ServingTrial(serving, columns: [column], has: .text(word)) { table in
                    table.values(column.name).map { value in
                        value.text.map {
                            JSONValue(document: Array($0.utf8))?[place]?.text?
                                .isExactly(word) == true
                        }
                    }
                })
            guard fault == nil, !PlainText.hasControlCharacter(word) else { continue }
            proposal.statements.append(serving.statement(for: table.catalog.name, dialect))
            proposal.mapping.platform = PlatformMapping(column: serving.name, value: word)
            add(
                .platform, serving.name,
                "{column: \(serving.name.yamlScalar), value: \(word.yamlScalar)}",
                "a statement above adds this column; documents with `\(word)` have Apple's tokens")
            return true
        }
        return false
    }

    /// The words of letters in a longer value.
    private static func parts(_ text: String?) -> Set<String> {
        Set((text ?? "").split { !$0.isLetter }.map(String.init).filter { $0.count >= 3 })
    }

    /// A row whose value has the word is one of Apple's, and a row of another platform is not.
    private func trial(
        of serving: ServingColumn, saying word: String, in column: CatalogColumn
    ) -> ServingTrial {
        ServingTrial(serving, columns: [column, token.column], has: .integer(1)) { [token] table in
            zip(table.words(column), table.values(token.column.name)).map { text, value in
                Self.parts(text).contains(word) ? true : token.isApple(value) == false ? false : nil
            }
        }
    }

    /// A word within longer values that stands in rows of Apple's devices and in no others.
    private func tellingWord(_ column: CatalogColumn, _ judged: [Bool?]) -> String? {
        var mine: [String: Int] = [:]
        var theirs: [String: Int] = [:]
        for (word, isApple) in zip(table.words(column), judged) {
            guard let isApple else { continue }
            for part in Self.parts(word) {
                if isApple { mine[part, default: 0] += 1 } else { theirs[part, default: 0] += 1 }
            }
        }
        let total = apple.count
        return mine.filter { $0.value * 100 >= total * 97 && theirs[$0.key] == nil }
            .min { ($1.value, $0.key) < ($0.value, $1.key) }?.key
    }

    // MARK: Environment

    mutating func findEnvironment() {
        var doubts: [(CatalogColumn, [String], Int)] = []
        var sure: [(column: CatalogColumn, values: [String: String])] = []
        for column in free {
            guard let found = words(column, atMost: 8) else { continue }
            let name = ColumnWords(column.name)
            let empty = apple.count - found.reduce(0) { $0 + $1.count }
            let values = Self.environments(found.map(\.word), name)
            if let values, empty * 20 <= apple.count, column.type != "bit", name.tellsEnvironment,
                name.words != ["mode"] || found.allSatisfy({ $0.word.utf8.count == 1 })
            {
                sure.append((column, values))
            } else if name.namesEnvironment || values != nil {
                // The words alone may be about anything that is tried out before it is sold.
                doubts.append((column, found.map(\.word), empty))
            }
        }
        // One that names APNs, then one of both words.
        let best = sure.enumerated().max { one, other in
            func rank(
                _ one: (offset: Int, element: (column: CatalogColumn, values: [String: String]))
            )
                -> [Int]
            {
                let name = ColumnWords(one.element.column.name)
                return [
                    name.has(["apns", "apn", "push", "token"]) ? 1 : 0,
                    name.namesEnvironment ? 1 : 0, one.element.values.count, -one.offset,
                ]
            }
            return rank(one).lexicographicallyPrecedes(rank(other))
        }
        guard let best else {
            for (column, words, empty) in doubts { askEnvironment(column, words, empty) }
            return
        }
        addEnvironment(
            best.element.column, best.element.values,
            words(best.element.column, atMost: 8) ?? [])
        for other in sure where other.column.name != best.element.column.name {
            askEnvironment(
                other.column, (words(other.column, atMost: 8) ?? []).map(\.word), 0,
                beside: best.element.column.name)
        }
    }

    private mutating func addEnvironment(
        _ column: CatalogColumn, _ values: [String: String], _ found: [(word: String, count: Int)]
    ) {
        proposal.mapping.environment = .named(column.name)
        var given: [String] = []
        for (environment, word) in values.sorted(by: { $0.key < $1.key }) {
            if found.contains(where: { $0.word == word }) {
                proposal.environments.insert(environment)
            }
            guard word != environment else { continue }
            proposal.mapping.environmentValues[environment] = word
            given.append("\(environment): \(word.yamlScalar)")
        }
        let name = column.name.yamlScalar
        add(
            .environment, column.name,
            given.isEmpty
                ? name : "{column: \(name), values: {\(given.joined(separator: ", "))}}",
            "its values are "
                + found.map { "`\($0.word)` (\($0.count))" }.joined(separator: ", "))
    }

    /// Asks about a column that may be the environment, perhaps beside one that is taken.
    private mutating func askEnvironment(
        _ column: CatalogColumn, _ words: [String], _ empty: Int, beside taken: String? = nil
    ) {
        guard !proposal.questions.contains(where: { $0.column == column.name }) else { return }
        func first(_ known: Set<String>, else others: (String) -> Bool) -> String? {
            words.first { known.contains($0.lowercased()) } ?? words.first(where: others)
        }
        let production =
            first(ValueWords.production) { !ValueWords.sandbox.contains($0.lowercased()) } ?? "1"
        let sandbox =
            first(ValueWords.sandbox) {
                $0 != production && !ValueWords.production.contains($0.lowercased())
            } ?? "0"
        let cure =
            column.type == "bit"
            ? "; a BIT cannot be compared: add a generated column of TINYINT" : ""
        ask(
            .environment, about: column.name,
            "column \(column.name) may be the environment"
                + (taken.map { " in place of \($0)" } ?? "")
                + ": it has \(Self.list(words.prefix(8)))"
                + (empty > 0 ? ", and nothing in \(empty) rows" : "")
                + "; write `none`, or its values, such as environment: {column: \(column.name.yamlScalar), "
                + "values: {production: \(production.yamlScalar), sandbox: "
                + "\(sandbox.yamlScalar)}}\(cure)")
    }

    /// The words for production and sandbox, as far as they are known; nil where the words mean
    /// something else.
    static func environments(_ words: [String], _ name: ColumnWords) -> [String: String]? {
        if name.isSandboxFlag || name.isProductionFlag {
            let flags = words.compactMap { word in ValueWords.flag(word).map { ($0, word) } }
            if flags.count == words.count, let first = flags.first {
                let other = Self.opposite(first.1)
                var result: [String: String] = [:]
                for (flag, word) in flags + (other.map { [(!first.0, $0)] } ?? []) {
                    result[flag == name.isSandboxFlag ? "sandbox" : "production"] = word
                }
                return result
            }
        }
        var result: [String: String] = [:]
        for word in words {
            let lower = word.lowercased()
            guard !ValueWords.ambiguous.contains(lower) || name.namesEnvironment else { return nil }
            let environment =
                ValueWords.production.contains(lower)
                ? "production" : ValueWords.sandbox.contains(lower) ? "sandbox" : nil
            guard let environment, result.updateValue(word, forKey: environment) == nil else {
                return nil
            }
        }
        return result
    }

    /// The other word of a pair of yes and no.
    static func opposite(_ word: String) -> String? {
        let pairs = [
            ("1", "0"), ("y", "n"), ("true", "false"), ("t", "f"), ("yes", "no"), ("on", "off"),
            ("j", "n"), ("ja", "nein"), ("si", "no"), ("oui", "non"),
        ]
        // In the case of the word: `True` has `False`.
        for change in [{ $0 }, { $0.uppercased() }, { $0.prefix(1).uppercased() + $0.dropFirst() }]
            as [(String) -> String]
        {
            for (yes, no) in pairs {
                if word == change(yes) { return change(no) }
                if word == change(no) { return change(yes) }
            }
        }
        return nil
    }
}

import Database
import Encodings
import FoundationEssentials
import TokenTable

// A column of tokens is found by its values. Where several columns have values that could be tokens, as a
// session's key has 64 hex digits too, their names decide; and where names do not, a person.
//
//   score = 3 x (share of the values that look like Apple's tokens) + name of the column + name of the table

/// How tokens of Apple's devices are written in a column.
enum TokenForm: Hashable {
    /// 64 hex digits or more.
    case hex
    /// The bytes themselves.
    case bytes
    /// A spelling that no search finds, which a statement rewrites.
    case spelled(UnfindableSpelling)
    /// The last part of an address.
    case url
    /// A text in a JSON object, at this path.
    case json(path: [String])

    /// The form of a value as Apple's tokens have it; nil for empty ones and identifiers of other
    /// platforms.
    init?(_ value: SQLValue, of column: CatalogColumn) {
        let text: [UInt8]
        switch value {
        case .text(let word): text = Array(word.utf8)
        case .bytes(let bytes): text = bytes
        default: return nil
        }
        guard text.count >= UnfindableSpelling.usualDigits / 2 else { return nil }
        let isDocument = text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[")
        if Self.isHex(text) {
            self = .hex
        } else if column.isBinary, !text.allSatisfy({ (0x20..<0x7F).contains($0) }) {
            guard text.count <= UnfindableSpelling.mostBytes else { return nil }
            self = .bytes
        } else if isDocument {
            guard let form = Self.json(text) else { return nil }
            self = form
        } else if let form = Self.url(text) {
            self = form
        } else if let spelling = UnfindableSpelling(ofText: text) {
            self = .spelled(spelling.kind)
        } else {
            return nil
        }
    }

    private static func isHex(_ text: [UInt8]) -> Bool {
        (UnfindableSpelling.usualDigits...UnfindableSpelling.mostBytes * 2).contains(text.count)
            && text.count % 2 == 0 && text.allSatisfy { Hex.value(of: $0) != nil }
            // Programs store 64 zeros where they have no token.
            && text.contains { $0 != text[0] }
    }

    private static func url(_ text: [UInt8]) -> TokenForm? {
        guard text.isOfAddress,
            let last = text.split(separator: UInt8(ascii: "/")).last, isHex(Array(last))
        else { return nil }
        return .url
    }

    /// Where a JSON text has a token; nil where it has none.
    private static func json(_ text: [UInt8]) -> TokenForm? {
        guard let value = JSONValue(document: text) else {
            // A longer text was cut. Other lists have brackets, too.
            let count = text.split { Hex.value(of: $0) == nil }.count { isHex(Array($0)) }
            let isCut = text.count > RowSampling.longestValue
            if count > (isCut ? 0 : 1) { return .spelled(.several) }
            return UnfindableSpelling(ofText: text).map { .spelled($0.kind) }
        }
        var found: [TokenForm] = []
        func find(_ value: JSONValue, _ path: [String]) {
            switch value {
            case .text(let word):
                let text = Array(word.utf8)
                if isHex(text) {
                    found.append(.json(path: path))
                } else if UnfindableSpelling(ofText: text) == .several {
                    found.append(.spelled(.several))
                }
            case .object(let object):
                for (key, value) in object.sorted(by: { $0.key < $1.key }) {
                    find(value, path + [key])
                }
            case .list(let list):
                let before = found.count
                for value in list { find(value, path) }
                if found.count > before {
                    found.replaceSubrange(before..., with: [.spelled(.several)])
                }
            default: break
            }
        }
        find(value, [])
        // Hashes may stand beside the token, and another one whose name is as good.
        guard let best = found.map(\.nameScore).max() else { return nil }
        let good = found.filter { $0.nameScore == best }
        return good.count == 1 ? good[0] : .spelled(.several)
    }

    /// How much the last name of a path speaks for tokens.
    private var nameScore: Double {
        guard case .json(let path) = self, let last = path.last else { return -20 }
        return ColumnWords(last).tokenScore
    }

    /// The form in a few words.
    var words: String {
        switch self {
        case .hex: "64 hex digits or more"
        case .bytes: "bytes of the length of a token"
        case .spelled(let spelling): spelling.words
        case .url: "a URL that ends with a token"
        case .json(let path): "a JSON document with a token at \(path.joined(separator: "."))"
        }
    }

    /// Whether a search finds tokens in this form.
    var isSearchable: Bool { self == .hex || self == .bytes }
}

/// A column that may hold the tokens.
struct TokenCandidate: Hashable {
    let column: CatalogColumn
    /// The form that most of the values with a token have.
    let form: TokenForm
    /// The values in this form, and those that are not empty.
    let count: Int
    let filled: Int
    let score: Double
    /// How much the name of the column, or of the place in its documents, speaks for tokens.
    let nameScore: Double
    /// The values that are identifiers of other platforms by their form.
    let others: Int
    /// Values that are no tokens and stand in several rows: what programs store where they have none.
    private let placeholders: Set<SQLValue>

    /// The column of a table, judged by its values; nil where they are no tokens.
    init?(_ column: CatalogColumn, of table: LookedTable) {
        let values = table.values(column.name)
        var forms: [TokenForm: Int] = [:]
        for form in values.compactMap({ TokenForm($0, of: column) }) {
            forms[form, default: 0] += 1
        }
        let filled = values.count { !TokenSample.isBlank($0) }
        guard let best = forms.max(by: { $0.value < $1.value }), filled > 0 else { return nil }
        let share = Double(best.value) / Double(filled)
        let rest = values.filter { !TokenSample.isBlank($0) && TokenForm($0, of: column) == nil }
        others = rest.count(where: Self.isOfOtherPlatform)
        placeholders = Set(
            Dictionary(grouping: rest) { $0 }.filter { $0.value.count > Self.mostShared }.keys)
        var name = ColumnWords(column.name).tokenScore
        if case .json(let path) = best.key, let last = path.last {
            name = max(name, ColumnWords(last).tokenScore - 2)
        } else if best.key == .spelled(.several) {
            name = max(name, 0) - 1
        } else if !best.key.isSearchable || best.key == .bytes, name < 1 {
            name -= 2
        }
        // Where devices of Apple are few, the others show what the column is.
        let isOfTokens = name >= 4 || others * 2 >= filled
        guard share >= (isOfTokens ? 0.002 : 0.2), share >= 0.02 || best.value > 1 else {
            return nil
        }
        nameScore = name
        self.column = column
        (form, count, self.filled) = (best.key, best.value, filled)
        score = 3 * share + name + ColumnWords(table.catalog.name.name).tableScore
    }

    /// The score from which a column is taken for that of the tokens without a person's word.
    static let leastScore = 1.0
    /// The lead that makes one column more likely than another one.
    static let lead = 1.0

    /// The candidates of a table, the most likely first.
    static func all(of table: LookedTable) -> [TokenCandidate] {
        table.columns.filter(mayHoldTokens).compactMap { TokenCandidate($0, of: table) }
            .sorted { $0.score > $1.score }
    }

    /// Whether the type of a column has room for tokens.
    static func mayHoldTokens(_ column: CatalogColumn) -> Bool {
        let isLong = column.isText || column.isBinary || ["json", ""].contains(column.type)
        return isLong && column.length ?? .max >= UnfindableSpelling.usualDigits / 2
    }

    /// Whether a value of the column is a token of Apple's; nil for an empty one, a placeholder, and a
    /// token in another form than most.
    func isApple(_ value: SQLValue) -> Bool? {
        if TokenSample.isBlank(value) { return nil }
        let form = TokenForm(value, of: column)
        if form == self.form { return true }
        let word = value.text?.lowercased() ?? ""
        let tellsNothing =
            form != nil || word.utf8.count < Self.shortest || placeholders.contains(value)
            || ValueWords.placeholders.contains(word)
        return tellsNothing ? nil : false
    }

    /// The most rows with the same identifier: those of a device that several people use.
    private static let mostShared = 3

    /// Whether a value is an identifier of a platform that is known by it: of Google, of Expo, or the
    /// address of a browser.
    private static func isOfOtherPlatform(_ value: SQLValue) -> Bool {
        guard let text = value.text, text.utf8.count >= shortest else { return false }
        let bytes = Array(text.utf8)
        return text.contains(":APA91b") || bytes.starts(with: "APA91b".utf8)
            || bytes.starts(with: "ExponentPushToken[".utf8) || bytes.starts(with: "https://".utf8)
            // Of Huawei, and of Google without its usual beginning.
            || bytes.count > 100
                && bytes.allSatisfy { PlainText.isAlphanumeric($0) || "-_:%+/=.".utf8.contains($0) }
    }

    /// The least bytes of an identifier of another platform.
    private static let shortest = 12
}

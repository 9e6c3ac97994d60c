import Encodings

// The ledger names a row by its key and says what its mark was, but not by which columns. One row may have
// two tokens, each with a mark of its own and a settings file of its own, and settings change. So a
// checkpoint has the columns that its entries are about:
//
//   key | token | mark,reason        id | push_token | invalidated_at,invalid_reason
//   key | token | mark=dead          id | push_token | active=0
//
// The value of dead rows is there because an entry does not say what was written: under other words an undo
// would take the application's own value for it.
//
// A batch that began under one text and ends under another has entries of both; its text is empty, which fits
// nothing.

/// The columns that entries of the ledger are about, as a checkpoint stores them.
struct EntryColumns: Hashable {
    private let key: String
    private let token: String
    private let mark: String
    /// The mark without the value that it writes.
    private let markColumns: String

    /// The columns of one mapping, in any case of letters, since databases ignore it, and the value of dead rows
    /// where the mark is a column of two.
    init(key: [String], token: String, mark: [String], dead: String? = nil) {
        func list(_ names: [String], longest: Int) -> String {
            Self.shortened(
                names.map { $0.lowercased() }.joined(separator: ","), longest: longest)
        }
        self.key = list(key, longest: 120)
        self.token = list([token], longest: 60)
        markColumns = list(mark, longest: 69)
        self.mark = Self.shortened(markColumns + (dead.map { "=\($0)" } ?? ""), longest: 69)
    }

    /// At most 255 characters.
    var text: String { "\(keyAndToken)\(mark)" }

    private var keyAndToken: String { "\(key) | \(token) | " }

    /// What of these columns is the same in a stored text.
    struct Likeness: Hashable {
        /// Whether it names rows by the same key.
        var hasKey = false
        /// Whether it is about the same token.
        var hasToken = false
        /// Whether it has the same mark, with the same value.
        var hasMark = false
        /// Whether it has the same mark, with whatever value.
        var hasMarkColumns = false
    }

    /// Compares with the text of a checkpoint, byte by byte.
    func likeness(to stored: String?) -> Likeness {
        guard let stored = stored?.utf8 else { return Likeness() }
        return Likeness(
            hasKey: stored.starts(with: "\(key) | ".utf8),
            hasToken: stored.starts(with: keyAndToken.utf8),
            hasMark: stored.elementsEqual(text.utf8),
            hasMarkColumns: stored.elementsEqual("\(keyAndToken)\(markColumns)".utf8)
                || stored.starts(with: "\(keyAndToken)\(markColumns)=".utf8))
    }

    /// A text of limited length, whose end stands for what is cut.
    private static func shortened(_ text: String, longest: Int) -> String {
        guard text.unicodeScalars.count > longest else { return text }
        let digits = String(FNV1a.hash(text), radix: 16)
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(longest - 9)))
            + "~" + digits
    }
}

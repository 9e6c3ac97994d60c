import FoundationEssentials

// The effects of a change to the token table on other rows. A foreign key of another table may
// remove or empty rows with it (ON DELETE CASCADE, SET NULL), and a trigger may write to any table.
// The ledger has no entries for those rows, so an undo could not restore them.
//
// Servers show a foreign key to accounts with some right on the table that has it, and that table
// may be in any schema. An account with rights on the token table alone sees none, so an empty list
// proves nothing. Only a right on all tables shows all of them, and MySQL takes such a right away again
// schema by schema (partial_revokes). An administrator who is kept out of a schema hands that on with what
// he grants. So the account's own list of rights is read, see `GrantedRights`.
//
// A mark changes a column of the row, so the rule for updates counts too where a foreign key refers to that
// column.
// MariaDB shows the triggers of a table to every account that may change it, MySQL to those with the
// right TRIGGER; see `Catalog.seesTriggers`.

/// The foreign keys and triggers that act when rows of the token table change.
package struct TableReach: Hashable, Sendable {
    /// A foreign key of another table that refers to this one.
    package struct Key: Hashable, Sendable {
        /// The name of the table that has it.
        package let table: String
        /// The action when a row is removed, in capitals: `CASCADE`, `SET NULL`, `RESTRICT` and so
        /// on.
        package let rule: String
        /// The action when a column that it refers to changes.
        package var updateRule = "RESTRICT"
        /// The columns that it refers to, where a change of them has an effect; empty where they are not
        /// known.
        package var columns: [String] = []

        /// Whether removing a row changes rows of that table.
        package var spreads: Bool { Self.spreads(rule) }

        /// Whether changing some columns of a row changes rows of that table.
        package func spreads(updating names: [String]) -> Bool {
            let names = Set(names.map { $0.lowercased() })
            return Self.spreads(updateRule)
                && (columns.isEmpty || columns.contains { names.contains($0.lowercased()) })
        }

        fileprivate static func spreads(_ rule: String) -> Bool {
            rule != "RESTRICT" && rule != "NO ACTION"
        }
    }

    /// A trigger of the token table.
    package struct Trigger: Hashable, Sendable {
        /// The trigger's name.
        package let name: String
        /// `INSERT`, `UPDATE` or `DELETE`.
        package let event: String
        /// Its statements as SQL, in SQLite the whole trigger; empty where the account may not see
        /// them.
        package let body: String
        /// The account with whose rights it runs; nil for SQLite.
        package var definer: String?
        /// Whether it can write rows of its own table: on a server one that runs before the row is written, in
        /// SQLite each.
        package var mayWriteTable = true
    }

    /// The foreign keys of other tables that refer to this one.
    package var keys: [Key] = []
    /// The triggers that run when its rows change.
    package var triggers: [Trigger] = []
    /// Whether the account has a right on all tables, which shows their foreign keys.
    package var hasWideRight = true
    /// The schemas in which that right was taken away again, in order.
    package var hiddenSchemas: [String] = []
    /// Whether the account sees the foreign keys of all tables of all schemas.
    package var seesKeys: Bool { hasWideRight && hiddenSchemas.isEmpty }
    /// Whether an account that may change rows of the table sees its triggers.
    package var seesTriggers = true
}

extension Catalog {
    /// The foreign keys and triggers that act when rows of a table change. Throws any failure of
    /// the query.
    package func reach(of name: TableName) throws(SQLFailure) -> TableReach {
        switch connection.dialect.engine {
        case .mariaDB: try serverReach(name)
        case .sqlite: try sqliteReach(name)
        }
    }

    /// The events of a trigger in capitals. One of MariaDB 12 may have several, separated by commas
    /// (`EVENT_MANIPULATION` of information_schema.TRIGGERS).
    static func events(_ list: String) -> [String] {
        list.uppercased().split(separator: ",").map { $0.filter { !$0.isWhitespace } }
    }

    /// The triggers that run when rows of a table change. Throws any failure of the query.
    package func triggers(of name: TableName) throws(SQLFailure) -> [TableReach.Trigger] {
        let rows: SQLRows
        switch connection.dialect.engine {
        case .mariaDB:
            rows = try connection.query(
                """
                SELECT TRIGGER_NAME, EVENT_MANIPULATION, ACTION_STATEMENT, DEFINER, ACTION_TIMING \
                FROM information_schema.TRIGGERS \
                WHERE EVENT_OBJECT_SCHEMA = COALESCE(?, DATABASE()) AND EVENT_OBJECT_TABLE = ?
                """, [name.schema.map(SQLValue.text) ?? .null, .text(name.name)])
            return (0..<rows.count).flatMap { row in
                Self.events(rows[row, 1].text ?? "").map {
                    TableReach.Trigger(
                        name: rows[row, 0].text ?? "", event: $0, body: rows[row, 2].text ?? "",
                        definer: rows[row, 3].text,
                        mayWriteTable: rows[row, 4].text?.uppercased() == "BEFORE")
                }
            }
        case .sqlite:
            let schema = connection.dialect.quoted(name.schema ?? "main")
            rows = try connection.query(
                "SELECT name, sql FROM \(schema).sqlite_master WHERE type = 'trigger' "
                    + "AND tbl_name = ? COLLATE NOCASE", [.text(name.name)])
            return (0..<rows.count).map {
                TableReach.Trigger(
                    name: rows[$0, 0].text ?? "",
                    event: Self.event(ofTrigger: rows[$0, 1].text ?? ""),
                    body: rows[$0, 1].text ?? "")
            }
        }
    }

    private func serverReach(_ name: TableName) throws(SQLFailure) -> TableReach {
        let place: [SQLValue] = [name.schema.map(SQLValue.text) ?? .null, .text(name.name)]
        let keys = try connection.query(
            """
            SELECT CONSTRAINT_SCHEMA, TABLE_NAME, DELETE_RULE, UPDATE_RULE, CONSTRAINT_NAME \
            FROM information_schema.REFERENTIAL_CONSTRAINTS \
            WHERE UNIQUE_CONSTRAINT_SCHEMA = COALESCE(?, DATABASE()) AND REFERENCED_TABLE_NAME = ?
            """, place)
        var reach = TableReach()
        for row in 0..<keys.count {
            var key = TableReach.Key(
                table: "\(keys[row, 0].text ?? "").\(keys[row, 1].text ?? "")",
                rule: (keys[row, 2].text ?? "").uppercased(),
                updateRule: (keys[row, 3].text ?? "").uppercased())
            if TableReach.Key.spreads(key.updateRule) {
                let columns = try connection.query(
                    "SELECT REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE "
                        + "TABLE_SCHEMA = ? AND TABLE_NAME = ? AND CONSTRAINT_NAME = ? "
                        + "AND REFERENCED_COLUMN_NAME IS NOT NULL",
                    [keys[row, 0], keys[row, 1], keys[row, 4]])
                key.columns = (0..<columns.count).compactMap { columns[$0, 0].text }
            }
            reach.keys.append(key)
        }
        reach.triggers = try triggers(of: name)
        if reach.triggers.isEmpty { reach.seesTriggers = try seesTriggers(of: name) }
        let rights = try grantedRights()
        reach.hasWideRight = rights.areWide
        reach.hiddenSchemas = rights.hiddenSchemas
        return reach
    }

    private func sqliteReach(_ name: TableName) throws(SQLFailure) -> TableReach {
        let schema = connection.dialect.quoted(name.schema ?? "main")
        let keys = try connection.query(
            """
            SELECT m.name, k.on_delete, k.on_update, k."to" FROM \(schema).sqlite_master m, \
            pragma_foreign_key_list(m.name) k WHERE m.type = 'table' AND k."table" = ? COLLATE NOCASE
            """, [.text(name.name)])
        var reach = TableReach()
        reach.keys = (0..<keys.count).map { row in
            TableReach.Key(
                table: keys[row, 0].text ?? "", rule: (keys[row, 1].text ?? "").uppercased(),
                updateRule: (keys[row, 2].text ?? "").uppercased(),
                // Without a name it is the primary key.
                columns: [keys[row, 3].text].compactMap { $0 })
        }
        reach.triggers = try triggers(of: name)
        return reach
    }

    /// The closing character of each kind of quote.
    static let quotes: [Unicode.Scalar: Unicode.Scalar] = [
        "\"": "\"", "`": "`", "[": "]", "'": "'",
    ]

    /// A statement without its comments, which may contain any words.
    static func uncommented(_ sql: String) -> String {
        var kept = String.UnicodeScalarView()
        var rest = sql.unicodeScalars[...]
        var closing: Unicode.Scalar?
        while let character = rest.first {
            if closing == nil, rest.first == "#" || rest.starts(with: "--".unicodeScalars) {
                rest = rest.drop { $0 != "\n" }
            } else if closing == nil, rest.starts(with: "/*".unicodeScalars) {
                let end = rest.firstRange(of: "*/".unicodeScalars)?.upperBound
                rest = rest[(end ?? rest.endIndex)...]
                kept.append(" ")
            } else {
                closing = closing == nil ? quotes[character] : character == closing ? nil : closing
                kept.append(character)
                rest.removeFirst()
            }
        }
        return String(kept)
    }

    /// The event in the text of a trigger: the first of the three event words outside quotes,
    /// because names in quotes may be any words. A trigger without one may be for any event.
    static func event(ofTrigger sql: String) -> String {
        words(sql).first { !$0.isQuoted && ["delete", "insert", "update"].contains($0.text) }?
            .text.uppercased() ?? "DELETE"
    }

    /// The words of a text in lower case, each sign by itself, names without their quotes.
    static func words(_ sql: String) -> [(text: String, isQuoted: Bool)] {
        var words: [(text: String, isQuoted: Bool)] = []
        var word = String.UnicodeScalarView()
        var closing: Unicode.Scalar?
        for character in (uncommented(sql) + " ").unicodeScalars {
            if let end = closing {
                if character == end {
                    words.append((end == "'" ? "''" : String(word).lowercased(), true))
                    (word, closing) = ("".unicodeScalars, nil)
                } else {
                    word.append(character)
                }
            } else if Catalog.isPartOfWord(character) {
                word.append(character)
            } else {
                if !word.isEmpty { words.append((String(word).lowercased(), false)) }
                word = "".unicodeScalars
                closing = quotes[character]
                if closing == nil, !character.properties.isWhitespace {
                    words.append((String(character), false))
                }
            }
        }
        return words
    }

    /// Whether a character may stand in a name without quotes: servers take all above ASCII.
    private static func isPartOfWord(_ character: Unicode.Scalar) -> Bool {
        character.value >= 0x80 && !character.properties.isWhitespace
            || "_$@".unicodeScalars.contains(character)
            || PlainText.isAlphanumeric(UInt8(truncatingIfNeeded: character.value))
                && character.isASCII
    }
}

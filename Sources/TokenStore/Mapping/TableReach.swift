// What a change to a row of the token table does to other rows. A foreign key of another table may remove
// or empty rows with it (ON DELETE CASCADE, SET NULL), and a trigger may write anywhere. The ledger knows
// nothing of those rows, so an undo could not bring them back.
//
// Servers show a foreign key to accounts that have some right on the table which has it. An account with
// rights on the token table alone sees none, so what it does not see proves nothing; `seesKeys` says
// whether it does. Triggers of a table MariaDB shows to every account that may read it.

/// What stands beside the token table and changes with its rows.
struct TableReach: Hashable, Sendable {
    /// A foreign key of another table that refers to this one.
    struct Key: Hashable, Sendable {
        /// The table that has it.
        let table: String
        /// What it does when a row is removed, in capitals: `CASCADE`, `SET NULL`, `RESTRICT` and so on.
        let rule: String

        /// Whether removing a row changes rows of that table.
        var spreads: Bool { rule != "RESTRICT" && rule != "NO ACTION" }
    }

    /// A trigger of the token table.
    struct Trigger: Hashable, Sendable {
        let name: String
        /// `INSERT`, `UPDATE` or `DELETE`.
        let event: String
    }

    var keys: [Key] = []
    var triggers: [Trigger] = []
    /// Whether the account sees the foreign keys of all tables of the schema.
    var seesKeys = true
}

extension Catalog {
    /// What changes with rows of a table.
    func reach(of name: TableName) throws(SQLFailure) -> TableReach {
        switch connection.dialect.engine {
        case .mariaDB: try serverReach(name)
        case .sqlite: try sqliteReach(name)
        }
    }

    private func serverReach(_ name: TableName) throws(SQLFailure) -> TableReach {
        let place: [SQLValue] = [name.schema.map(SQLValue.text) ?? .null, .text(name.name)]
        let keys = try connection.query(
            """
            SELECT CONCAT(CONSTRAINT_SCHEMA, '.', TABLE_NAME), DELETE_RULE \
            FROM information_schema.REFERENTIAL_CONSTRAINTS \
            WHERE UNIQUE_CONSTRAINT_SCHEMA = COALESCE(?, DATABASE()) AND REFERENCED_TABLE_NAME = ?
            """, place)
        let triggers = try connection.query(
            """
            SELECT TRIGGER_NAME, EVENT_MANIPULATION FROM information_schema.TRIGGERS \
            WHERE EVENT_OBJECT_SCHEMA = COALESCE(?, DATABASE()) AND EVENT_OBJECT_TABLE = ?
            """, place)
        // The account as the catalog spells it. A right given by a role does not show here.
        let rights = try connection.query(
            """
            SELECT (SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES \
            WHERE COALESCE(?, DATABASE()) LIKE TABLE_SCHEMA AND GRANTEE = account.name) \
            + (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES \
            WHERE PRIVILEGE_TYPE <> 'USAGE' AND GRANTEE = account.name) FROM (SELECT CONCAT('''', \
            REPLACE(SUBSTRING_INDEX(CURRENT_USER(), '@', \
            LENGTH(CURRENT_USER()) - LENGTH(REPLACE(CURRENT_USER(), '@', ''))), '''', ''''''), '''@''', \
            SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''') AS name) AS account
            """, [place[0]])
        var reach = TableReach(keys: Self.keys(keys))
        reach.triggers = (0..<triggers.count).map {
            TableReach.Trigger(
                name: triggers[$0, 0].text ?? "", event: (triggers[$0, 1].text ?? "").uppercased())
        }
        reach.seesKeys = (rights.scalar?.count ?? 0) > 0
        return reach
    }

    /// Foreign keys by table and rule.
    private static func keys(_ rows: SQLRows) -> [TableReach.Key] {
        (0..<rows.count).map {
            TableReach.Key(
                table: rows[$0, 0].text ?? "", rule: (rows[$0, 1].text ?? "").uppercased())
        }
    }

    private func sqliteReach(_ name: TableName) throws(SQLFailure) -> TableReach {
        let schema = connection.dialect.quoted(name.schema ?? "main")
        let keys = try connection.query(
            """
            SELECT m.name, k.on_delete FROM \(schema).sqlite_master m, \
            pragma_foreign_key_list(m.name) k WHERE m.type = 'table' AND k."table" = ? COLLATE NOCASE
            """, [.text(name.name)])
        let triggers = try connection.query(
            "SELECT name, sql FROM \(schema).sqlite_master WHERE type = 'trigger' "
                + "AND tbl_name = ? COLLATE NOCASE", [.text(name.name)])
        var reach = TableReach(keys: Self.keys(keys))
        reach.triggers = (0..<triggers.count).map {
            TableReach.Trigger(
                name: triggers[$0, 0].text ?? "",
                event: Self.event(ofTrigger: triggers[$0, 1].text ?? ""))
        }
        return reach
    }

    /// What closes each kind of quote.
    private static let quotes: [Character: Character] = ["\"": "\"", "`": "`", "[": "]", "'": "'"]

    /// The event in the text of a trigger: its first bare word of three, since names in quotes may be
    /// any words.
    static func event(ofTrigger sql: String) -> String {
        var word = ""
        var closing: Character?
        for character in sql + " " {
            if let end = closing {
                if character == end { closing = nil }
            } else if let end = Self.quotes[character] {
                closing = end
                word = ""
            } else if character.isLetter || character == "_" || character.isNumber {
                word.append(character)
            } else {
                if ["DELETE", "INSERT", "UPDATE"].contains(word.uppercased()) {
                    return word.uppercased()
                }
                word = ""
            }
        }
        // One that cannot be read may be about anything.
        return "DELETE"
    }
}

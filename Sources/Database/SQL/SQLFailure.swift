/// An error of a driver, classified by the possible reaction.
package struct SQLFailure: Error, Hashable, Sendable {
    /// The possible reaction to an error.
    package enum Kind: Hashable, Sendable {
        /// The engine rolled the transaction back in favour of another: redo it.
        case conflict
        /// The connection is lost; uncommitted changes are undone.
        case lost
        /// The server accepts no more work for a moment.
        case overloaded
        /// No answer from the address.
        case unreachable
        /// The peer could not prove its identity, or refused to encrypt.
        case untrusted
        /// The server or file accepts no changes; another node may.
        case readOnly
        /// The account lacks a right.
        case permission
        /// The statement does not fit the schema: settings and database disagree.
        case configuration
        /// The row or its content is refused: by a trigger, a foreign key, a check, or because a
        /// value does not fit its column. Other rows may still be accepted.
        case refused
        /// Another run has taken the lease: this one must make no more changes.
        case leaseLost
        /// Any other error.
        case other
    }

    /// The possible reaction to the error.
    package let kind: Kind
    /// The engine's error number.
    package let code: Int
    /// The engine's message, limited in length, on one line, without stored values.
    package let message: String

    /// Makes an error; the message is shortened and put on one line.
    package init(kind: Kind, code: Int, message: String) {
        self.kind = kind
        self.code = code
        let printable = message.unicodeScalars.map { scalar -> Character in
            scalar.value < 0x20 || scalar.value == 0x7F ? " " : Character(scalar)
        }
        self.message = String(printable.prefix(240))
    }

    /// Whether a row with the same key exists already: 1062 of servers, SQLITE_CONSTRAINT.
    package var isDuplicate: Bool { code == 1062 || code == 19 }

    /// Whether a table is missing or cannot be read. Servers distinguish the two only for accounts
    /// with rights: 1146 and SQLite's "no such table", 1142, and 1143 for some of its columns.
    var isAbsentOrHidden: Bool {
        [1_142, 1_143, 1_146].contains(code) || code == 1 && message.hasPrefix("no such table")
    }

    /// Whether the connection has to be opened again before any other operation.
    var needsConnection: Bool {
        switch kind {
        case .lost, .unreachable, .overloaded, .readOnly: true
        default: false
        }
    }
}
